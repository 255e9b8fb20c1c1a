// SPDX-License-Identifier: Apache-2.0

package energy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/result"
)

// Step is one load. Run keeps it up for a while and returns what the device
// forwarded: frames per second and bits per second, frames with FCS; 0 and 0 when
// idle. The whole time of Run is measured: warm-ups belong before it.
type Step struct {
	Share float64 // of the greatest load; 0 is idle
	Run   func(ctx context.Context) (rate, bitRate float64, err error)
}

// every is how often sources are read meanwhile: power sensors have no memory.
const every = time.Second

// Measure runs the steps one after another and returns each with its power and
// CPU time. The caller fills in what the figures are about. Without a source
// (Found.Choose returns one that knows why) the CPU time is still measured.
func Measure(ctx context.Context, source Source, steps []Step) (result.Energy, error) {
	return measure(ctx, os.DirFS("/"), source, steps, every)
}

func measure(ctx context.Context, root fs.FS, source Source, steps []Step, every time.Duration) (result.Energy, error) {
	out := result.Energy{Source: source.Name()}
	if n, ok := source.(none); ok {
		out.Source, out.Missing = "", n.Missing()
	}
	for _, s := range steps {
		step, err := measureStep(ctx, root, source, s, every)
		if err != nil {
			return out, fmt.Errorf("energy at %.0f %% load: %w", s.Share*100, err)
		}
		out.Steps = append(out.Steps, step)
	}
	derive(&out, steps)
	return out, nil
}

func measureStep(ctx context.Context, root fs.FS, source Source, s Step, every time.Duration) (result.EnergyStep, error) {
	step := result.EnergyStep{Share: s.Share}
	before, err := machine.CPUTimes(root)
	if err != nil {
		return step, err
	}
	run := func(ctx context.Context) (err error) {
		step.Rate, step.BitRate, err = s.Run(ctx)
		return err
	}
	switch source := source.(type) {
	case none:
		err = run(ctx)
	case typed:
		step.Watts, _ = source.at(s.Share)
		err = run(ctx)
	default:
		step.Watts, err = powerDuring(ctx, source, run, every)
	}
	if err != nil {
		return step, err
	}
	after, err := machine.CPUTimes(root)
	if err != nil {
		return step, err
	}
	step.CPUShare, _ = after.Since(before)
	if step.Rate > 0 {
		step.CPUPacket = step.CPUShare * float64(after.CPUs) / step.Rate * 1e9
	}
	return step, nil
}

// Power measures the mean power over a time.
func Power(ctx context.Context, source Source, over time.Duration) (watts float64, err error) {
	return powerDuring(ctx, source, Rest(over), every)
}

// Rest returns a function that does nothing for a time: an idle load.
func Rest(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

// powerDuring returns the mean power while run runs.
func powerDuring(ctx context.Context, source Source, run func(context.Context) error, every time.Duration) (float64, error) {
	first, err := source.Read(ctx)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()

	mean := mean{last: begin, reading: first, first: first}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-tick.C:
		case err := <-ended:
			if err != nil {
				return 0, err
			}
			done = true
		}
		if err := mean.take(ctx, source, done); err != nil {
			if cancel(); !done {
				<-ended
			}
			return 0, err
		}
	}
	return mean.watts(begin)
}

// mean gathers readings: of power their mean over time, of energy the first and the last.
type mean struct {
	last           time.Time
	first, reading Reading
	joules         float64 // of power readings
}

func (m *mean) take(ctx context.Context, source Source, last bool) error {
	now, err := source.Read(ctx)
	if err != nil {
		return err
	}
	// A living counter moves many times a second. The last reading may follow the one before at once.
	if now.Cumulative && now.Joules <= m.reading.Joules && (!last || m.reading == m.first) {
		return fmt.Errorf("%s does not advance", source.Name())
	}
	at := time.Now()
	m.joules += (m.reading.Watts + now.Watts) / 2 * at.Sub(m.last).Seconds()
	m.reading, m.last = now, at
	return nil
}

func (m *mean) watts(begin time.Time) (float64, error) {
	took := m.last.Sub(begin).Seconds()
	switch {
	case took <= 0:
		return 0, errors.New("the load ended at once: no time to measure its power")
	case m.first.Cumulative:
		return (m.reading.Joules - m.first.Joules) / took, nil
	}
	return m.joules / took, nil
}

// derive computes what a packet and a Gbit cost: what the greatest load takes more
// than the idle machine, by its rate. It needs both.
func derive(e *result.Energy, steps []Step) {
	var idle, greatest *result.EnergyStep
	for i := range steps {
		s := &e.Steps[i]
		if s.Share == 0 {
			idle = s
		} else if greatest == nil || s.Share > greatest.Share {
			greatest = s
		}
	}
	if e.Missing != "" || idle == nil || greatest == nil || idle.Watts == 0 || greatest.Watts == 0 {
		return
	}
	more := greatest.Watts - idle.Watts
	if greatest.Rate > 0 {
		e.JoulePerPacket = more / greatest.Rate
	}
	if greatest.BitRate > 0 {
		e.JoulePerGbit = more / (greatest.BitRate / 1e9)
	}
}
