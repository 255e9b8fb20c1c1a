// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"time"

	"minne/internal/lab/result"
)

// NDR is FD.io CSIT's goal for the Non-Drop Rate: in half of the time of 21 trials
// of one second not a frame is lost. It suits routers in software, which lose a
// frame now and then at any load (RFC 9971 section 2.3); it is not the throughput
// of RFC 2544, which is lower on such routers.
func NDR() result.Goal {
	return result.Goal{
		Name:          "NDR",
		ExceedRatio:   0.5,
		FinalDuration: time.Second,
		DurationSum:   21 * time.Second,
		InitialTrial:  time.Second,
		Width:         0.005,
	}
}

// PDR is FD.io CSIT's goal for the Partial Drop Rate: as NDR, with 0.5 % of the
// frames lost. The width is no less than the loss ratio, otherwise its Conditional
// Throughput could be less than that of the NDR (RFC 9971 section 5.6.2).
func PDR() result.Goal {
	g := NDR()
	g.Name, g.LossRatio = "PDR", 0.005
	return g
}

// RFC2544 is the goal whose Relevant Lower Bound is the throughput of RFC 2544
// section 26.1 (RFC 9971 section 4.10.2): one trial without loss. Section 24 of
// RFC 2544 wants 60 s for it; a shorter trial is only conditionally compliant, and
// the goal's name says so. Trials begin at a second, as such a short one can
// already show that a load is too much.
func RFC2544(trial time.Duration) result.Goal {
	g := result.Goal{
		Name:          "RFC 2544",
		FinalDuration: trial,
		DurationSum:   trial,
		InitialTrial:  min(trial, time.Second),
		Width:         0.005,
	}
	if trial < time.Minute {
		g.Name = fmt.Sprintf("RFC 2544, %v trials", trial)
	}
	return g
}

// Quick makes a goal rougher and quicker: bounds may be 2 % apart, and where a goal
// asks for several trials they are half as long and a third as many, so that each
// load takes a sixth of the time and chance has a greater say.
func Quick(g result.Goal) result.Goal {
	g.Name += ", quick"
	g.Width = 0.02
	if g.FinalDuration < g.DurationSum {
		g.FinalDuration, g.InitialTrial, g.DurationSum = g.FinalDuration/2, g.InitialTrial/2, g.DurationSum/6
	}
	return g
}

// check says what is wrong with a goal (RFC 9971 section 4.6).
func check(g result.Goal) error {
	wrong := func(what string, got any, expected string) error {
		return fmt.Errorf("search goal %q: %s is %v: expected %s", g.Name, what, got, expected)
	}
	switch {
	case g.LossRatio < 0 || g.LossRatio >= 1:
		return wrong("the loss ratio", g.LossRatio, "0 or more and less than 1")
	case g.ExceedRatio < 0 || g.ExceedRatio >= 1:
		return wrong("the exceed ratio", g.ExceedRatio, "0 or more and less than 1")
	case g.Width <= 0 || g.Width >= 1:
		return wrong("the width", g.Width, "more than 0 and less than 1")
	case g.InitialTrial <= 0:
		return wrong("the initial trial duration", g.InitialTrial, "more than 0")
	case g.FinalDuration < g.InitialTrial:
		return wrong("the final trial duration", g.FinalDuration, "at least the initial one, "+g.InitialTrial.String())
	case g.DurationSum < g.FinalDuration:
		return wrong("the duration sum", g.DurationSum, "at least the final trial duration, "+g.FinalDuration.String())
	}
	return nil
}
