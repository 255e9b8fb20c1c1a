// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"minne/internal/boot"
)

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
			return boot.Run(c.Context(), a.out, nil)
		},
	}
	c.AddCommand(&cobra.Command{
		Use:   "banner",
		Short: "Say what this machine is, above a console's login",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.out, boot.Banner(version()))
			return err
		},
	})
	return c
}
