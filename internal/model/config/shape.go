// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shape has packets of a line wait in the router instead of the modem, where it shares the line fairly.
type Shape struct {
	Down     Rate         `yaml:"down" json:"down,omitempty" doc:"Speed of what the line brings, in bits of the line a second: 90 to 95 % of what it really carries. Absent: not shaped." example:"100Mbit"`
	Up       Rate         `yaml:"up" json:"up,omitempty" doc:"Speed of what the router sends by the line. Absent: not shaped." example:"20Mbit"`
	Overhead LineOverhead `yaml:"overhead" json:"overhead,omitempty" doc:"What the line adds to each IP packet, so that many small packets do not overfill it: ethernet (fibre, 38 bytes), docsis (cable, 18), vdsl (22), pppoe-vdsl (30), adsl (32, in ATM cells), pppoe-adsl (40, in ATM cells), or a number of bytes from -64 to 256." default:"ethernet" example:"pppoe-vdsl"`
	PerHost  *OnOff       `yaml:"per-host" json:"per-host,omitempty" doc:"on: each inside host gets the same share, however many connections it has, also behind NAT. off: each connection gets the same share." default:"on" enum:"on,off"`
	Diffserv DiffservMode `yaml:"diffserv" json:"diffserv,omitempty" doc:"Priorities by the DSCP marks of packets: besteffort ignores them; diffserv3 has bulk, best effort and voice; diffserv4 has video too; diffserv8 has eight. Each has a share of the line that it can't exceed at the cost of the others." default:"besteffort" enum:"besteffort,diffserv3,diffserv4,diffserv8"`
	RTT      Duration     `yaml:"rtt" json:"rtt,omitempty" doc:"Round-trip time of most connections. Queues longer than 1/20 of it are cut back. Raise it on satellite lines." default:"100ms"`
}

// DiffservMode is how a shaped line heeds DSCP marks, in cake's words.
type DiffservMode string

// LineOverhead is what a line adds to packets: a word, or a number of bytes.
type LineOverhead string

// lineFraming is what a kind of line does to an IP packet.
type lineFraming struct {
	bytes int // with it
	least int // bytes of the shortest, with all that is added
	atm   bool
	ptm   bool
}

// lineFramings are the words of LineOverhead, as in the manual of tc-cake (section "Overhead compensation").
var lineFramings = map[LineOverhead]lineFraming{
	"ethernet":   {bytes: 38, least: 84},
	"docsis":     {bytes: 18, least: 64},
	"vdsl":       {bytes: 22, ptm: true},
	"pppoe-vdsl": {bytes: 30, ptm: true},
	"adsl":       {bytes: 32, atm: true},
	"pppoe-adsl": {bytes: 40, atm: true},
}

const (
	overheadForm              = "ethernet, docsis, vdsl, pppoe-vdsl, adsl, pppoe-adsl or a number of bytes from -64 to 256"
	leastOverhead             = -64
	mostOverhead              = 256
	leastShaped          Rate = 64_000
	mostShaped           Rate = 1_000_000_000_000
	leastRTT, longestRTT      = Duration(1e6), Duration(10e9)
)

// UnmarshalText reads a word or a number.
func (o *LineOverhead) UnmarshalText(b []byte) error {
	text := string(b)
	if _, known := lineFramings[LineOverhead(text)]; !known {
		n, err := strconv.Atoi(text)
		if err != nil || n < leastOverhead || n > mostOverhead || strconv.Itoa(n) != text {
			return &wrongValue{fmt.Sprintf("%q is no kind of line", abridge(text)), overheadForm, nearestOverhead(text)}
		}
	}
	*o = LineOverhead(text)
	return nil
}

// nearestOverhead is the word that was probably meant, also by cake's names.
func nearestOverhead(text string) string {
	others := map[string]string{"pppoe-ptm": "pppoe-vdsl", "bridged-ptm": "vdsl", "pppoe-llcsnap": "pppoe-adsl", "bridged-llcsnap": "adsl", "cable": "docsis", "fibre": "ethernet", "fiber": "ethernet"}
	if meant := others[strings.ToLower(text)]; meant != "" {
		return meant
	}
	var words []string
	for word := range lineFramings {
		words = append(words, string(word))
	}
	slices.Sort(words)
	return nearest(text, words)
}

// Bytes are what the line adds to an IP packet, and how long the shortest is with it (0: any); atm and ptm say how it is cut.
func (o LineOverhead) Bytes() (added, least int, atm, ptm bool) {
	if f, known := lineFramings[o]; known {
		return f.bytes, f.least, f.atm, f.ptm
	}
	n, _ := strconv.Atoi(string(o)) // what UnmarshalText has taken
	return n, 0, false, false
}

// shape checks the shaping of an interface.
func (c *checker) shape(path, name string, i *Interface) {
	s := i.Shape
	if s == nil {
		return
	}
	path += ".shape"
	kind := c.cfg.Kind(name)
	switch master := c.masters[name]; {
	case name == loopback || kind.Name == "dummy" || kind.Name == "vrf":
		c.refuse(path, fmt.Sprintf("%s is no line: nothing waits there", name), "shape at the interface that leads to the line", "")
		return
	case master.Kind.Bundles:
		c.refuse(path, fmt.Sprintf("%s is a port of %s and has no packets of its own", name, master.Name), "shape at "+master.Name, "")
		return
	}
	if s.Down == 0 && s.Up == 0 {
		c.refuse(path, "the speed of the line is missing", "down, up or both, as {down: 100Mbit, up: 20Mbit}", "")
	}
	for _, rate := range []struct {
		key string
		to  Rate
	}{{"down", s.Down}, {"up", s.Up}} {
		if rate.to != 0 && (rate.to < leastShaped || rate.to > mostShaped) {
			c.refuse(path+"."+rate.key, fmt.Sprintf("%s is no speed to shape a line to", rate.to), fmt.Sprintf("%s to %s", leastShaped, mostShaped), "")
		}
	}
	if s.RTT < leastRTT || s.RTT > longestRTT {
		c.refuse(path+".rtt", fmt.Sprintf("%s is no round-trip time of a network", s.RTT), fmt.Sprintf("%s to %s", leastRTT, longestRTT), "")
	}
	for _, p := range kind.Parents {
		if below := c.cfg.Interfaces[p.Name]; below != nil && below.Shape != nil && kind.Dialed {
			c.refuse(path, fmt.Sprintf("%s below is shaped too, so packets would wait twice", p.Name), "shape at one of them; the session is the line", "")
		}
	}
}
