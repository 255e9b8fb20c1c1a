// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

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

// DefaultTop and MaxTop bound the rows of an answer.
const (
	DefaultTop = 20
	MaxTop     = 10_000
)

// Filter chooses connections. What is not set matches all; addresses and ports match on both sides of a translation.
type Filter struct {
	Source, Destination netip.Prefix // of the opener, of who is spoken to
	Host                netip.Prefix // any of the addresses
	Port                uint16       // any of the ports
	Protocols           []uint8
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

// Words turns the words of a command line into what Parse reads: "src 192.0.2.0/24 proto tcp fast-path".
func Words(words []string) (url.Values, error) {
	values := url.Values{}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		key, value := word, ""
		switch word {
		case PathFast, PathKernel:
			key, value = "path", word
		case "src", "dst", "host", "port", "proto", "zone", "state", "label":
			if len(words) == 0 {
				return nil, fmt.Errorf("%s: expected a value behind it", word)
			}
			value, words = words[0], words[1:]
		default:
			return nil, fmt.Errorf("%q: expected src, dst, host, port, proto, zone, state, label, fast-path or kernel", word)
		}
		if values.Has(key) {
			return nil, fmt.Errorf("%s: only once, all words must match", word)
		}
		values.Set(key, value)
	}
	return values, nil
}

// Parse reads a question. An unknown key is refused, as it would silently match all.
func Parse(values url.Values) (Question, error) {
	q := Question{By: ByFlow, Sort: SortBytes, Top: DefaultTop}
	for key := range values {
		var err error
		switch value := values.Get(key); key {
		case "src":
			q.Source, err = parsePrefix(value)
		case "dst":
			q.Destination, err = parsePrefix(value)
		case "host":
			q.Host, err = parsePrefix(value)
		case "port":
			var n uint64
			if n, err = strconv.ParseUint(value, 10, 16); err != nil || n == 0 {
				err = fmt.Errorf("port %q: expected a number from 1 to 65535", value)
			}
			q.Port = uint16(n)
		case "proto":
			q.Protocols, err = parseProtocol(value)
		case "zone":
			q.Zone = value
		case "label":
			q.Label = value
		case "state":
			q.State, err = oneOf("state", value, states...)
		case "path":
			q.Path, err = oneOf("path", value, PathFast, PathKernel)
		case "by":
			q.By, err = oneOf("by", value, ByFlow, ByHost, ByZone)
		case "sort":
			q.Sort, err = oneOf("sort", value, SortBytes, SortRate, SortConnections)
		case "top":
			if q.Top, err = strconv.Atoi(value); err != nil || q.Top < 1 || q.Top > MaxTop {
				err = fmt.Errorf("top %q: expected a number from 1 to %d", value, MaxTop)
			}
		default:
			err = fmt.Errorf("%q is no part of a question about flows", key)
		}
		if err != nil {
			return q, err
		}
	}
	if q.By == ByFlow && q.Sort == SortConnections {
		return q, fmt.Errorf("sort connections: a flow is one connection; ask by host or by zone")
	}
	return q, nil
}

func oneOf(key, value string, words ...string) (string, error) {
	if !slices.Contains(words, value) {
		return "", fmt.Errorf("%s %q: expected one of %s", key, value, strings.Join(words, ", "))
	}
	return value, nil
}

// parsePrefix takes a prefix, or an address as its full-length prefix.
func parsePrefix(text string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q: expected an address or a prefix as 192.0.2.0/24", text)
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}

// match says whether a connection is chosen. What costs a route lookup comes last.
func (f *Filter) match(c *Connection, z *zones) bool {
	in := func(p netip.Prefix, addresses ...netip.Addr) bool {
		return !p.IsValid() || slices.ContainsFunc(addresses, p.Contains)
	}
	k := &c.Key
	return (f.Protocols == nil || slices.Contains(f.Protocols, k[0].Protocol)) &&
		(f.Path == "" || (f.Path == PathFast) == c.FastPath) &&
		(f.Port == 0 || hasPorts(k[0].Protocol) && (f.Port == k[0].SourcePort || f.Port == k[0].DestinationPort ||
			f.Port == k[1].SourcePort || f.Port == k[1].DestinationPort)) &&
		in(f.Source, k[0].Source, k[1].Destination) && in(f.Destination, k[0].Destination, k[1].Source) &&
		in(f.Host, k[0].Source, k[0].Destination, k[1].Source, k[1].Destination) &&
		(f.State == "" || f.State == c.State()) && (f.Label == "" || f.Label == c.Label) &&
		(f.Zone == "" || z.zone(k[0].Source) == f.Zone || z.zone(k[1].Source) == f.Zone)
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
		opener = opener && z.zone(k[0].Source) == f.Zone
		responder = responder && z.zone(k[1].Source) == f.Zone
	}
	return opener, responder
}
