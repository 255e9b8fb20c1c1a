// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"
	"errors"
	"slices"

	"minne/internal/lab/closedloop"
	"minne/internal/lab/statistics"
)

const (
	ipv4 = 0
	ipv6 = 1
)

// figures are the headline, in the order in which they are measured: those that
// share equipment stand together. Frames are the least (64 bytes with FCS, IPv6 84),
// on one core, in a closed loop; ratios of packets per second include generator and sink.
var figures = slices.Concat(forwarding, policies, translations, logins, links, shaped, deaths, cores, lookups, flows, logged)

var forwarding = []definition{
	{"forward.ipv4.one-route", "packets per second of the fast path, one route, one flow", "×", "kernel",
		forward(func(t *closedloop.Tables) (a, b closedloop.Side) {
			return side(t.OneSlow, t.Single[ipv4]), side(t.One, t.Single[ipv4])
		})},
	{"forward.ipv4.full-table.random", "packets per second of the fast path, full table, random destinations", "×", "kernel",
		forward(func(t *closedloop.Tables) (a, b closedloop.Side) {
			return side(t.FullSlow, t.Many[ipv4]), side(t.Full, t.Many[ipv4])
		})},
	{"forward.ipv6.full-table.random", "packets per second of the fast path, full table, a random host of every prefix", "×", "kernel",
		forward(func(t *closedloop.Tables) (a, b closedloop.Side) {
			return side(t.FullSlow, t.Many[ipv6]), side(t.Full, t.Many[ipv6])
		})},
	{"forward.ipv4.full-table.kept", "packets per second of the fast path, full table and random destinations", "×", "fast path, one route, one flow",
		forward(func(t *closedloop.Tables) (a, b closedloop.Side) {
			return side(t.One, t.Single[ipv4]), side(t.Full, t.Many[ipv4])
		})},
	{"cost.ipv4.ns", "processor time of the fast path for a packet, one route, one flow", "ns", "no router", cost},
}

var lookups = []definition{
	{"lookup.ipv4", "route lookups in the full table, random public addresses", "×", "bpf_fib_lookup", lookup(ipv4)},
	{"lookup.ipv6", "route lookups in the full table, random addresses inside its prefixes", "×", "bpf_fib_lookup", lookup(ipv6)},
}

func side(p *closedloop.Path, l *closedloop.Load) closedloop.Side {
	return closedloop.Side{Path: p, Load: l}
}

// forward is how many times more packets per second B forwards than A.
func forward(sides func(*closedloop.Tables) (a, b closedloop.Side)) func(context.Context, *Bench) (Measured, error) {
	return func(ctx context.Context, bench *Bench) (Measured, error) {
		t, err := bench.Tables(ctx)
		if err != nil {
			return Measured{}, err
		}
		a, b := sides(t)
		c, err := closedloop.Compare(ctx, a, b, bench.Rounds)
		return measured(c.Ratio, c.SameSame), err
	}
}

func cost(ctx context.Context, bench *Bench) (Measured, error) {
	t, err := bench.Tables(ctx)
	if err != nil {
		return Measured{}, err
	}
	c, err := closedloop.Cost(ctx, side(t.One, t.Single[ipv4]), bench.Rounds, nil)
	return measured(c.PerPacket, c.SameSame), err
}

// lookup is how many times faster a lookup in the fast path's structure is than the kernel's.
func lookup(family int) func(context.Context, *Bench) (Measured, error) {
	return func(ctx context.Context, bench *Bench) (Measured, error) {
		r, err := bench.Lookups(ctx)
		if err != nil {
			return Measured{}, err
		}
		if len(r.Speedups[family]) == 0 {
			return Measured{}, errors.New("the benchmark of lookups has no rounds")
		}
		return measured(statistics.Interval(r.Speedups[family]), statistics.Interval(r.Repeats[family])), nil
	}
}
