// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"
	"time"

	"minne/internal/lab/responsiveness"
	"minne/internal/lab/statistics"
)

// shaped are the figures of a shaped line, from User-Mode Linux: most kernels of test machines have no cake.
var shaped = []definition{
	{"shape.delay.ms", "99th percentile of round trips over a full shaped line (12 Mbit/s, NAT; User-Mode Linux), the worse direction", "ms", "median of the idle line", delay},
	{"shape.fairness", "Jain's index of two hosts behind NAT, 1 flow against 64 (User-Mode Linux), the worse direction", "×", "equal shares", fairness},
}

// shapedBench is what a line was like, in windows.
type shapedBench struct{ idle, up, down []responsiveness.Window }

const shapedWindow = time.Second

// Shaped returns what a shaped line was like idle, and filled in either direction.
func (b *Bench) Shaped(ctx context.Context) (*shapedBench, error) {
	return b.shaped.get(func() (*shapedBench, error) {
		b.release()
		b.Progress("building a router with a shaped line in User-Mode Linux")
		bed, err := responsiveness.New(ctx, b.Means.Binary)
		if err != nil {
			return nil, err
		}
		b.teardowns = append(b.teardowns, bed.Close)
		var s shapedBench
		for _, one := range []struct {
			d    responsiveness.Direction
			into *[]responsiveness.Window
		}{{responsiveness.Idle, &s.idle}, {responsiveness.Up, &s.up}, {responsiveness.Down, &s.down}} {
			if *one.into, err = bed.Measure(ctx, one.d, b.Rounds, shapedWindow); err != nil {
				return nil, err
			}
		}
		return &s, nil
	})
}

// delay is the tail of round trips above the idle line's median; against itself, the idle line's tail.
func delay(ctx context.Context, bench *Bench) (Measured, error) {
	s, err := bench.Shaped(ctx)
	if err != nil {
		return Measured{}, err
	}
	tails := func(all []responsiveness.Window, of float64) (list []float64) {
		for i := range all {
			list = append(list, all[i].Trips.Quantile(of).Seconds()*1000)
		}
		return list
	}
	base := statistics.Median(tails(s.idle, 0.5))
	above := func(all []responsiveness.Window) []float64 {
		list := tails(all, 0.99)
		for i := range list {
			list[i] -= base
		}
		return list
	}
	up, down, idle := statistics.Interval(above(s.up)), statistics.Interval(above(s.down)), statistics.Interval(above(s.idle))
	if up.Median > down.Median {
		return measured(up, idle), nil
	}
	return measured(down, idle), nil
}

// fairness is the index of the worse direction; against itself, each window against the one before.
func fairness(ctx context.Context, bench *Bench) (Measured, error) {
	s, err := bench.Shaped(ctx)
	if err != nil {
		return Measured{}, err
	}
	index := func(all []responsiveness.Window) (list, same []float64) {
		for i, w := range all {
			list = append(list, w.Jain())
			if i > 0 && list[i-1] > 0 {
				same = append(same, list[i]/list[i-1])
			}
		}
		return list, same
	}
	worse, same := index(s.up)
	if down, again := index(s.down); statistics.Median(down) < statistics.Median(worse) {
		worse, same = down, again
	}
	return measured(statistics.Interval(worse), statistics.Interval(same)), nil
}
