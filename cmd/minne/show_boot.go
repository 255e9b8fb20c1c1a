// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"minne/internal/appliance/boot"
)

func newShowBootCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "boot",
		Short: "Show how the router's image started: slot, steps, time until it forwarded",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r, err := boot.ReadReport()
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(r)
			}
			_, err = fmt.Fprint(a.out, r.Text())
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print as JSON, times in nanoseconds since the kernel's start")
	return c
}
