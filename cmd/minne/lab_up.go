// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"minne/internal/lab"
	"minne/internal/lab/blueprint"
	"minne/internal/lab/campus"
	"minne/internal/model/config"
)

// campusName is the one topology that is built by code: its routers' configurations come from a routing table.
const campusName = "campus"

// topologyNames are the names that "minne lab up" knows.
func topologyNames() []string {
	names := append(blueprint.Names(), campusName)
	slices.Sort(names)
	return names
}

func newLabUpCommand(a *app) *cobra.Command {
	var prefixes int
	var text bool
	c := &cobra.Command{
		Use:   "up FILE|NAME",
		Short: "Build a network and keep it until Ctrl-C",
		Long: `Build a network of namespaces and keep it until Ctrl-C: a named topology (see minne lab
topologies) or one from a YAML file. Run commands in it with "minne lab exec" from
another terminal. --print prints the YAML of a topology, as a start for your own file.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("expected a YAML file or the name of a topology: %s", strings.Join(topologyNames(), ", "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			isCampus := args[0] == campusName
			switch {
			case c.Flags().Changed("prefixes") && !isCampus:
				return usageError{fmt.Errorf("--prefixes is for the topology %s only", campusName)}
			case text:
				return printTopology(a.out, args[0])
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			if isCampus {
				report := campus.NewReport(a.out)
				table, err := loadTable(report, prefixes)
				if err != nil {
					return err
				}
				return keepCampus(c.Context(), a.out, binary, table, report)
			}
			return keepBlueprint(c.Context(), a.out, binary, args[0])
		},
	}
	c.Flags().IntVar(&prefixes, "prefixes", 10_000, "`number` of random prefixes of the Internet table for the campus; 0 for all")
	c.Flags().BoolVar(&text, "print", false, "print the topology's YAML instead of building it")
	return c
}

func printTopology(out io.Writer, name string) error {
	if name == campusName {
		return errors.New("the campus is built by code, because its routers' configurations follow from a routing table; try --print with router")
	}
	text, found := blueprint.Text(name)
	if !found {
		hint := ""
		if near := config.Nearest(name, topologyNames()); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
		}
		return fmt.Errorf("no topology is called %q%s (topologies: %s)", name, hint, strings.Join(topologyNames(), ", "))
	}
	_, err := out.Write(text)
	return err
}

func keepBlueprint(ctx context.Context, out io.Writer, binary, name string) (err error) {
	b, err := blueprint.Load(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "building %s\n", b.Name())
	net, err := b.Up(ctx, binary)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, net.Close())
		if err == nil {
			fmt.Fprintln(out, "The lab is gone.")
		}
	}()
	fmt.Fprintf(out, "\nThe lab %s is up as %s:\n", b.Name(), net.Run)
	for _, line := range b.Describe() {
		fmt.Fprintln(out, " ", line)
	}
	fmt.Fprintf(out, "\nLook around from another terminal:\n")
	for _, line := range b.Hints() {
		fmt.Fprintf(out, "  minne lab exec %s\n", line)
	}
	fmt.Fprintf(out, "Files and logs of the nodes: %s. Ctrl-C removes it all.\n", net.Dir)
	<-ctx.Done()
	return nil
}

func keepCampus(ctx context.Context, out io.Writer, binary string, table []netip.Prefix, report *campus.Report) (err error) {
	c, err := campus.Build(ctx, campus.Options{Binary: binary, Table: table}, report)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.Apply(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe lab is up. Look around from another terminal:\n  minne lab exec border minne show interfaces\n")
	fmt.Fprintf(out, "  minne lab exec isp-a birdc show protocols\n  minne lab exec desk ping 203.0.113.1\nCtrl-C removes it all.\n")
	<-ctx.Done()
	return nil
}

func newLabTopologiesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "topologies",
		Short: "List the named topologies",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range topologyNames() {
				description := "a campus with two ISPs behind a Minne router, BIRD around it (minne lab campus)"
				if name != campusName {
					b, err := blueprint.Load(name)
					if err != nil {
						return err
					}
					description = b.Description
				}
				fmt.Fprintf(a.out, "%-8s %s\n", name, description)
			}
			return nil
		},
	}
}

func newLabExecCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "exec [LAB/]NODE COMMAND...",
		Short: "Run a command in a node of a running lab",
		Long: `Run a command in a node of a running lab. birdc, vtysh and minne reach the daemons of
that node. When several labs have a node of that name, LAB is the topology's name or the
number that "minne lab up" printed.`,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
				return c.Help()
			}
			if len(args) < 2 {
				return usageError{errors.New("expected a node and a command, as in: minne lab exec router ip route")}
			}
			return lab.Exec(args[0], args[1:])
		},
	}
}

func newLabDownCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the labs of this machine and remove what crashed labs left",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return lab.Down(c.Context())
		},
	}
}
