// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"fmt"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
	"minne/internal/lab/trial"
)

// OverloadOptions say how a device is overloaded.
type OverloadOptions struct {
	Subject    result.Subject
	Throughput float64       // frames per second, as found by a search
	MaxLoad    float64       // greatest load that the tester can offer, frames per second
	For        time.Duration // of overload; 0 is 60 s
	Watch      time.Duration // of half the throughput afterwards; 0 is 10 s
	Repeat     int           // 0 is 3
	Progress   Progress
}

// Overload measures system recovery (RFC 2544 section 26.5): 110 % of the throughput
// (or the greatest load, when that is less) for a minute, then half of the
// throughput without a pause; from that step to the last frame lost is the outage.
//
// The bench must be a Stepper, else the error is trial.ErrNoSteps. Repetitions that the
// machine disturbed are made again, as often as there are repetitions at all.
func Overload(ctx context.Context, s trial.Stepper, o OverloadOptions) (result.Recovery, error) {
	high := min(1.1*o.Throughput, o.MaxLoad)
	if err := positive("recovery from overload", "the throughput or the greatest load", high); err != nil {
		return result.Recovery{}, err
	}
	loads := []trial.Load{
		{Rate: high, Duration: or(o.For, 60*time.Second)},
		{Rate: o.Throughput / 2, Duration: or(o.Watch, 10*time.Second)},
	}
	found := result.Recovery{Subject: o.Subject, Event: "overload", Load: high, Method: "time stamp"}
	repeat := or(o.Repeat, 3)
	one := loads[0].Duration + loads[1].Duration
	p := newPace(o.Progress, time.Duration(repeat)*one)
	trial.For(s, "recovery from overload")
	spare := repeat
	for i := 0; i < repeat; {
		p.next(fmt.Sprintf("recovery from overload, %d of %d", i+1, repeat))
		steps, err := s.AttemptSteps(ctx, loads)
		if err != nil {
			return found, err
		}
		if steps[1].Void != "" && spare > 0 {
			spare--
			continue
		}
		p.past(one)
		i++
		add(&found, steps[1].LastLoss, missing(steps[1]))
		if steps[1].LastLoss > loads[1].Duration*9/10 {
			return found, fmt.Errorf("%v after the load fell to half of the throughput frames were still lost: the throughput of %.0f frames/s is not what the device sustains, or it needs longer to recover",
				loads[1].Duration, o.Throughput)
		}
	}
	return found, nil
}

// add adds a repetition.
func add(r *result.Recovery, outage time.Duration, lost uint64) {
	r.Each = append(r.Each, outage)
	r.Lost = append(r.Lost, lost)
	r.Outage = medianDuration(r.Each)
}

func medianDuration(values []time.Duration) time.Duration {
	ns := make([]float64, len(values))
	for i, v := range values {
		ns[i] = float64(v)
	}
	return time.Duration(statistics.Median(ns))
}
