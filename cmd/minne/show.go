// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"minne/internal/model/config"
)

// shows are the commands below "minne show".
var shows = []func(*app) *cobra.Command{
	newShowInterfacesCommand,
	newShowIPCommand,
	newShowIPv6Command,
	newShowNeighborsCommand,
	newShowARPCommand,
	newShowBGPCommand,
	newShowOSPFCommand,
	newShowOSPF6Command,
	newShowFastPathCommand,
	newShowFirewallCommand,
	newShowFlowsCommand,
	newShowNATCommand,
	newShowLabelsCommand,
	newShowServicesCommand,
	newShowDHCPCommand,
	newShowNTPCommand,
	newShowDropsCommand,
	newShowRatesCommand,
	newShowConfigCommand,
	newShowLogCommand,
	newShowBootCommand,
	newShowVersionCommand,
}

func newShowCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "show", Short: "Look at the router"}
	for _, show := range shows {
		c.AddCommand(show(a))
	}
	addServiceViews(a, c)
	return c
}

func newShowConfigCommand(a *app) *cobra.Command {
	var number int
	var asJSON, effective bool
	c := &cobra.Command{
		Use:   "config",
		Short: "Show the running configuration, or an earlier one",
		Long: `Show the running configuration as its operator wrote it, or an earlier one.

With --effective, show the complete configuration: a key that is absent in the file stands
there with its default and the comment "# default". Sections that are absent stay absent:
what they configure is off. So do keys whose default depends on others or on the machine; the
reference says "Absent:" about those. The file's own comments are not shown. The output is a
valid configuration for the same router.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q: expected minne show config --revision %s", args[0], args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("revision") && number < 1 {
				return usageError{fmt.Errorf("revision %d: expected a number from 1", number)}
			}
			rev, err := a.stored(c.Context(), number)
			if err != nil {
				return err
			}
			if effective {
				cfg, err := config.Parse(fmt.Sprintf("revision %d", rev.Number), []byte(rev.Text))
				if err != nil {
					return err
				}
				rev.Text = string(config.Effective(cfg))
			}
			if asJSON {
				return a.printJSON(rev)
			}
			_, err = fmt.Fprint(a.out, rev.Text)
			return err
		},
	}
	c.Flags().IntVar(&number, "revision", 0, "`number` of the revision to show instead (see minne revisions)")
	c.Flags().BoolVar(&asJSON, "json", false, "print the revision with its history as JSON")
	c.Flags().BoolVar(&effective, "effective", false, "show the complete configuration, defaults marked")
	return c
}
