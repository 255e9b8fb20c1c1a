// SPDX-License-Identifier: Apache-2.0

package wifi

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"minne/internal/base/nl80211"
	"minne/internal/model/config"
)

// find returns the radio of the machine that a section means, nil when it is not there.
func find(name string, r *config.Radio, radios []nl80211.Radio) *nl80211.Radio {
	n := slices.IndexFunc(radios, func(p nl80211.Radio) bool {
		switch m := r.Match; {
		case m == nil:
			return p.Name == name
		case m.Name != "":
			return p.Name == m.Name
		case m.Path != "":
			return p.Path == m.Path
		default:
			return bytes.Equal(p.MAC, m.MAC[:])
		}
	})
	if n < 0 {
		return nil
	}
	return &radios[n]
}

// missing says that a radio is not there, and which are.
func missing(radios []nl80211.Radio) (message, expected string) {
	if len(radios) == 0 {
		return "this machine has no radio of Wi-Fi that Linux knows", "a card whose driver and firmware are installed"
	}
	var list []string
	for _, r := range radios {
		text := r.Name + " " + r.MAC.String()
		if r.Path != "" {
			text += " at " + r.Path
		}
		list = append(list, text)
	}
	return "there is no such radio", "one of " + strings.Join(list, ", ")
}

// machine is what the programs of Wi-Fi find.
type machine struct {
	radios []nl80211.Radio
	rules  []nl80211.Rule // of the country; nil: the kernel and the programs find out
}

// check refuses what the machine's radios or the country do not allow. Radios without interfaces do not matter.
func check(cfg *config.Config, m machine) error {
	report := config.NewReport(cfg)
	taken := map[int]string{}
	for _, name := range sorted(cfg.Radios) {
		on := cfg.WiFiOn(name)
		if len(on) == 0 {
			continue
		}
		r, path := cfg.Radios[name], "radios."+name
		phy := find(name, r, m.radios)
		if phy == nil {
			message, expected := missing(m.radios)
			report.Refuse(path, message, expected, "")
			continue
		}
		if other := taken[phy.Index]; other != "" {
			report.Refuse(path, fmt.Sprintf("%s is this radio (%s), too", other, phy.Name), "one section for one radio", "")
		}
		taken[phy.Index] = name
		sends := false
		for _, i := range on {
			t := purpose(cfg.Interfaces[i].WiFi)
			if sends = sends || t != nl80211.Station; !slices.Contains(phy.Types, t) {
				report.Refuse("interfaces."+i+".wifi", fmt.Sprintf("%s can't be %s: the card or its driver does not do that", phy.Name, article(t)), "another card", "")
			}
		}
		if sends {
			checkChannel(report, path, r, phy, m.rules, slices.ContainsFunc(on, func(i string) bool { return cfg.Interfaces[i].WiFi.Mesh != nil }))
		}
	}
	return report.Err()
}

func article(t nl80211.Type) string {
	if t == nl80211.AccessPoint {
		return "an " + t.String()
	}
	return "a " + t.String()
}

// checkChannel refuses a channel that can't be used, with those that can.
func checkChannel(report *config.Report, path string, r *config.Radio, phy *nl80211.Radio, rules []nl80211.Rule, mesh bool) {
	width := r.Width.MHz()
	// usable says what is in the way of a channel.
	usable := func(channel, width int) string {
		for _, c := range r.Band.Block(channel, width) {
			mhz := r.Band.MHz(c)
			if _, ok := phy.Find(mhz); !ok {
				return "the card " + phy.Name + " does not know"
			}
			if rules == nil {
				continue
			}
			switch ok, radar := nl80211.Allows(rules, mhz, width); {
			case !ok:
				return r.Country + " does not allow"
			case radar && mesh:
				return "a mesh can't use, because it would have to leave it when a radar is heard,"
			}
		}
		return ""
	}
	var allowed []string
	for _, c := range r.Band.Channels() {
		if r.Band.Block(c, width) != nil && usable(c, width) == "" {
			allowed = append(allowed, fmt.Sprint(c))
		}
	}
	expected := "one of " + strings.Join(allowed, ", ")
	if len(allowed) == 0 {
		expected = "another width, band or card"
	}
	switch {
	case r.Channel == 0 && len(allowed) == 0:
		report.Refuse(path+".width", fmt.Sprintf("%s has no channel of %s that the card %s knows and %s allows", r.Band, r.Width, phy.Name, r.Country), expected, "")
	case r.Channel != 0:
		if why := usable(r.Channel, width); why != "" {
			report.Refuse(path+".channel", fmt.Sprintf("channel %d of %s is one that %s", r.Channel, r.Width, strings.TrimSuffix(why, ",")), expected, "")
		}
	}
	if band, _ := phy.Find(r.Band.MHz(cmp.Or(r.Channel, r.Band.Channels()[0]))); band != nil {
		switch {
		case width > 20 && band.HT&ht40 == 0:
			report.Refuse(path+".width", phy.Name+" has no channels wider than 20 MHz here", "width: 20MHz", "")
		case width > 40 && !band.IsVHT:
			report.Refuse(path+".width", phy.Name+" has no channels wider than 40 MHz here", "width: 40MHz", "")
		case width > 80 && band.VHT&vht160 == 0:
			report.Refuse(path+".width", phy.Name+" has no channels wider than 80 MHz here", "width: 80MHz", "")
		}
	}
}

// Capabilities that widths need: of 802.11n and 802.11ac.
const (
	ht40   = 1 << 1
	vht160 = 3 << 2
)

// purpose is what an interface does.
func purpose(w *config.WiFi) nl80211.Type {
	switch {
	case w.AccessPoint != nil:
		return nl80211.AccessPoint
	case w.Station != nil:
		return nl80211.Station
	}
	return nl80211.Mesh
}

// metres of distance in a coverage class: 3 µs there and back (IEEE 802.11 9.4.2.8).
const metres = 450

// coverage is the coverage class of a distance; ok is false where none is set.
func coverage(distance int) (class uint8, ok bool) {
	return uint8(min(255, (distance+metres-1)/metres)), distance != 0
}
