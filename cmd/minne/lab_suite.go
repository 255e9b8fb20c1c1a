// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/closedloop"
	"minne/internal/lab/measure"
	"minne/internal/lab/method"
	"minne/internal/lab/session"
)

// suite is what most readers of a report ask for first: throughput, the rate at full load, loss and latency.
func (g *goalFlags) suite() ([]measure.Method, error) {
	methods, err := g.search()
	loss, latency, mrr := method.LossCurveOptions{Duration: 10 * time.Second}, method.LatencyOptions{}, method.MRROptions{}
	if g.quick {
		loss.Duration, latency.Duration, latency.Repeat = time.Second, time.Second, 3
		mrr.Duration, mrr.Repeat = 500*time.Millisecond, 5
	}
	return append(methods, measure.MRR(mrr), measure.Loss(loss), measure.Optional(measure.Latency(latency))), err
}

// suiteRounds are the rounds of the cost in a suite.
const suiteRounds = 15

func newLabSuiteCommand(a *app) *cobra.Command {
	var f measureFlags
	var g goalFlags
	c := &cobra.Command{
		Use:   "suite [DEVICE...]",
		Short: "Measure cost, throughput, rate at full load, loss and latency into one report",
		Long: `Measure the most important figures of one or several devices and frame sizes: CPU time
per packet, throughput, the rate at full load, loss against load, and latency. Takes some
minutes per device and size, with --quick about one.

` + devicesHelp,
	}
	f.register(c)
	g.register(c, "ndr", "pdr")
	c.RunE = func(c *cobra.Command, args []string) error {
		methods, err := g.suite()
		if err != nil {
			return err
		}
		p, err := f.plan(args)
		if err != nil {
			return err
		}
		p.Methods = methods
		return f.session(c.Context(), a, "A router's figures", "suite", func(ctx context.Context, s *session.Session) error {
			if err := suiteCost(ctx, s, p); err != nil {
				return err
			}
			return p.Run(ctx, s)
		})
	}
	return c
}

// suiteCost measures the cost of those traffics that a closed loop can have, where the devices are namespaces.
func suiteCost(ctx context.Context, s *session.Session, p measure.Plan) error {
	closed := closedloop.Plan{Means: p.Means, Table: p.Table, Rounds: suiteRounds}
	for _, t := range p.Traffic {
		if closedloop.Supports(t) == nil {
			closed.Traffic = append(closed.Traffic, t)
		}
	}
	if p.Cards != nil || len(closed.Traffic) == 0 {
		return nil
	}
	return closed.Cost(ctx, s, p.Devices)
}
