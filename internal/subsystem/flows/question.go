// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"minne/internal/base/ipnet"
	"minne/internal/subsystem/fastpath/flow"
)

// Question is what minne show flows asks.
type Question struct {
	Filter
	By   string // ByFlow, ByHost or ByZone
	Sort string // SortBytes, SortRate or SortConnections
	Top  int    // rows at most
}

// What a row of the answer is.
const (
	ByFlow = "flow"
	ByHost = "host" // one end of connections
	ByZone = "zone" // all connections from one zone to another
)

// What comes first.
const (
	SortBytes       = "bytes"
	SortRate        = "rate"        // needs two looks, a second apart
	SortConnections = "connections" // not for single flows
)

// MaxTop bounds the rows of an answer.
const MaxTop = 10_000

// Filter chooses connections. What is not set matches all; addresses and ports match on both sides of a translation.
type Filter struct {
	Source, Destination netip.Prefix // of the opener, of who is spoken to
	Host                netip.Prefix // any of the addresses
	Port                uint16       // any of the ports
	Protocols           []uint8
	VRF                 string // that the connection is in
	Zone                string // of either end
	State               string
	Path                string // PathFast or PathKernel
	Label               string // that patterns gave the connection
}

// Who forwards a connection's packets.
const (
	PathFast   = "fast-path"
	PathKernel = "kernel"
)

// Selection is a filter in an operator's words; "" matches all.
type Selection struct {
	Source      string `json:"src,omitempty" doc:"'prefix' or address of who opened the connection, on either side of a translation"`
	Destination string `json:"dst,omitempty" doc:"'prefix' or address of who answers, on either side of a translation"`
	Host        string `json:"host,omitempty" doc:"'prefix' or address of either"`
	Port        string `json:"port,omitempty" doc:"'number' of a port of either"`
	Protocol    string `json:"proto,omitempty" doc:"tcp, udp, icmp or a 'number'"`
	VRF         string `json:"vrf,omitempty" doc:"'name' of the VRF that the connection is in"`
	Zone        string `json:"zone,omitempty" doc:"'name' of the zone of either end"`
	State       string `json:"state,omitempty" doc:"established, time-wait, … of TCP; unreplied, replied, assured of others"`
	Label       string `json:"label,omitempty" doc:"'label' of the section labels"`
	Path        string `json:"path,omitempty" values:"fast-path,kernel" doc:"who forwards it"`
}

// Query is a question in an operator's words.
type Query struct {
	Selection
	By   string `json:"by" flag:"by" default:"flow" values:"flow,host,zone" doc:"a row for each 'what': flow, host or zone (from one zone to another)"`
	Sort string `json:"sort" flag:"sort" default:"bytes" values:"bytes,rate,connections" doc:"'order' of the rows: bytes, rate (takes a second) or connections (of hosts and zones)"`
	Top  int    `json:"top" flag:"top" default:"20" doc:"'number' of rows at most, up to 10000"`
}

// Words reads the words of a command line: "src 192.0.2.0/24 proto tcp fast-path".
func (s *Selection) Words(words []string) error {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		to := s.word(word)
		switch {
		case to == nil:
			return fmt.Errorf("%q: expected src, dst, host, port, proto, vrf, zone, state, label, fast-path or kernel", word)
		case *to != "":
			return fmt.Errorf("%s: given twice; a connection must match all words", word)
		case to == &s.Path:
			*to = word
			continue
		case len(words) == 0:
			return fmt.Errorf("%s: expected a value after it", word)
		}
		*to, words = words[0], words[1:]
	}
	_, err := s.Filter() // says what is wrong before the daemon is asked
	return err
}

// word is what a word of the command line sets, nil for none.
func (s *Selection) word(word string) *string {
	return map[string]*string{"src": &s.Source, "dst": &s.Destination, "host": &s.Host, "port": &s.Port, "proto": &s.Protocol,
		"vrf": &s.VRF, "zone": &s.Zone, "state": &s.State, "label": &s.Label, PathFast: &s.Path, PathKernel: &s.Path}[word]
}

