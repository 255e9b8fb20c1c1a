// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
)

// Radio is one radio of the machine (IEEE 802.11): what all Wi-Fi interfaces on it share. It has one channel.
type Radio struct {
	Match    *RadioMatch `yaml:"match" json:"match,omitempty" doc:"Which radio of the machine this is. Absent: the one that the kernel calls by this section's name, as phy0."`
	Country  string      `yaml:"country" json:"country" doc:"Country where the radio is, two letters (ISO 3166-1). It decides which channels may be used, and how loud. All radios are in one country." required:"true" example:"DE"`
	Band     RadioBand   `yaml:"band" json:"band,omitempty" doc:"Band of access points and meshes." enum:"2.4GHz,5GHz"`
	Channel  int         `yaml:"channel" json:"channel,omitempty" doc:"Channel of access points and meshes; with a width of more than 20 MHz the first one. Absent: the access point takes the quietest when it starts. A mesh needs one. A station uses that of its access point." min:"1" max:"177" example:"36"`
	Width    RadioWidth  `yaml:"width" json:"width,omitempty" doc:"Width of the channel. Wider is faster, and disturbs more neighbours." default:"20MHz" enum:"20MHz,40MHz,80MHz,160MHz"`
	Distance int         `yaml:"distance" json:"distance,omitempty" doc:"Metres to the farthest other end (coverage class, in steps of 450 m): how long the radio waits for an acknowledgement. Links of more than some hundred metres need it. Absent: unchanged." min:"1" max:"114750" example:"8000"`
	Power    int         `yaml:"power" json:"power,omitempty" doc:"Transmit power in dBm. Absent: as much as the country and the card allow." min:"1" max:"36" example:"17"`
}

// RadioMatch finds a radio by exactly one property.
type RadioMatch struct {
	Name string `yaml:"name" json:"name,omitempty" doc:"The kernel's name for the radio, as iw list prints it." example:"phy0"`
	MAC  MAC    `yaml:"mac" json:"mac,omitzero" doc:"The radio's MAC address." example:"52:54:00:12:34:56"`
	Path string `yaml:"path" json:"path,omitempty" doc:"The device's bus address: the last part of what /sys/class/ieee80211/phy0/device points to." example:"0000:02:00.0"`
}

type (
	// RadioBand is a band of frequencies.
	RadioBand string
	// RadioWidth is how wide a channel is.
	RadioWidth string
)

// MHz is the width in MHz.
func (w RadioWidth) MHz() int {
	return map[RadioWidth]int{"20MHz": 20, "40MHz": 40, "80MHz": 80, "160MHz": 160}[w]
}

// The bands.
const (
	Band2 RadioBand = "2.4GHz"
	Band5 RadioBand = "5GHz"
)

// country is a country's code; 00 is the kernel's word for none.
var country = regexp.MustCompile(`^[A-Z]{2}$`)

// blocks5 are the first channels of what a width takes together at 5 GHz (IEEE 802.11 annex E): each block has the
// channels from there in steps of four.
var blocks5 = map[int][]int{
	20:  {36, 40, 44, 48, 52, 56, 60, 64, 100, 104, 108, 112, 116, 120, 124, 128, 132, 136, 140, 144, 149, 153, 157, 161, 165, 169, 173, 177},
	40:  {36, 44, 52, 60, 100, 108, 116, 124, 132, 140, 149, 157, 165, 173},
	80:  {36, 52, 100, 116, 132, 149, 165},
	160: {36, 100, 149},
}

// Block is the 20 MHz channels that a channel of this width takes; nil where it can't be. At 2.4 GHz a second channel lies
// four above, or below where there is none above.
func (b RadioBand) Block(channel, width int) []int {
	if b == Band2 {
		switch {
		case channel < 1 || channel > 14 || width > 40 || width == 40 && channel == 14:
			return nil
		case width == 40 && channel <= 7: // up to 11, which all countries have
			return []int{channel, channel + 4}
		case width == 40:
			return []int{channel - 4, channel}
		}
		return []int{channel}
	}
	for _, first := range blocks5[width] {
		var list []int
		for n := range width / 20 {
			list = append(list, first+4*n)
		}
		if slices.Contains(list, channel) && slices.Contains(blocks5[20], channel) {
			return list
		}
	}
	return nil
}

