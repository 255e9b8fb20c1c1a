// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"minne/internal/lab/bom"
)

func newBOMCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "bom FILE",
		Short: "Calculate watts, price, battery, solar panel and cables from a parts list",
		Long: `Read a router's parts list and calculate: watts idle and at load, watt-hours a day,
price, price per port, and, where the packet rate was measured, energy per packet. For a
router without mains power also the size of battery, solar panel and cables. Every
figure is printed with its formula and numbers. Missing values are listed as unknown or
as assumptions.

To measure the watts of a machine: minne lab energy, and under traffic minne lab power.
File format: docs/guides/choose-hardware.md; examples: docs/examples/bom.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			sheet, err := bom.Load(args[0])
			if err != nil {
				return err
			}
			result := bom.Compute(sheet)
			return a.print(asJSON, result, result.Print)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}