// Filter reads the words.
func (s Selection) Filter() (f Filter, err error) {
	prefix := func(to *netip.Prefix, text string) {
		if text != "" && err == nil {
			*to, err = ipnet.Parse(text)
			*to = to.Masked()
		}
	}
	prefix(&f.Source, s.Source)
	prefix(&f.Destination, s.Destination)
	prefix(&f.Host, s.Host)
	if s.Port != "" && err == nil {
		var n uint64
		if n, err = strconv.ParseUint(s.Port, 10, 16); err != nil || n == 0 {
			err = fmt.Errorf("port %q: expected a number from 1 to 65535", s.Port)
		}
		f.Port = uint16(n)
	}
	if s.Protocol != "" && err == nil {
		f.Protocols, err = parseProtocol(s.Protocol)
	}
	if s.State != "" && err == nil {
		f.State, err = oneOf("state", s.State, states...)
	}
	if s.Path != "" && err == nil {
		f.Path, err = oneOf("path", s.Path, PathFast, PathKernel)
	}
	f.VRF, f.Zone, f.Label = s.VRF, s.Zone, s.Label
	return f, err
}

// Question reads the words.
func (a Query) Question() (q Question, err error) {
	q = Question{By: a.By, Sort: a.Sort, Top: a.Top}
	if q.Filter, err = a.Filter(); err != nil {
		return q, err
	}
	_, errBy := oneOf("by", a.By, ByFlow, ByHost, ByZone)
	_, errSort := oneOf("sort", a.Sort, SortBytes, SortRate, SortConnections)
	switch {
	case errBy != nil:
		return q, errBy
	case errSort != nil:
		return q, errSort
	case a.Top < 1 || a.Top > MaxTop:
		return q, fmt.Errorf("top %d: expected a number from 1 to %d", a.Top, MaxTop)
	case a.By == ByFlow && a.Sort == SortConnections:
		return q, errors.New("sort connections: a flow is one connection; use by host or by zone")
	}
	return q, nil
}

func oneOf(key, value string, words ...string) (string, error) {
	if !slices.Contains(words, value) {
		return "", fmt.Errorf("%s %q: expected one of %s", key, value, strings.Join(words, ", "))
	}
	return value, nil
}

// match says whether a connection is chosen. What costs a route lookup comes last.
func (f *Filter) match(c *Connection, z *zones) bool {
	in := func(p netip.Prefix, addresses ...netip.Addr) bool {
		return !p.IsValid() || slices.ContainsFunc(addresses, p.Contains)
	}
	k := &c.Key
	opener, responder := c.ends()
	return (f.Protocols == nil || slices.Contains(f.Protocols, k[0].Protocol)) &&
		(f.Path == "" || (f.Path == PathFast) == c.FastPath) &&
		(f.Port == 0 || hasPorts(k[0].Protocol) && (f.Port == k[0].SourcePort || f.Port == k[0].DestinationPort ||
			f.Port == k[1].SourcePort || f.Port == k[1].DestinationPort)) &&
		in(f.Source, k[0].Source, k[1].Destination) && in(f.Destination, k[0].Destination, k[1].Source) &&
		in(f.Host, k[0].Source, k[0].Destination, k[1].Source, k[1].Destination) &&
		(f.State == "" || f.State == c.State()) && (f.Label == "" || f.Label == c.Label) &&
		(f.VRF == "" || f.VRF == z.vrfName(c.table())) &&
		(f.Zone == "" || z.zone(opener) == f.Zone || z.zone(responder) == f.Zone)
}

// flows is a filter for the fast path that lets pass all that match may choose.
func (f *Filter) flows() flow.Filter {
	of := flow.Filter{Host: f.Host, Port: f.Port}
	if len(f.Protocols) == 1 {
		of.Protocol = f.Protocols[0]
	}
	return of
}

// hosts says which ends of a chosen connection are rows of an answer by hosts: those that the filter is about.
func (f *Filter) hosts(c *Connection, z *zones) (opener, responder bool) {
	k := &c.Key
	in := func(p netip.Prefix, inside, outside netip.Addr) bool {
		return !p.IsValid() || p.Contains(inside) || p.Contains(outside)
	}
	opener = in(f.Host, k[0].Source, k[1].Destination) && !(f.Destination.IsValid() && !f.Source.IsValid())
	responder = in(f.Host, k[1].Source, k[0].Destination) && !(f.Source.IsValid() && !f.Destination.IsValid())
	if f.Zone != "" {
		first, second := c.ends()
		opener = opener && z.zone(first) == f.Zone
		responder = responder && z.zone(second) == f.Zone
	}
	return opener, responder
}
