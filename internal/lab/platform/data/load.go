// SPDX-License-Identifier: Apache-2.0

package data

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"

	"minne/internal/base/pcap"
	"minne/internal/lab/algo/lpm"
	"minne/internal/subsystem/fastpath/automaton"
)

// Table is the routes of a file.
type Table struct{ IPv4, IPv6 []lpm.Route }

func (t *Table) add(r lpm.Route) {
	if r.Prefix.Addr().Is4() {
		t.IPv4 = append(t.IPv4, r)
	} else {
		t.IPv6 = append(t.IPv6, r)
	}
}

// mostHops bounds the next hops of a table: their numbers must fit the router's own structures.
const mostHops = 4095

// hops numbers next hops in the order in which they are met.
type hops map[string]uint32

func (h hops) number(name string) (uint32, error) {
	if n, ok := h[name]; ok {
		return n, nil
	}
	if len(h) >= mostHops {
		return 0, fmt.Errorf("next hop %s is the %dth: expected at most %d different ones", name, mostHops+1, mostHops)
	}
	h[name] = uint32(len(h) + 1)
	return h[name], nil
}

// LoadRoutes reads a routing table: an MRT dump (TABLE_DUMP_V2 of RFC 6396), or text of a line for each route, "prefix", or
// "prefix nexthop". Next hops may be called anything. Routes without one lead to 64, at random.
func LoadRoutes(file string) (*Table, error) {
	in, closer, err := open(file)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	t := &Table{}
	if head, err := in.Peek(12); err == nil && isMRT(head) {
		err = readMRT(file, in, t)
		return t, err
	}
	rng := rand.New(rand.NewPCG(20, 1))
	known := hops{}
	err = eachLine(file, in, func(text string) error {
		r, err := parseRoute(text, known, rng)
		if err == nil {
			t.add(r)
		}
		return err
	})
	if err == nil && len(t.IPv4)+len(t.IPv6) == 0 {
		err = fmt.Errorf("%s: no routes in it", file)
	}
	return t, err
}

func parseRoute(text string, known hops, rng *rand.Rand) (r lpm.Route, err error) {
	words := strings.Fields(text)
	if len(words) > 2 {
		return r, fmt.Errorf("%d words: expected a prefix, or a prefix and a next hop", len(words))
	}
	if r.Prefix, err = parsePrefix(words[0]); err != nil {
		return r, err
	}
	if len(words) == 1 {
		r.NextHop = uint32(1 + rng.IntN(NextHops))
		return r, nil
	}
	r.NextHop, err = known.number(words[1])
	return r, err
}

// parsePrefix reads a prefix or a single address.
func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%.60q is neither an address nor a prefix: expected one like 192.0.2.0/24 or 2001:db8::/32", text)
		}
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("%.60q is not a prefix: expected one like 192.0.2.0/24 or 2001:db8::/32", text)
	case p.Addr().Is4In6():
		return p, fmt.Errorf("%s is an IPv4 prefix written as IPv6: expected it as IPv4", text)
	}
	return p.Masked(), nil
}

// LoadPatterns reads a file of patterns, byte strings in hexadecimal and /regular expressions/flags. It returns those that can be compiled,
// and which can't be with the reason: a file of real rules always has some.
func LoadPatterns(file string) ([]automaton.Pattern, []Line, error) {
	in, closer, err := open(file)
	if err != nil {
		return nil, nil, err
	}
	defer closer.Close()
	patterns, errs := automaton.Read(file, in)
	var refused []Line
	for _, err := range errs {
		var syntax *automaton.SyntaxError
		if !errors.As(err, &syntax) {
			return nil, nil, err
		}
		refused = append(refused, Line{file, syntax.Line, fmt.Sprintf("column %d: %s", syntax.Column, syntax.Message)})
	}
	if len(patterns) == 0 {
		if len(refused) > 0 {
			return nil, nil, BadLines(refused)
		}
		return nil, nil, fmt.Errorf("%s: no patterns in it", file)
	}
	return patterns, refused, nil
}

// LoadBlocklist reads addresses and networks, one a line.
func LoadBlocklist(file string) ([]netip.Prefix, error) {
	in, closer, err := open(file)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	var all []netip.Prefix
	err = eachLine(file, in, func(text string) error {
		p, err := parsePrefix(text)
		if err == nil {
			all = append(all, p)
		}
		return err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: no addresses in it", file)
	}
	return all, err
}

// LoadPayload reads what the TCP and UDP packets of a capture carry.
func LoadPayload(file string) ([][]byte, error) {
	in, closer, err := open(file)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	var records [][]byte
	err = pcap.Read(io.Reader(in), func(r pcap.Record) error {
		if r.Link == pcap.Ethernet {
			if b := carried(r.Frame); len(b) > 0 {
				records = append(records, append([]byte(nil), b...))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%s: no TCP or UDP packet in it carries anything: expected a capture of Ethernet frames with payload", file)
	}
	return records, nil
}
