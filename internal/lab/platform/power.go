// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"os"
	"time"

	"minne/internal/lab/energy"
)

// meter tells power while something runs, where the machine has a sensor.
type meter struct{ source energy.Source }

// idleFor is how long the idle machine is measured.
const idleFor = 3 * time.Second

func (p *meter) open(ctx context.Context, out *Power) {
	found := energy.Find(os.DirFS("/"))
	if out.Missing = found.Missing(); out.Missing != "" {
		return
	}
	source, err := found.Choose("")
	if err == nil {
		out.Idle, err = energy.Power(ctx, source, idleFor)
	}
	if err != nil {
		out.Missing = "not measurable here: " + err.Error()
		return
	}
	p.source, out.Source, out.Scope = source, source.Name(), source.Scope()
}

// begin begins to measure; what it returns ends that and returns watts, 0 when they are not known.
func (p *meter) begin(ctx context.Context) func() float64 {
	if p.source == nil {
		return func() float64 { return 0 }
	}
	at := time.Now()
	first, err := p.source.Read(ctx)
	if err != nil {
		return func() float64 { return 0 }
	}
	return func() float64 {
		last, err := p.source.Read(ctx)
		return between(first, last, time.Since(at), err)
	}
}

// between is the mean power between two readings.
func between(first, last energy.Reading, took time.Duration, err error) float64 {
	switch {
	case err != nil || took <= 0:
		return 0
	case first.Cumulative:
		return (last.Joules - first.Joules) / took.Seconds()
	}
	return (first.Watts + last.Watts) / 2
}
