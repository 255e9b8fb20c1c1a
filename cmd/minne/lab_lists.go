// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
)

func newLabDevicesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "devices",
		Short: "List the devices that can be measured",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.out, device.Grammar)
			return err
		},
	}
}

func newLabPatternsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "patterns",
		Short: "List the words of traffic patterns",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(a.out, pattern.Grammar)
			return err
		},
	}
}
