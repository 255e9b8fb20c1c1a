// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"
	"time"

	"minne/internal/lab/closedloop"
)

// translations are the figures of routers that keep state and translate; see closedloop.Translators. The
// last one leaves the routers' tables full.
var translations = []definition{
	{"nat.64k.ratio", "packets per second of the fast path, 65,536 masqueraded flows, both ways", "×", "kernel, masquerade", established},
	{"cores.2.nat.ratio", "packets per second of the fast path, 65,536 masqueraded flows, both ways, on two processors, a queue for each", "×", "one processor", translatedByTwo},
	{"nat.new.ratio", "new TCP connections per second (masquerade, 8 packets each, both ways), fast path on", "×", "the same router, fast path off", beginnings},
	{"nat.flood.lost", "packets of 10,000 established flows lost at half the lossless rate, while random new flows arrive at the generator's maximum", "packets", "no flood", flooded},
}

// The connections beside which a flood is sent, and for how long.
const (
	floodedFlows = 10_000
	floodTime    = 5 * time.Second
)

// Translators returns two routers that masquerade, with their connections established.
func (b *Bench) Translators(ctx context.Context) (*closedloop.Translators, error) {
	return b.translators.get(func() (*closedloop.Translators, error) {
		b.release()
		b.Progress("building two routers that masquerade, with 65,536 connections each")
		t, err := closedloop.NewTranslators(ctx, b.Means)
		if err != nil {
			return nil, err
		}
		b.teardowns = append(b.teardowns, t.Close)
		if err := t.Establish(ctx, closedloop.Flows); err != nil {
			return nil, err
		}
		if err := t.AwaitFast(ctx); err != nil {
			return nil, err
		}
		return t, t.Connect(ctx)
	})
}

func established(ctx context.Context, bench *Bench) (Measured, error) {
	t, err := bench.Translators(ctx)
	if err != nil {
		return Measured{}, err
	}
	// A round takes three times as long as others: all flows go ahead of each trial.
	c, err := closedloop.Compare(ctx, side(t.Slow.Path, t.Slow.Established), side(t.Fast.Path, t.Fast.Established), max(1, bench.Rounds/3))
	return measured(c.Ratio, c.SameSame), err
}

func beginnings(ctx context.Context, bench *Bench) (Measured, error) {
	t, err := bench.Translators(ctx)
	if err != nil {
		return Measured{}, err
	}
	c, err := closedloop.Compare(ctx, t.Slow.Connections, t.Fast.Connections, max(1, bench.Rounds/2))
	return measured(c.Ratio, c.SameSame), err
}

// flooded is an exact count, beside that of the same trial without a flood.
func flooded(ctx context.Context, bench *Bench) (Measured, error) {
	t, err := bench.Translators(ctx)
	if err != nil {
		return Measured{}, err
	}
	f, err := t.Flood(ctx, floodedFlows, floodTime)
	lost, alone := float64(f.Lost), float64(f.LostAlone)
	return Measured{Value: lost, Low: lost, High: lost, AALow: alone, AAHigh: alone}, err
}
