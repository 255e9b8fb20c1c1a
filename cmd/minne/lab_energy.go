// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/energy"
	"minne/internal/lab/result"
)

// energyFlags choose the source of power figures.
type energyFlags struct{ source, meter, watts string }

func (f *energyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.source, "source", "", "`name` of the power source, or a part of it (default the first of \"minne lab energy\")")
	c.Flags().StringVar(&f.meter, "meter", "", "shell `command` that reads an external meter, run once a second; the last number it prints is watts")
	c.Flags().StringVar(&f.watts, "watts", "", "`figures` that you read from a meter, such as idle=18.75,load=21.65")
}

// choose returns the source that the flags name.
func (f *energyFlags) choose(found energy.Found) (energy.Source, error) {
	given := 0
	for _, text := range []string{f.source, f.meter, f.watts} {
		if text != "" {
			given++
		}
	}
	source, err := energy.Source(nil), error(nil)
	switch {
	case given > 1:
		err = errors.New("--source, --meter and --watts exclude each other")
	case f.meter != "":
		source, err = energy.Meter(f.meter)
	case f.watts != "":
		source, err = energy.Typed(f.watts)
	default:
		return found.Choose(f.source)
	}
	if err != nil {
		err = usageError{err}
	}
	return source, err
}

// powerSource is a row of "minne lab energy".
type powerSource struct {
	Name  string  `json:"name"`
	Watts float64 `json:"watts,omitempty"`
	Scope string  `json:"scope"`
	Error string  `json:"error,omitempty"`
}

// powerReport is what "minne lab energy" prints.
type powerReport struct {
	Sources []powerSource  `json:"sources"`
	Refused []string       `json:"refused,omitempty"`
	Missing string         `json:"missing,omitempty"`
	Idle    *result.Energy `json:"idle,omitempty"`
}

func newLabEnergyCommand(a *app) *cobra.Command {
	var flags energyFlags
	var idle time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "energy",
		Short: "Show the power consumption of this machine and its sources",
		Long: `Show the power sources that this machine can read, with the current watts: a battery
that discharges, the CPU's counters (RAPL), power sensors (hwmon, INA). With --meter a
command reads an external meter. Each figure names what it includes. With --idle the idle
machine is measured for that time, with its CPU time, to compare with the same under
load. Without a power source there is no figure: nothing is estimated.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if idle < 0 {
				return usageError{fmt.Errorf("--idle %s: expected a positive time", idle)}
			}
			report, err := readPower(c.Context(), &flags, idle)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(report)
			}
			return a.printPower(report)
		},
	}
	flags.add(c)
	c.Flags().DurationVar(&idle, "idle", 0, "measure for this `time`, such as 10s")
	c.Flags().BoolVar(&asJSON, "json", false, "print the figures as JSON")
	return c
}

func readPower(ctx context.Context, flags *energyFlags, idle time.Duration) (*powerReport, error) {
	found := energy.Find(os.DirFS("/"))
	chosen, err := flags.choose(found)
	if err != nil {
		return nil, err
	}
	list := found.Sources
	r := &powerReport{Sources: []powerSource{}, Refused: found.Refused}
	switch {
	case flags.watts != "":
		list = nil
	case flags.meter != "":
		list = append([]energy.Source{chosen}, list...)
	default:
		r.Missing = found.Missing()
	}
	for _, s := range list {
		row := powerSource{Name: s.Name(), Scope: s.Scope()}
		if row.Watts, err = energy.Power(ctx, s, time.Second); err != nil {
			row.Error = err.Error()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Sources = append(r.Sources, row)
	}
	if idle > 0 {
		rest := energy.Rest(idle)
		e, err := energy.Measure(ctx, chosen, []energy.Step{{Run: func(ctx context.Context) (float64, float64, error) { return 0, 0, rest(ctx) }}})
		if err != nil {
			return nil, err
		}
		r.Idle = &e
	}
	return r, nil
}

func (a *app) printPower(r *powerReport) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, s := range r.Sources {
		if s.Error != "" {
			fmt.Fprintf(w, "%s\t?\t%s\n", s.Name, s.Error)
		} else {
			fmt.Fprintf(w, "%s\t%.2f W\t%s\n", s.Name, s.Watts, s.Scope)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, text := range r.Refused {
		fmt.Fprintf(a.out, "not usable: %s\n", text)
	}
	if r.Missing != "" {
		fmt.Fprintf(a.out, "Power is %s.\n", r.Missing)
		fmt.Fprintln(a.out, `Give an external meter with --meter "COMMAND", or its figures with --watts idle=…,load=….`)
	}
	if r.Idle != nil {
		step := r.Idle.Steps[0]
		if r.Idle.Missing == "" {
			fmt.Fprintf(a.out, "idle: %.2f W (%s)\n", step.Watts, r.Idle.Source)
		}
		fmt.Fprintf(a.out, "idle: CPUs %.1f %% busy (time, not energy)\n", step.CPUShare*100)
	}
	return nil
}
