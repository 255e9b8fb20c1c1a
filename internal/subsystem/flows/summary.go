// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/flow"
)

// Summary is what minne show flows summary shows.
type Summary struct {
	Connections int              `json:"connections"`
	Capacity    int              `json:"capacity"` // nf_conntrack_max; 0 when conntrack is not loaded
	Buckets     int              `json:"buckets"`  // of conntrack's hash
	IPv6        int              `json:"ipv6"`     // of the connections; the others are IPv4
	Uncounted   int              `json:"uncounted"`
	Translated  TranslatedCounts `json:"translated"`
	Protocols   []ProtocolStates `json:"protocols"`       // the most connections first
	Zones       []Pair           `json:"zones,omitempty"` // the most connections first
	Sum         Totals           `json:"sum"`
	Trouble     Trouble          `json:"trouble"`
	FastPath    *FastPathSummary `json:"fast_path,omitempty"` // absent when it has no flow table
}

// TranslatedCounts are connections whose addresses or ports are translated; some are both.
type TranslatedCounts struct {
	Source      int `json:"source"`
	Destination int `json:"destination"`
}

// ProtocolStates are the connections of a protocol.
type ProtocolStates struct {
	Protocol    string       `json:"protocol"`
	Connections int          `json:"connections"`
	States      []StateCount `json:"states"` // the most first
}

// StateCount are the connections in one state.
type StateCount struct {
	State       string `json:"state"`
	Connections int    `json:"connections"`
}

// FastPathSummary is the fast path's part.
type FastPathSummary struct {
	Connections   int        `json:"connections"`     // of the kernel's that it forwards
	Without       int        `json:"without"`         // flows whose connection the kernel no longer has: they end by themselves
	Kept          int        `json:"kept"`            // connections whose flows have ended and what these had counted is kept
	LostTableFull uint64     `json:"lost_table_full"` // flows that ended, and there was no room to keep what they had counted
	Table         flow.Stats `json:"table"`
}

// Summarize counts the connections.
func (t *Table) Summarize(ctx context.Context) (Summary, error) {
	z, end, err := t.begin(ctx)
	if err != nil {
		return Summary{}, err
	}
	defer end()
	b := summer{zones: z, states: map[uint8]map[string]int{}, pairs: pairs{}}
	flows, err := t.each(ctx, flow.Filter{}, b.add)
	if err = cmp.Or(err, z.failed); err != nil {
		return Summary{}, err
	}
	s := b.finish()
	if s.Capacity, err = limit("nf_conntrack_max"); err != nil {
		return s, err
	}
	if s.Buckets, err = limit("nf_conntrack_buckets"); err != nil {
		return s, err
	}
	if s.Trouble, err = trouble(ctx); err != nil {
		return s, err
	}
	if t.fast == nil {
		return s, nil
	}
	stats, ok, err := t.fast.FlowStats()
	if ok {
		s.FastPath = &FastPathSummary{Connections: b.repeated, Without: max(flows-b.repeated, 0), Table: stats}
		s.FastPath.Kept, s.FastPath.LostTableFull = t.ended.stats()
	}
	return s, err
}

// limit reads one of conntrack's settings; 0 when it is not loaded.
func limit(name string) (int, error) {
	text, err := os.ReadFile("/proc/sys/net/netfilter/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read conntrack's limits: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// summer counts connections, one after the other.
type summer struct {
	s        Summary
	zones    *zones
	states   map[uint8]map[string]int
	pairs    pairs
	repeated int
}

func (b *summer) add(c *Connection) {
	b.s.Connections++
	if c.Key[0].Source.Is6() {
		b.s.IPv6++
	}
	if !c.Counted {
		b.s.Uncounted++
	}
	if c.FastPath {
		b.repeated++
	}
	k := &c.Key
	if k[0].Source != k[1].Destination || k[0].SourcePort != k[1].DestinationPort {
		b.s.Translated.Source++
	}
	if k[0].Destination != k[1].Source || k[0].DestinationPort != k[1].SourcePort {
		b.s.Translated.Destination++
	}
	states := b.states[k[0].Protocol]
	if states == nil {
		states = map[string]int{}
		b.states[k[0].Protocol] = states
	}
	states[c.State()]++
	one := Totals{Packets: c.Packets, Bytes: c.Bytes, FastPath: c.Repeated[0] + c.Repeated[1]}
	b.s.Sum.add(&one, 0)
	b.pairs.add(b.zones, c, &one)
}

func (b *summer) finish() Summary {
	for protocol, states := range b.states {
		p := ProtocolStates{Protocol: ProtocolName(protocol)}
		if protocol == unix.IPPROTO_ICMPV6 {
			p.Protocol = "icmpv6"
		}
		for _, state := range slices.Sorted(maps.Keys(states)) {
			p.Connections += states[state]
			p.States = append(p.States, StateCount{state, states[state]})
		}
		slices.SortStableFunc(p.States, func(x, y StateCount) int { return cmp.Compare(y.Connections, x.Connections) })
		b.s.Protocols = append(b.s.Protocols, p)
	}
	slices.SortFunc(b.s.Protocols, func(x, y ProtocolStates) int {
		return cmp.Or(cmp.Compare(y.Connections, x.Connections), cmp.Compare(x.Protocol, y.Protocol))
	})
	if len(b.zones.of) > 0 {
		b.s.Zones = b.pairs.sorted(func(p *Pair) float64 { return float64(p.Connections) })
	}
	return b.s
}
