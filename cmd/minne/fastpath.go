// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/subsystem/fastpath"
)

func newFastPathCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "fast-path",
		Short: "Control the fast path without the daemon",
		Long: `The fast path keeps forwarding when the daemon stops. These commands work on the programs in the
kernel and need no daemon. While the daemon runs, minne show fast-path shows more.`,
	}
	c.AddCommand(newFastPathOffCommand(a), newFastPathStatusCommand(a))
	return c
}

func newFastPathOffCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "off",
		Short: "Detach the fast path from all ports: the kernel forwards everything",
		Long: `Detach the XDP programs from all ports of the instance and remove pinned objects. The kernel
forwards instead. A running daemon attaches them again at its next apply; to keep the fast path
off, set "fast-path: {mode: off}" in the configuration.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			inst, err := a.inst()
			if err != nil {
				return err
			}
			return fastpath.Off(inst)
		},
	}
}

func newFastPathStatusCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the ports that run the fast path, and its counters",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			inst, err := a.inst()
			if err != nil {
				return err
			}
			netns, here := router.Netns(inst)
			if !here && netns != "" {
				if err := enterNetns(netns); err != nil {
					return err
				}
				here = true
			}
			left, err := fastpath.Left(inst, here)
			if err != nil {
				return err
			}
			return a.print(asJSON, left, func(io.Writer) error { return a.printFastPathStatus(left) })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the status as JSON")
	return c
}

func (a *app) printFastPathStatus(o fastpath.Observed) error {
	if len(o.Ports) == 0 {
		fmt.Fprintln(a.out, "no port runs the fast path")
	}
	screen := a.screen()
	ports := show.NewTable("Port", "!Mode", ">Program", ">Packets in", ">Packets out")
	for i, p := range o.Ports {
		var t fastpath.ObservedTraffic
		if i < len(o.Traffic) {
			t = o.Traffic[i]
		}
		ports.Row(p.Name, p.Mode, fmt.Sprint(p.Program), fmt.Sprint(t.RxPackets), fmt.Sprint(t.TxPackets))
	}
	if len(o.Ports) > 0 {
		if err := ports.Write(screen); err != nil {
			return err
		}
	}
	reasons := show.NewTable(">Packets", "", "Reason", "~Meaning")
	counted := false
	for _, r := range o.Reasons {
		if r.Count == 0 {
			continue
		}
		verb := "punted to the kernel"
		if r.Drop {
			verb = "dropped"
		}
		counted = true
		reasons.Row(fmt.Sprint(r.Count), verb, r.Reason, r.Text)
	}
	if !counted {
		return nil
	}
	fmt.Fprintln(a.out)
	return reasons.Write(screen)
}
