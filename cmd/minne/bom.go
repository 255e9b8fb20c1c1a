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
		Short: "Sum a sheet of parts: watts, price, battery, solar panel, cables",
		Long: `Read a list of a router's parts and tell what it takes and costs: watts idle and
at load, watt-hours a day, price, price of a port, and, where the packet rate was
measured, the energy of a packet. For a router away from the grid it sizes the
battery, the solar panel and the cables. Every figure comes with its formula and
the numbers put in. What the sheet does not say is listed: as unknown, or as an
assumption.

The watts of a machine: minne lab energy, and under traffic minne lab power.
The form of the file: docs/guides/choose-hardware.md; examples: docs/examples/bom.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			sheet, err := bom.Load(args[0])
			if err != nil {
				return err
			}
			result := bom.Compute(sheet)
			if asJSON {
				return a.printJSON(result)
			}
			return result.Print(a.out)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return c
}
