// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"time"

	"minne/internal/lab/energy"
	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// Power measures the power and CPU time of the machine at shares of the NDR, 0
// being idle, each for a time.
func Power(source energy.Source, shares []float64, each time.Duration) Method {
	return Method{Name: "power", Run: func(ctx context.Context, t *Target) error {
		if t.NDR == 0 {
			return errNoRate
		}
		t.Rig.Timed(false)
		t.Tester.Purpose("power")
		if t.Rig.Device() != nil {
			t.Session.Note("Power and CPU time are those of the whole machine, on which the packets are generated and counted too.")
		}
		var steps []energy.Step
		for i, share := range shares {
			left := each * time.Duration(len(shares)-i)
			steps = append(steps, energy.Step{Share: share, Run: func(ctx context.Context) (float64, float64, error) {
				t.progress(fmt.Sprintf("power at %.0f %% load", share*100), left)
				if share == 0 {
					return 0, 0, energy.Rest(each)(ctx)
				}
				r, err := t.Tester.Attempt(ctx, trial.Load{Rate: share * t.NDR, Duration: each})
				return r.ForwardingRate(), r.ForwardingRate() * t.Subject.MeanSize * 8, err
			}})
		}
		found, err := energy.Measure(ctx, source, steps)
		if len(found.Steps) > 0 {
			found.Subject = t.Subject
			t.Session.Update(func(r *result.Result) { r.Energy = append(r.Energy, found) })
		}
		return err
	}}
}
