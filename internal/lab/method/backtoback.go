// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"fmt"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// BackToBackOptions say how bursts are searched for.
type BackToBackOptions struct {
	Subject    result.Subject
	Rate       float64       // of bursts, frames per second; 0 is as fast as the tester can
	Throughput float64       // as found by a search; 0: no corrected buffer time
	MaxRate    float64       // what Rate 0 comes to; needed then
	Longest    time.Duration // longest burst that is tried; 0 is 2 s (RFC 2544 section 26.4)
	Repeat     int           // searches; 0 is 50 (RFC 2544 section 26.4)
	Resolution float64       // relative width at which a search ends; 0 is 0.005. Never less than a frame
	Progress   Progress
}

// BackToBack searches for the longest burst without loss, many times over, and
// tells from their mean how much the device buffers (RFC 9004 section 6):
//
//	implied buffer time   = mean burst ÷ burst rate
//	corrected buffer time = implied × (1 − throughput ÷ burst rate)
//
// The correction takes off what the device forwards while the burst still arrives.
// There is no corrected time without a throughput, and neither has a meaning when
// no burst lost anything (Unbounded).
//
// Every search starts where the last one ended, which saves most trials: a
// software router's longest burst wavers around one length.
func BackToBack(ctx context.Context, t trial.Tester, o BackToBackOptions) (result.BackToBack, error) {
	found := result.BackToBack{Subject: o.Subject}
	if err := positive("back-to-back", "the tester's greatest rate", or(o.Rate, o.MaxRate)); err != nil {
		return found, err
	}
	b := newBurst(ctx, t, o)
	repeat := or(o.Repeat, 50)
	p := newPace(o.Progress, time.Duration(repeat)*time.Second) // a guess, until a search is over
	trial.For(t, "back-to-back")
	guess, factor := min(uint64(64), b.longest), 2.0
	for i := range repeat {
		p.next(fmt.Sprintf("burst search %d of %d", i+1, repeat))
		length, err := b.search(guess, factor)
		if err != nil {
			b.summarize(&found, o.Throughput)
			return found, err
		}
		p.past(time.Second)
		found.Bursts = append(found.Bursts, length)
		guess, factor = max(1, length), 1.05
	}
	b.summarize(&found, o.Throughput)
	return found, nil
}

// burst searches for bursts.
type burst struct {
	ctx        context.Context
	tester     trial.Tester
	rate       float64
	longest    uint64 // frames
	resolution float64

	frames  uint64 // of all bursts
	elapsed time.Duration
	lossy   bool // some burst lost a frame
}

func newBurst(ctx context.Context, t trial.Tester, o BackToBackOptions) *burst {
	longest := or(o.Rate, o.MaxRate) * or(o.Longest, 2*time.Second).Seconds()
	return &burst{ctx: ctx, tester: t, rate: o.Rate, longest: max(1, uint64(longest)), resolution: or(o.Resolution, 0.005)}
}

// passes says whether a burst of so many frames comes back whole.
func (b *burst) passes(frames uint64) (bool, error) {
	r, err := b.tester.Try(b.ctx, trial.Load{Rate: b.rate, Frames: frames})
	if err != nil {
		return false, err
	}
	b.frames += r.Sent
	b.elapsed += r.Elapsed
	b.lossy = b.lossy || r.Lost() > 0
	return r.Lost() == 0, nil
}

// search returns the longest burst that passes; the longest of all when that passes,
// 0 when not even one frame does.
func (b *burst) search(guess uint64, factor float64) (uint64, error) {
	lower, upper, err := b.bracket(guess, factor)
	for err == nil && upper-lower > max(1, uint64(float64(lower)*b.resolution)) {
		var passes bool
		middle := lower + (upper-lower)/2
		passes, err = b.passes(middle)
		if passes {
			lower = middle
		} else {
			upper = middle
		}
	}
	return lower, err
}

// bracket goes from the guess in growing strides until one burst passes and the next
// doesn't. They are the same at either end of what is tried: 0 or the longest.
func (b *burst) bracket(guess uint64, factor float64) (lower, upper uint64, err error) {
	guess = min(guess, b.longest)
	first, err := b.passes(guess)
	for at, passes := guess, first; err == nil; {
		if passes != first {
			return min(at, guess), max(at, guess), nil
		}
		guess = at
		switch {
		case first && at == b.longest:
			return at, at, nil
		case first:
			at = min(b.longest, max(at+1, uint64(float64(at)*factor)))
		case at <= 1:
			return 0, 0, nil
		default:
			at = min(at-1, uint64(float64(at)/factor))
			at = max(1, at)
		}
		factor = min(4, factor*factor)
		passes, err = b.passes(at)
	}
	return 0, 0, err
}

// summarize fills in what follows from the bursts found.
func (b *burst) summarize(found *result.BackToBack, throughput float64) {
	if len(found.Bursts) == 0 || b.elapsed <= 0 {
		return
	}
	lengths := make([]float64, len(found.Bursts))
	for i, n := range found.Bursts {
		lengths[i] = float64(n)
	}
	found.Mean, found.Deviation = meanDeviation(lengths)
	found.BurstRate = float64(b.frames) / b.elapsed.Seconds()
	found.Throughput = throughput
	found.Unbounded = !b.lossy
	implied := found.Mean / found.BurstRate * 1e9
	found.BufferTime = time.Duration(implied)
	if throughput > 0 {
		found.Corrected = time.Duration(max(0, implied*(1-throughput/found.BurstRate)))
	}
}
