// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"strings"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/search"
)

// leastLoad is the least load that a search offers: a trial of one second still has frames.
const leastLoad = 1000 // frames per second

// Throughput searches for the loads that the goals describe (RFC 9971).
func Throughput(goals []result.Goal, timeout time.Duration) Method {
	return Method{Name: "throughput", Run: func(ctx context.Context, t *Target) error {
		begun := time.Now()
		trials := 0
		t.Rig.Timed(false)
		t.Tester.Purpose("search")
		bounds, err := search.Run(ctx, t.Tester, search.Options{
			Goals: goals, MinLoad: min(leastLoad, t.MaxLoad/2), MaxLoad: t.MaxLoad, Timeout: timeout,
			Progress: func(s search.Status) { trials = s.Trials; t.progress(searchText(s), s.Remaining) },
		})
		if len(bounds) > 0 {
			found := result.Throughput{Subject: t.Subject, Bounds: bounds, MinLoad: min(leastLoad, t.MaxLoad/2), MaxLoad: t.MaxLoad, Trials: trials, Took: time.Since(begun)}
			t.Session.Update(func(r *result.Result) { r.Throughput = append(r.Throughput, found) })
			t.remember(bounds)
		}
		return err
	}}
}

// remember keeps what later methods build on.
func (t *Target) remember(bounds []result.Bound) {
	for _, b := range bounds {
		if b.Goal.LossRatio == 0 && t.NDR == 0 {
			t.NDR = b.Lower
		} else if b.Goal.LossRatio > 0 && t.PDR == 0 {
			t.PDR = b.Lower
		}
	}
}

// searchText is what people see of a search.
func searchText(s search.Status) string {
	var goals []string
	for _, b := range s.Bounds {
		goals = append(goals, fmt.Sprintf("%s %s…%s", b.Goal.Name, rate(b.Lower), rate(b.Upper)))
	}
	return fmt.Sprintf("trial %d at %s frames/s: %s", s.Trials+1, rate(s.Next.Rate), strings.Join(goals, ", "))
}

// rate writes frames per second shortly.
func rate(fps float64) string {
	switch {
	case fps <= 0:
		return "?"
	case fps >= 1e6:
		return fmt.Sprintf("%.3f M", fps/1e6)
	case fps >= 1e3:
		return fmt.Sprintf("%.1f k", fps/1e3)
	}
	return fmt.Sprintf("%.0f", fps)
}

// Known takes the place of a search where the throughput is known.
func Known(fps float64) Method {
	return Method{Name: "given throughput", Run: func(_ context.Context, t *Target) error {
		if fps > t.MaxLoad {
			return fmt.Errorf("the rate of %s frames/s is more than the %s that this tester sends", rate(fps), rate(t.MaxLoad))
		}
		t.NDR, t.PDR = fps, fps
		return nil
	}}
}
