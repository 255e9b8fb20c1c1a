// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"minne/internal/appliance/boot"
	"minne/internal/appliance/setup"
)

// setupAtBoot makes the first configuration from files that somebody put on the FAT
// partition. Without such files the console asks, once the daemon runs.
func (a *app) setupAtBoot(ctx context.Context, out io.Writer) error {
	inst, err := a.inst()
	if err != nil {
		return err
	}
	return boot.Exchange(func(files string) error { return setup.AtBoot(ctx, inst, out, files) })
}

func newBootCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "boot",
		Short: "Start the router's image (init runs this)",
		Long: `Do what the router's image does between its kernel and the daemon: file systems in
memory, the partition of the configuration, sensors, the clock, a filter that lets
nothing in, drivers. Init runs it once at boot; it is of no use anywhere else.`,
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if os.Getppid() != 1 {
				return errors.New("only init runs this, once at boot")
			}
			endWatch := watchForHands(os.Stdout) // a file: the one who writes the archive outlives this process
			defer endWatch()
			return boot.Run(c.Context(), boot.Consoles{}, func(ctx context.Context, console io.Writer) error {
				endWatch() // before questions are asked there
				return a.setupAtBoot(ctx, console)
			})
		},
	}
	c.AddCommand(&cobra.Command{
		Use:   "medium",
		Short: "Handle removal or insertion of the boot medium (mdev runs this)",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return boot.MediumChanged() },
	}, &cobra.Command{
		Use:   "help-login",
		Short: "Open a login on a router none of whose systems gets well (init runs this in the daemon's place)",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return boot.Help(c.Context()) },
	}, &cobra.Command{
		Use:   "banner",
		Short: "Print the console's login banner",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.out, boot.Banner(version()))
			return err
		},
	})
	return c
}
