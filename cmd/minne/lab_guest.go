// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"minne/internal/lab"
)

// newLabGuestCommand is what a node of a lab that is a machine of its own runs inside. No person calls it.
func newLabGuestCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use:    "guest",
		Short:  "Run inside a machine of a lab",
		Hidden: true,
		Args:   cobra.RangeArgs(1, 9),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			// The kernel adds arguments of its own to its first process's.
			case args[0] == "init" && len(args) > 1:
				return lab.GuestInit(args[1])
			case args[0] == "agent" && len(args) > 1:
				return lab.GuestAgent(args[1])
			case len(args) == 1:
				return lab.GuestConfigure(args[0])
			}
			return usageError{fmt.Errorf("minne lab guest is for machines of a lab")}
		},
	}
}
