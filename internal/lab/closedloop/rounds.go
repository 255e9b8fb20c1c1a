// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"fmt"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/statistics"
)

// Side is one of the things measured by turns: a load on a path.
type Side struct {
	*Path
	Load *Load
}

const (
	trialTime   = 40 * time.Millisecond
	mostVoided  = 4       // repetitions of one trial
	fewFrames   = 1 << 14 // of a warm-up
	again       = 5       // before every trial so many times fewer frames go ahead uncounted
	interrupted = 50 * time.Microsecond
)

// rounds are short trials of several sides by turns, so that what else happens on
// the machine hits all of them alike. Every other round goes backwards, so that no
// side always follows the same one; and before each trial some frames go ahead
// uncounted, which bring what this side needs back into the caches.
//
// A stretch of 64 frames that takes 50 µs longer than four times the usual was
// interrupted (another process or another tenant had the core) and is put aside;
// a trial that lost more than half of its frames to such stretches is repeated.
type rounds struct {
	times   [][]float64 // ns per frame: of every side, of every complete round
	voided  int         // trials repeated because they were interrupted for too long
	gapTime float64     // seconds of interruptions taken out of the trials that count
	lost    uint64      // packets that never arrived, of all trials
}

// measured is a side with what is known of its speed.
type measured struct {
	Side
	frames int           // per trial
	gap    time.Duration // see Path.Try
}

// alternate measures the sides in n rounds. A side may stand several times. progress, unless
// nil, is told how many rounds are over. With an error come the rounds that were complete by then.
func alternate(ctx context.Context, n int, progress func(done int), sides ...Side) (*rounds, error) {
	r := &rounds{times: make([][]float64, len(sides))}
	known := map[Side]*measured{}
	for _, s := range sides {
		if known[s] != nil {
			continue
		}
		known[s] = &measured{Side: s}
		if err := known[s].warmUp(ctx); err != nil {
			return r, err
		}
	}
	for round := range n {
		times := make([]float64, len(sides))
		for i := range sides {
			if round%2 == 1 {
				i = len(sides) - 1 - i
			}
			var err error
			if times[i], err = known[sides[i]].try(ctx, r); err != nil {
				return r, err
			}
		}
		for i, t := range times {
			r.times[i] = append(r.times[i], t)
		}
		if progress != nil {
			progress(round + 1)
		}
	}
	return r, nil
}

// complete is how many rounds there are.
func (r *rounds) complete() int { return len(r.times[0]) }

// warmUp fills caches, finds out how many frames fill a trial's time, and checks
// that the packets are forwarded by whom they should be.
func (s *measured) warmUp(ctx context.Context) error {
	before, err := s.kernelForwarded()
	if err != nil {
		return err
	}
	if t, err := s.TryWhole(ctx, s.Load, fewFrames); err != nil {
		return err
	} else if t.Lost > fewFrames/100 {
		return fmt.Errorf("%s: %d of %d packets lost in the warm-up", s.Name, t.Lost, fewFrames)
	}
	var typical []float64
	for range 3 {
		t, err := s.Try(ctx, s.Load, fewFrames, 0)
		if err != nil {
			return err
		}
		typical = append(typical, t.PerFrame)
	}
	after, err := s.kernelForwarded()
	if err != nil {
		return err
	}
	if err := s.rightForwarder(after-before, 4*fewFrames); err != nil {
		return err
	}
	per := statistics.Median(typical)
	s.frames = max(fewFrames, int(float64(trialTime)/per))
	s.gap = time.Duration(4*64*per) + interrupted
	return nil
}

// rightForwarder judges how many of the packets the kernel has forwarded.
func (s *measured) rightForwarder(kernel, packets uint64) error {
	switch {
	case s.forwarder == device.ByFastPath && kernel > packets/100:
		return fmt.Errorf("%s: the fast path left %d of %d packets to the kernel", s.Name, kernel, packets)
	case s.forwarder == device.ByKernel && kernel < packets*99/100:
		return fmt.Errorf("%s: the kernel forwarded only %d of %d packets: expected all; another program interferes", s.Name, kernel, packets)
	}
	return nil
}

// try returns the ns per frame of a trial that counts.
func (s *measured) try(ctx context.Context, r *rounds) (float64, error) {
	ahead, err := s.Try(ctx, s.Load, max(s.frames/again, s.Load.ahead), 0)
	if err != nil {
		return 0, err
	}
	r.lost += ahead.Lost
	for repeat := 0; ; repeat++ {
		t, err := s.Try(ctx, s.Load, s.frames, s.gap)
		if err != nil {
			return 0, err
		}
		r.lost += t.Lost
		if t.Sent.CleanFrames >= uint64(s.frames)/2 {
			r.gapTime += t.Sent.GapTime.Seconds()
			return t.PerFrame, nil
		}
		if r.voided++; repeat == mostVoided {
			return 0, fmt.Errorf("%s: %d trials in a row were interrupted for most of their time: the machine is too busy to measure", s.Name, repeat+1)
		}
	}
}
