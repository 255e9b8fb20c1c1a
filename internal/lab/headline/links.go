// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"

	"minne/internal/lab/closedloop"
	"minne/internal/lab/programcost"
)

// links are the figures of ports that are more than an Ethernet device; see closedloop.Bridges. What the program takes
// longer is the difference of routers that are otherwise equal: all else that a packet meets is the same.
var links = []definition{
	{"links.bridge.ns", "processor time more of the fast path for a packet that leaves by a port of a bridge", "ns", "fast path, no bridge",
		longer(func(b *closedloop.Bridges) *closedloop.Path { return b.Out })},
	{"links.bridge.in.ns", "processor time more of the fast path for a packet that enters by a port of a bridge", "ns", "fast path, no bridge",
		longer(func(b *closedloop.Bridges) *closedloop.Path { return b.In })},
	{"links.vrf.ns", "time more of the program alone for a packet that enters by a port in a VRF", "ns", "fast path, no VRF",
		alone(programcost.Plain, programcost.InVRF)},
	{"links.pppoe.ns", "time more of the program alone for a packet that leaves by a PPPoE session, with the room for the header", "ns", "fast path, no session",
		alone(programcost.Plain, programcost.Outwards)},
	{"links.pppoe.in.ns", "time more of the program alone for a packet that enters by a PPPoE session", "ns", "fast path, no session",
		alone(programcost.Back, programcost.Inwards)},
	{"links.bridge.ratio", "packets per second of the fast path, from a port of a bridge to a port", "×", "kernel, the same path", bridged},
}

// ways are test runs of one packet each, see programcost.
func (b *Bench) ways(ctx context.Context) (*programcost.Bed, error) {
	return b.programs.get(func() (*programcost.Bed, error) {
		b.Progress("building a router for test runs, with a PPPoE session and a VRF on paper")
		p, err := programcost.New(ctx)
		if err != nil {
			return nil, err
		}
		b.teardowns = append(b.teardowns, p.Close)
		return p, nil
	})
}

// alone is by how much the program takes longer for a packet of one way than for one of another, driver and memory left out.
func alone(plain, more programcost.Way) func(context.Context, *Bench) (Measured, error) {
	return func(ctx context.Context, bench *Bench) (Measured, error) {
		p, err := bench.ways(ctx)
		if err != nil {
			return Measured{}, err
		}
		longer, same, err := p.Extra(ctx, plain, more, testRuns*bench.Rounds)
		return measured(longer, same), err
	}
}

// testRuns are how many there are of each way in what is a round elsewhere.
const testRuns = 5

// Bridges returns routers with and without bridges in a closed loop.
func (b *Bench) Bridges(ctx context.Context) (*closedloop.Bridges, error) {
	return b.bridges.get(func() (*closedloop.Bridges, error) {
		b.release()
		b.Progress("building four routers, with a bridge at the ingress, at the egress, and two without")
		r, err := closedloop.NewBridges(ctx, b.Means)
		if err != nil {
			return nil, err
		}
		b.teardowns = append(b.teardowns, r.Close)
		return r, nil
	})
}

// longer is by how much a packet takes longer on a path than without a bridge.
func longer(path func(*closedloop.Bridges) *closedloop.Path) func(context.Context, *Bench) (Measured, error) {
	return func(ctx context.Context, bench *Bench) (Measured, error) {
		b, err := bench.Bridges(ctx)
		if err != nil {
			return Measured{}, err
		}
		more, same, err := closedloop.Extra(ctx, side(b.Plain, b.Single), side(path(b), b.Single), side(b.Again, b.Single), bench.Rounds)
		return measured(more, same), err
	}
}

func bridged(ctx context.Context, bench *Bench) (Measured, error) {
	b, err := bench.Bridges(ctx)
	if err != nil {
		return Measured{}, err
	}
	c, err := closedloop.Compare(ctx, side(b.InSlow, b.Single), side(b.In, b.Single), bench.Rounds)
	return measured(c.Ratio, c.SameSame), err
}
