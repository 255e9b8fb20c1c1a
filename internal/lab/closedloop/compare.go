// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Side is one of the two things compared: a path through a rig.
type Side struct {
	Rig          *Rig
	Path         Path
	IPv6         bool
	Destinations int // how many of the loaded ones; 0 is all
}

// Comparison says how many times faster B is than A.
type Comparison struct {
	A        Speed    `json:"a"`
	B        Speed    `json:"b"`
	Ratio    Interval `json:"ratio"`       // packets per second of B ÷ those of A
	SameSame Interval `json:"ratio_a_a"`   // A ÷ A of the same rounds: what is inside this interval is noise
	Rounds   int      `json:"rounds"`      // that count
	Voided   int      `json:"voided"`      // trials repeated because they were interrupted for too long
	GapTime  float64  `json:"gap_seconds"` // interruptions taken out of the trials that count
	Lost     uint64   `json:"lost"`        // packets that never arrived, of all trials
}

// Speed is the median of one side's trials.
type Speed struct {
	PacketsPerSecond float64 `json:"pps"`
	PerPacket        float64 `json:"ns_per_packet"` // generator and sink included
}

const (
	trialTime   = 40 * time.Millisecond
	mostVoided  = 4       // repetitions of one trial
	fewFrames   = 1 << 14 // of a warm-up
	interrupted = 50 * time.Microsecond
)

// Compare measures A and B in short trials, A B A in every round, so that what
// else happens on the machine hits both alike. The ratio of a round is between
// B and the two As around it; the result is the median over all rounds.
//
// A stretch of 64 frames that takes 50 µs longer than four times the usual was
// interrupted (another process or another tenant had the core) and is put aside;
// a trial that lost more than half of its frames to such stretches is repeated.
func Compare(ctx context.Context, a, b Side, rounds int) (Comparison, error) {
	var c Comparison
	sides := [2]*measured{{Side: a}, {Side: b}}
	for _, s := range sides {
		if err := s.warmUp(ctx); err != nil {
			return c, err
		}
	}
	var ratios, same []float64
	for range rounds {
		var times [3]float64
		for i, s := range []*measured{sides[0], sides[1], sides[0]} {
			t, err := s.try(ctx, &c)
			if err != nil {
				return c, err
			}
			times[i] = t
		}
		ratios = append(ratios, math.Sqrt(times[0]*times[2])/times[1])
		same = append(same, times[0]/times[2])
	}
	c.Rounds, c.Ratio, c.SameSame = rounds, interval(ratios), interval(same)
	c.A, c.B = sides[0].speed(), sides[1].speed()
	return c, nil
}

// measured is a side with what is known of its speed.
type measured struct {
	Side
	frames int           // per trial
	gap    time.Duration // see Rig.Try
	times  []float64
}

// warmUp fills caches, finds out how many frames fill a trial's time, and checks
// that the packets take the path that they should.
func (s *measured) warmUp(ctx context.Context) error {
	before, err := s.Rig.KernelForwarded(s.IPv6)
	if err != nil {
		return err
	}
	var typical []float64
	for range 5 {
		t, err := s.Rig.Try(ctx, s.Path, s.IPv6, fewFrames, s.Destinations, 0)
		if err != nil {
			return err
		}
		if t.Lost > fewFrames/100 {
			return fmt.Errorf("path %s: %d of %d packets lost in the warm-up", s.Path, t.Lost, fewFrames)
		}
		typical = append(typical, t.PerFrame)
	}
	after, err := s.Rig.KernelForwarded(s.IPv6)
	if err != nil {
		return err
	}
	if up := after - before; s.Path == Fast && up > 5*fewFrames/100 {
		return fmt.Errorf("the fast path left %d of %d packets to the kernel", up, 5*fewFrames)
	} else if s.Path == Kernel && up < 5*fewFrames*99/100 {
		return fmt.Errorf("the kernel forwarded only %d of %d packets that the fast path should not touch", up, 5*fewFrames)
	}
	per := median(typical)
	s.frames = max(fewFrames, int(float64(trialTime)/per))
	s.gap = time.Duration(4*64*per) + interrupted
	return nil
}

// try returns the ns per frame of a trial that counts.
func (s *measured) try(ctx context.Context, c *Comparison) (float64, error) {
	for repeat := 0; ; repeat++ {
		t, err := s.Rig.Try(ctx, s.Path, s.IPv6, s.frames, s.Destinations, s.gap)
		if err != nil {
			return 0, err
		}
		c.Lost += t.Lost
		if t.Sent.CleanFrames >= uint64(s.frames)/2 {
			c.GapTime += t.Sent.GapTime.Seconds()
			s.times = append(s.times, t.PerFrame)
			return t.PerFrame, nil
		}
		if c.Voided++; repeat == mostVoided {
			return 0, fmt.Errorf("path %s: %d trials in a row were interrupted for most of their time: the machine is too busy to measure", s.Path, repeat+1)
		}
	}
}

func (s *measured) speed() Speed {
	per := median(s.times)
	return Speed{PacketsPerSecond: math.Round(1e9 / per), PerPacket: math.Round(per*10) / 10}
}

// Measure returns the speed of one side alone, over some trials.
func Measure(ctx context.Context, side Side, trials int) (Speed, error) {
	s := &measured{Side: side}
	if err := s.warmUp(ctx); err != nil {
		return Speed{}, err
	}
	var c Comparison
	for range trials {
		if _, err := s.try(ctx, &c); err != nil {
			return Speed{}, err
		}
	}
	return s.speed(), nil
}
