// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/lab/measure"
	"minne/internal/lab/result"
	"minne/internal/lab/search"
)

// measurement is a command that measures devices with an open loop.
type measurement struct {
	name, short, long string
	title             string // of the report
	// flags adds the command's own flags; what it returns reads them.
	flags func(c *cobra.Command) func() ([]measure.Method, error)
}

func (m measurement) command(a *app) *cobra.Command {
	var f measureFlags
	c := &cobra.Command{Use: m.name + " [DEVICE...]", Short: m.short, Long: m.long + "\n\n" + devicesHelp}
	methods := m.flags(c)
	f.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		chosen, err := methods()
		if err != nil {
			return err
		}
		p, err := f.plan(args)
		if err != nil {
			return err
		}
		p.Methods = chosen
		return f.measure(c.Context(), a, m.title, m.name, p)
	}
	return c
}

// devicesHelp ends the help of all measurements.
const devicesHelp = `Without arguments the kernel and Minne are measured, one after the other, between two
ports of a tester, in namespaces of this machine. --tx and --rx measure the device
between two network cards. Needs root and two CPUs. "minne lab devices" lists the
devices, "minne lab patterns" the traffic patterns.`

func newLabThroughputCommand(a *app) *cobra.Command {
	return measurement{
		name: "throughput", title: "Throughput",
		short: "Search for the load that a device forwards (MLRsearch, RFC 9971)",
		long: `Search for the greatest load that devices forward with no loss (NDR), with half a
percent (PDR), or with none in one long trial (RFC 2544), for each frame size.`,
		flags: func(c *cobra.Command) func() ([]measure.Method, error) {
			var g goalFlags
			g.register(c, "ndr", "pdr")
			return func() ([]measure.Method, error) { return g.search() }
		},
	}.command(a)
}

// goalFlags choose what to search for.
type goalFlags struct {
	names   []string
	trial   time.Duration
	timeout time.Duration
	quick   bool
}

func (g *goalFlags) register(c *cobra.Command, standard ...string) {
	flags := c.Flags()
	flags.StringSliceVar(&g.names, "goal", standard, "search `goals`: ndr, pdr (FD.io CSIT's parameters), rfc2544")
	flags.DurationVar(&g.trial, "trial", time.Minute, "`time` of a final trial of the goal rfc2544; the standard requires 60 s")
	flags.DurationVar(&g.timeout, "timeout", 0, "end each search after this `time` with the bounds found so far; 0 for never")
	flags.BoolVar(&g.quick, "quick", false, "coarser goals, shorter trials and fewer repetitions")
}

// quickly tells whether --quick decides what a flag is: an explicit one goes first.
func (g *goalFlags) quickly(c *cobra.Command, flag string) bool {
	return g.quick && !c.Flags().Changed(flag)
}

// search is the method that the flags describe.
func (g *goalFlags) search() ([]measure.Method, error) {
	var goals []result.Goal
	for _, name := range g.names {
		var goal result.Goal
		switch strings.ToLower(name) {
		case "ndr":
			goal = search.NDR()
		case "pdr":
			goal = search.PDR()
		case "rfc2544":
			goal = search.RFC2544(g.trial)
		default:
			return nil, usageError{fmt.Errorf("goal %q: expected ndr, pdr or rfc2544", name)}
		}
		if g.quick {
			goal = search.Quick(goal)
		}
		goals = append(goals, goal)
	}
	return []measure.Method{measure.Throughput(goals, g.timeout)}, nil
}
