// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"fmt"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// LossCurveOptions say which loads a loss curve has.
type LossCurveOptions struct {
	Subject  result.Subject
	MaxLoad  float64       // frames per second
	Step     float64       // between two loads, as a share of MaxLoad; 0 is 0.1, the RFC's coarsest
	Duration time.Duration // of a trial; 0 is 60 s (RFC 2544 section 24)
	Full     bool          // go on to the least load after two loads without loss
	Progress Progress
}

// LossCurve measures loss from MaxLoad downwards until two loads in a row lose
// nothing (RFC 2544 section 26.3). Its points are in the order of the trials.
func LossCurve(ctx context.Context, t trial.Tester, o LossCurveOptions) (result.LossCurve, error) {
	step, duration := or(o.Step, 0.1), or(o.Duration, 60*time.Second)
	curve := result.LossCurve{Subject: o.Subject, MaxLoad: o.MaxLoad}
	if err := positive("loss curve", "the greatest load", o.MaxLoad); err != nil {
		return curve, err
	}
	loads := int(1/step + 1e-9)
	p := newPace(o.Progress, time.Duration(loads)*duration)
	trial.For(t, "loss curve")
	for i, quiet := 0, 0; i < loads; i++ {
		share := 1 - float64(i)*step
		p.next(fmt.Sprintf("loss at %.0f %%", share*100))
		r, err := t.Try(ctx, trial.Load{Rate: share * o.MaxLoad, Duration: duration})
		if err != nil {
			return curve, err
		}
		p.past(duration)
		curve.Points = append(curve.Points, result.LossPoint{
			Share: share, Offered: share * o.MaxLoad, Forward: r.ForwardingRate(), Loss: r.LossRatio()})
		quiet++
		if r.Lost() > 0 {
			quiet = 0
		}
		if quiet == 2 && !o.Full {
			break
		}
	}
	return curve, nil
}
