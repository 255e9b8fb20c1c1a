// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"minne/internal/subsystem/ports"
)

func newLabNICsCommand(a *app) *cobra.Command {
	var f measureFlags
	var g goalFlags
	var look bool
	c := &cobra.Command{
		Use:   "nics --tx PORT --rx PORT",
		Short: "Measure any router through two network cards",
		Long: `Send on one port of this computer, receive on another, and measure any device between
them; it need not run Minne. The report has throughput, the rate at full load, loss and
latency. With --look the command only shows the ports and sends nothing.

A router needs routes to the source and destination networks of the traffic:
198.18.128.0/17 and 2001:2:0:4000::/50 through the tester's address at --tx,
198.19.128.0/17 and 2001:2:0:c000::/50 through its address at --rx. Give these
addresses as --tx-address and --rx-address, and the router's as --tx-gateway and
--rx-gateway. Without gateways the device is a bridge or a cable.`,
		Args: cobra.NoArgs,
	}
	f.register(c)
	g.register(c, "ndr", "pdr")
	c.Flags().BoolVar(&look, "look", false, "show the ports and their features, and send nothing")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.cards.Left == "" || f.cards.Right == "" {
			return usageError{fmt.Errorf("give both --tx and --rx; \"ip -br link\" lists the ports")}
		}
		if look {
			return a.printPorts(f.cards.Force, f.cards.Left, f.cards.Right)
		}
		methods, err := g.suite()
		if err != nil {
			return err
		}
		p, err := f.plan(nil)
		if err != nil {
			return err
		}
		p.Methods = methods
		return f.measure(c.Context(), a, "A device between two network cards", "nics", p)
	}
	return c
}

// printPorts shows the facts of ports, or why they can't be used.
func (a *app) printPorts(force bool, names ...string) error {
	facts, err := ports.Check(force, names...)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "port\tdriver\tbus\tspeed\tlink\tqueues\tXDP\tMAC")
	for _, f := range facts {
		speed, link := "unknown", "down"
		if f.Speed > 0 {
			speed = fmt.Sprintf("%g Gbit/s", float64(f.Speed)/1e9)
		}
		if f.Carrier {
			link = "up"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", f.Name, f.Driver, f.Bus, speed, link, f.Queues.Receive, f.XDP, f.MAC)
	}
	if len(facts) > 0 {
		if e := w.Flush(); e != nil {
			return e
		}
	}
	for _, f := range facts {
		for _, remark := range f.Remarks() {
			fmt.Fprintln(a.out, remark)
		}
	}
	return err
}
