// SPDX-License-Identifier: Apache-2.0

package nl80211

import (
	"cmp"
	"context"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// Radio is one radio ("phy") and what it can do.
type Radio struct {
	Index    int
	Name     string
	MAC      net.HardwareAddr
	Path     string // bus address, "" for none
	Types    []Type // what its interfaces can be
	Bands    []Band
	Coverage uint8 // coverage class
}

// Band is a band of frequencies that a radio knows.
type Band struct {
	HT       uint16 // capabilities of 802.11n (HT Capability Information), 0 without
	VHT      uint32 // capabilities of 802.11ac (VHT Capabilities Information)
	IsVHT    bool
	HE       bool // 802.11ax as access point
	Channels []Channel
}

// Channel is one frequency of a band, as the rules that hold now have it.
type Channel struct {
	MHz      int
	Disabled bool
	NoIR     bool // nothing may be sent there before an access point was heard
	Radar    bool // it must be left when a radar is heard (DFS)
	Power    int  // dBm at most
}

// Find returns the channel of a frequency.
func (r *Radio) Find(mhz int) (band *Band, found bool) {
	for n := range r.Bands {
		if slices.ContainsFunc(r.Bands[n].Channels, func(c Channel) bool { return c.MHz == mhz }) {
			return &r.Bands[n], true
		}
	}
	return nil, false
}

// Radios lists the radios by their index.
func (c *Conn) Radios(ctx context.Context) ([]Radio, error) {
	known := map[int]*Radio{}
	bands := map[int]map[uint16]*Band{}
	// The kernel tells a radio in pieces, a part of a band in each.
	err := c.dump(ctx, unix.NL80211_CMD_GET_WIPHY, attrs{}.add(unix.NL80211_ATTR_SPLIT_WIPHY_DUMP, nil), func(b []byte) {
		index := -1
		for kind, v := range nlmsg.Attributes(b) {
			if kind == unix.NL80211_ATTR_WIPHY && len(v) >= 4 {
				index = int(native.Uint32(v))
			}
		}
		if index < 0 {
			return
		}
		if known[index] == nil {
			known[index], bands[index] = &Radio{Index: index}, map[uint16]*Band{}
		}
		known[index].read(b, bands[index])
	})
	if err != nil {
		return nil, err
	}
	var list []Radio
	for index, r := range known {
		r.Path = path(r.Name)
		for _, b := range bands[index] {
			if len(b.Channels) > 0 {
				r.Bands = append(r.Bands, *b)
			}
		}
		slices.SortFunc(r.Bands, func(a, b Band) int { return cmp.Compare(a.Channels[0].MHz, b.Channels[0].MHz) })
		if text, err := sysfs(r.Name, "macaddress"); err == nil {
			r.MAC, _ = net.ParseMAC(text)
		}
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Radio) int { return cmp.Compare(a.Index, b.Index) })
	return list, nil
}

// read takes one piece.
func (r *Radio) read(b []byte, bands map[uint16]*Band) {
	for kind, v := range nlmsg.Attributes(b) {
		switch kind {
		case unix.NL80211_ATTR_WIPHY_NAME:
			r.Name = word(v)
		case unix.NL80211_ATTR_WIPHY_COVERAGE_CLASS:
			if len(v) > 0 {
				r.Coverage = v[0]
			}
		case unix.NL80211_ATTR_SUPPORTED_IFTYPES:
			for t := range nlmsg.Attributes(v) {
				if !slices.Contains(r.Types, Type(t)) {
					r.Types = append(r.Types, Type(t))
				}
			}
		case unix.NL80211_ATTR_WIPHY_BANDS:
			for number, v := range nlmsg.Attributes(v) {
				if bands[number] == nil {
					bands[number] = &Band{}
				}
				bands[number].read(v)
			}
		}
	}
}

func (b *Band) read(v []byte) {
	for kind, v := range nlmsg.Attributes(v) {
		switch {
		case kind == unix.NL80211_BAND_ATTR_HT_CAPA && len(v) >= 2:
			b.HT = native.Uint16(v)
		case kind == unix.NL80211_BAND_ATTR_VHT_CAPA && len(v) >= 4:
			b.VHT, b.IsVHT = native.Uint32(v), true
		case kind == unix.NL80211_BAND_ATTR_IFTYPE_DATA:
			for _, v := range nlmsg.Attributes(v) {
				b.HE = b.HE || highEfficiency(v)
			}
		case kind == unix.NL80211_BAND_ATTR_FREQS:
			for _, v := range nlmsg.Attributes(v) {
				b.channel(v)
			}
		}
	}
}

// highEfficiency says whether the capabilities of some types of interfaces have 802.11ax, for an access point.
func highEfficiency(v []byte) bool {
	ap, he := false, false
	for kind, v := range nlmsg.Attributes(v) {
		switch kind {
		case unix.NL80211_BAND_IFTYPE_ATTR_IFTYPES:
			for t := range nlmsg.Attributes(v) {
				ap = ap || Type(t) == AccessPoint
			}
		case unix.NL80211_BAND_IFTYPE_ATTR_HE_CAP_PHY:
			he = true
		}
	}
	return ap && he
}

func (b *Band) channel(v []byte) {
	var c Channel
	for kind, v := range nlmsg.Attributes(v) {
		switch kind {
		case unix.NL80211_FREQUENCY_ATTR_FREQ:
			c.MHz = number(v)
		case unix.NL80211_FREQUENCY_ATTR_DISABLED:
			c.Disabled = true
		case unix.NL80211_FREQUENCY_ATTR_NO_IR:
			c.NoIR = true
		case unix.NL80211_FREQUENCY_ATTR_RADAR:
			c.Radar = true
		case unix.NL80211_FREQUENCY_ATTR_MAX_TX_POWER: // in 0.01 dBm
			c.Power = number(v) / 100
		}
	}
	if c.MHz != 0 {
		b.Channels = append(b.Channels, c)
	}
}
