// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"fmt"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// MRROptions say how the greatest load is offered.
type MRROptions struct {
	Subject  result.Subject
	Load     float64       // frames per second; 0 is as fast as the tester can
	Duration time.Duration // of a trial; 0 is 1 s, as CSIT has it
	Repeat   int           // trials; 0 is 10, as CSIT has it
	Progress Progress
}

// MRR measures what comes back per second at the greatest load, however much of it
// is lost: the maximum receive rate of FD.io CSIT. It takes seconds and shows changes
// of a router from one day to the next; it is no throughput.
func MRR(ctx context.Context, t trial.Tester, o MRROptions) (result.MRR, error) {
	repeat, duration := or(o.Repeat, 10), or(o.Duration, time.Second)
	found := result.MRR{Subject: o.Subject}
	p := newPace(o.Progress, time.Duration(repeat)*duration)
	trial.For(t, "MRR")
	loads := 0.0
	for i := range repeat {
		p.next(fmt.Sprintf("maximum receive rate, trial %d of %d", i+1, repeat))
		r, err := t.Try(ctx, trial.Load{Rate: o.Load, Duration: duration})
		if err != nil {
			return found, err
		}
		p.past(duration)
		loads += offered(r)
		found.Rates = append(found.Rates, r.ForwardingRate())
		found.Offered = loads / float64(i+1)
		found.Mean, found.Deviation = meanDeviation(found.Rates)
	}
	return found, nil
}