// MHz is the middle of a 20 MHz channel.
func (b RadioBand) MHz(channel int) int {
	switch {
	case b == Band2 && channel == 14:
		return 2484
	case b == Band2:
		return 2407 + 5*channel
	}
	return 5000 + 5*channel
}

// Channels are all of the band.
func (b RadioBand) Channels() (list []int) {
	if b == Band5 {
		return blocks5[20]
	}
	for n := range 14 {
		list = append(list, n+1)
	}
	return list
}

// WiFiOn are the Wi-Fi interfaces on a radio that are in use, in order.
func (cfg *Config) WiFiOn(radio string) (names []string) {
	for _, name := range sortedKeys(cfg.Interfaces) {
		if i := cfg.Interfaces[name]; i.WiFi != nil && i.WiFi.Radio == radio && !i.Disabled {
			names = append(names, name)
		}
	}
	return names
}

// radios checks the radios and what is on each.
func (c *checker) radios() {
	first := ""
	for _, name := range sortedKeys(c.cfg.Radios) {
		r, path := c.cfg.Radios[name], joinPath("radios", name)
		if !linkName.MatchString(name) {
			c.refuse(path, fmt.Sprintf("%q can't name a radio", abridge(name)), "a name as phy0 or upstairs", "")
		}
		c.radioMatch(path, name, r)
		switch {
		case !country.MatchString(r.Country):
			c.refuse(path+".country", fmt.Sprintf("%q is no country", abridge(r.Country)), "two capital letters (ISO 3166-1), as DE", "")
		case first != "" && c.cfg.Radios[first].Country != r.Country:
			c.refuse(path+".country", fmt.Sprintf("the radio %s is in %s: the kernel knows one country", first, c.cfg.Radios[first].Country), "one country for all radios", "")
		}
		first = cmp.Or(first, name)
		if r.Band == "" {
			for _, key := range []string{"channel", "width"} {
				if c.cfg.Chosen(path + "." + key) {
					c.refuse(path+"."+key, key+" without band", "band: 2.4GHz or 5GHz", "")
				}
			}
			continue
		}
		width := r.Width.MHz()
		switch {
		case r.Channel != 0 && r.Band.Block(r.Channel, 20) == nil:
			c.refuse(path+".channel", fmt.Sprintf("%s has no channel %d", r.Band, r.Channel), numbers("one of ", r.Band.Channels()), "")
		case r.Band == Band2 && width > 40:
			c.refuse(path+".width", fmt.Sprintf("%s has no channels of %s", r.Band, r.Width), "20MHz or 40MHz", "")
		case r.Channel != 0 && r.Band.Block(r.Channel, width) == nil:
			c.refuse(path+".width", fmt.Sprintf("channel %d can't be %s wide", r.Channel, r.Width), "a smaller width, or another channel", "")
		}
	}
}

// numbers writes some as "one of 1, 2, 3".
func numbers(before string, list []int) string {
	text := before
	for n, v := range list {
		if n > 0 {
			text += ", "
		}
		text += fmt.Sprint(v)
	}
	return text
}

// radioMatch checks how a radio is found, and that no two are found alike.
func (c *checker) radioMatch(path, name string, r *Radio) {
	key := "name " + name
	if m := r.Match; m != nil {
		set := 0
		for _, by := range []struct{ there, key string }{{m.Name, "name " + m.Name}, {m.Path, "bus address " + m.Path}} {
			if by.there != "" {
				set, key = set+1, by.key
			}
		}
		if !m.MAC.IsZero() {
			set, key = set+1, "MAC address "+m.MAC.String()
		}
		if set != 1 {
			c.refuse(path+".match", fmt.Sprintf("match has %d properties", set), "exactly one of name, mac and path", "")
			return
		}
	}
	if other, taken := c.taken[radioKey(key)]; taken {
		c.refuse(path, fmt.Sprintf("%s is already the radio with %s", other, key), "one section for one radio", "")
	}
	c.taken[radioKey(key)] = name
}

// radioKey is how a radio is found.
type radioKey string
