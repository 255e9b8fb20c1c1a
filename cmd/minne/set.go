// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/firewall"
)

func newSetCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "set",
		Short: "Change the firewall's sets without a commit",
		Long: `Add addresses to the firewall's sets and delete them, at once and without a commit: a
host that floods, a guest that has paid. Added elements survive commits and reboots,
until their timeout or until they are deleted. Elements in the configuration and its
files do not change.`,
	}
	c.AddCommand(newSetAddCommand(a), newSetDelCommand(a), newSetListCommand(a))
	return c
}

func newSetAddCommand(a *app) *cobra.Command {
	var timeout time.Duration
	var file string
	c := &cobra.Command{
		Use:   "add NAME [ELEMENT…]",
		Short: "Add addresses or prefixes to a set",
		Long: "Add addresses or prefixes to a set: those of the command line and, with -f, those of a file. All are added " +
			"at the same moment. If one is invalid, the error names its line and nothing is changed.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("timeout") && timeout <= 0 {
				return usageError{fmt.Errorf("--timeout %s: expected a time such as 1h", timeout)}
			}
			elements, err := setElements(c, args[1:], file)
			if err != nil {
				return err
			}
			done, err := a.changeSet(c, firewall.SetChange{Set: args[0], Add: elements, Timeout: timeout})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%d added to %s\n", done.Added, args[0])
			return err
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", 0, "`time` until they are deleted, such as 1h (default: the set's timeout)")
	addFileFlag(c, &file)
	return c
}

func newSetDelCommand(a *app) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "del NAME [ELEMENT…]",
		Short: "Delete addresses or prefixes from a set",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			elements, err := setElements(c, args[1:], file)
			if err != nil {
				return err
			}
			done, err := a.changeSet(c, firewall.SetChange{Set: args[0], Delete: elements})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.out, "%d deleted from %s\n", done.Deleted, args[0])
			return err
		},
	}
	addFileFlag(c, &file)
	return c
}

func addFileFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "file", "f", "", "`path` of a file with one address or prefix on each line, # begins a comment; - for standard input")
}

// setElements are those of the command line and of a file, if one is named.
func setElements(c *cobra.Command, elements []string, file string) ([]string, error) {
	if !c.Flags().Changed("file") {
		if len(elements) == 0 {
			return nil, usageError{errors.New("which elements? Name them, or a file with -f")}
		}
		return elements, nil
	}
	var text []byte
	var err error
	if file == "-" {
		file = "standard input"
		text, err = io.ReadAll(c.InOrStdin())
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	report := config.NewReport(&config.Config{})
	for _, p := range policy.ReadList(report, file, string(text)) {
		elements = append(elements, policy.ElementText(p))
	}
	return elements, report.Err()
}

func (a *app) changeSet(c *cobra.Command, q firewall.SetChange) (firewall.SetChanged, error) {
	client, err := a.client()
	if err != nil {
		return firewall.SetChanged{}, err
	}
	return router.ChangeSet.Ask(c.Context(), client, q)
}

func newSetListCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list NAME",
		Short: "Show what is in a set",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			v, err := router.ListSet.Ask(c.Context(), client, router.SetQuestion{Name: args[0]})
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(v)
			}
			screen := a.screen()
			return errors.Join(show.SetElements(screen, v, time.Now()), screen.Flush())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the elements as JSON")
	return c
}
