// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"

	"minne/internal/lab/closedloop"
)

// cores are the figures of two processors that send through one router at once; see closedloop.Cores. What the
// machine gets through without a router stands beside them: two processors may share a core, or memory.
var cores = []definition{
	{"cores.2.ratio", "packets per second of the fast path on two processors, a queue for each, one flow each", "×", "one processor",
		scaled(func(c *coresBench) *closedloop.Cores { return c.router })},
	{"cores.2.cable.ratio", "packets per second without a router on two processors, a queue for each", "×", "one processor",
		scaled(func(c *coresBench) *closedloop.Cores { return c.direct })},
}

// coresBench is a router and the cable beside it.
type coresBench struct{ router, direct *closedloop.Cores }

// Cores returns a router with two queues in a closed loop.
func (b *Bench) Cores(ctx context.Context) (*coresBench, error) {
	return b.cores.get(func() (*coresBench, error) {
		b.release()
		b.Progress("building a router with two queues")
		router, direct, rig, err := closedloop.NewCores(ctx, b.Means)
		if err != nil {
			return nil, err
		}
		b.teardowns = append(b.teardowns, rig.Close)
		return &coresBench{router, direct}, nil
	})
}

func scaled(which func(*coresBench) *closedloop.Cores) func(context.Context, *Bench) (Measured, error) {
	return func(ctx context.Context, bench *Bench) (Measured, error) {
		c, err := bench.Cores(ctx)
		if err != nil {
			return Measured{}, err
		}
		more, same, err := which(c).Scale(ctx, bench.Rounds)
		return measured(more, same), err
	}
}

// translatedByTwo is how the router that translates scales, with half of its flows on each processor.
func translatedByTwo(ctx context.Context, bench *Bench) (Measured, error) {
	t, err := bench.Translators(ctx)
	if err != nil {
		return Measured{}, err
	}
	c, err := t.Fast.Cores()
	if err != nil {
		return Measured{}, err
	}
	more, same, err := c.Scale(ctx, max(1, bench.Rounds/3)) // all flows go ahead of each trial
	return measured(more, same), err
}
