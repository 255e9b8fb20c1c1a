// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"fmt"
	"math"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/measure"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
	"minne/internal/lab/trial"
)

// What a second pair of hosts costs the first one's router: the third
// configuration of the article about the Linux router, "cross-pinging". Trials
// with one pair and with two alternate, so that the ratio is of the load and not of
// what else the machine did.

// Rows of crossPing.
const (
	pairBits   = "bandwidth with one flow pair"
	crossedBy  = "bandwidth lost when a second flow pair crosses"
	crossNoise = "the same between two measurements of one flow pair (noise)"
)

var crossPing = Preset{
	Name:      "cross-ping",
	Short:     "what a second flow pair costs: 1–2 %",
	Source:    "The Linux router, section \"Bandwidth Measurement\", third configuration (LRP 2.9.8 on Pentiums of 133 to 733 MHz, Linux 2.2, 100 Mbit/s)",
	QuickTime: "1 min", Time: "4 min",
	Comparable: "the loss in percent: the router's bandwidth with two flow pairs against that with one, on the same router in the same minute. " +
		"It counts as measured only if it exceeds the noise in the next column.",
	Not: "the bandwidth, which in the article was that of 100 Mbit/s Ethernet or of a Pentium, of transfers between hosts at either end. There the second pair had ports of its own " +
		"(four cards in the router); here both pairs cross the same two ports and one processor, and the generator offers all it can. The article does not name the computer on which the loss was seen, nor how often.",
	rows: each(
		said(pairBits, "Mbit/s", "51 (Pentium 133), 82 (Pentium 200), 90 (the medium's limit)"),
		said(crossedBy, "%", "1–2"),
		said(crossNoise, "%", "not given"),
	),
	run: runCrossPing,
}

// One and two pairs of hosts, both ways, with the longest frames: transfers.
const (
	onePair  = "one-flow bidirectional size=1518"
	twoPairs = "flows=2 bidirectional size=1518"
)

func runCrossPing(ctx context.Context, e *experiment) error {
	for _, d := range routers {
		p, err := e.plan([]device.Spec{d}, one(words(onePair)), measure.Method{Name: "one flow pair and two, alternating", Run: func(ctx context.Context, t *measure.Target) error {
			return e.cross(ctx, d, t)
		}})
		if err == nil {
			err = p.Run(ctx, e.session)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func one(p pattern.Pattern) []pattern.Pattern { return []pattern.Pattern{p} }

// turns are trials of two loads by turns on one rig.
type turns struct {
	target  *measure.Target
	traffic [2]pattern.Pattern
	tester  [2]*trial.Engine
}

func (e *experiment) newTurns(t *measure.Target, a, b string) *turns {
	w := &turns{target: t, traffic: [2]pattern.Pattern{words(a), words(b)}}
	for i, p := range w.traffic {
		of := *t
		of.Subject = p.Subject(t.Rig.Name())
		w.tester[i] = e.engine(&of)
	}
	return w
}

// rate returns the forwarding rate of one trial at the greatest load with one of the
// two. No trial is repeated: what disturbs one disturbs its neighbours, too, and a
// repetition would take them apart.
func (w *turns) rate(ctx context.Context, which int, duration time.Duration) (float64, error) {
	if err := w.target.Rig.Load(w.traffic[which]); err != nil {
		return 0, err
	}
	trial.For(w.tester[which], "by turns")
	r, err := w.tester[which].Attempt(ctx, trial.Load{Rate: w.target.MaxLoad, Duration: duration})
	return r.ForwardingRate(), err
}

// cross measures rounds of one pair, two pairs, one pair. What was measured counts
// even when ctx ends the rounds early.
func (e *experiment) cross(ctx context.Context, d device.Spec, t *measure.Target) error {
	t.Rig.Timed(false)
	w := e.newTurns(t, onePair, twoPairs)
	c := result.Comparison{Subject: w.traffic[0].Subject(""), A: of(d, "one flow pair"), B: of(d, "two flow pairs")}
	c.Traffic = "one flow pair and two, bidirectional"
	var alone, crossed, ratios, same []float64
	var failed error
	begun := time.Now()
	for i := 0; i < e.pace.turns && failed == nil; i++ {
		var left time.Duration
		if i > 0 {
			left = time.Since(begun) / time.Duration(i) * time.Duration(e.pace.turns-i)
		}
		e.session.Progress(fmt.Sprintf("round %d of %d", i+1, e.pace.turns), left)
		var rates [3]float64
		for j, which := range []int{0, 1, 0} {
			if rates[j], failed = w.rate(ctx, which, e.pace.turn); failed != nil {
				break
			}
		}
		if failed != nil || rates[0] <= 0 || rates[1] <= 0 || rates[2] <= 0 {
			continue
		}
		before := math.Sqrt(rates[0] * rates[2])
		alone, crossed = append(alone, before), append(crossed, rates[1])
		ratios, same = append(ratios, rates[1]/before), append(same, rates[2]/rates[0])
	}
	if len(ratios) == 0 {
		return failed
	}
	c.RateA, c.RateB, c.Rounds = statistics.Median(alone), statistics.Median(crossed), len(ratios)
	c.Ratio, c.SameSame = statistics.Interval(ratios), statistics.Interval(same)
	c.Verdict = verdict(c)
	e.session.Update(func(r *result.Result) { r.Comparisons = append(r.Comparisons, c) })
	e.found(of(d, pairBits), scaled(alone, megabits(c.MeanSize-fcs)))
	e.found(of(d, crossedBy), lossOf(c.Ratio))
	e.found(of(d, crossNoise), lossOf(c.SameSame))
	return failed
}

// lossOf is a ratio of rates as the percentage that is lost.
func lossOf(ratio result.Interval) result.Interval {
	return result.Interval{Median: 100 * (1 - ratio.Median), Low: 100 * (1 - ratio.High), High: 100 * (1 - ratio.Low)}
}
