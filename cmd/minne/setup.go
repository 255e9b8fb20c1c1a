// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"minne/internal/appliance/setup"
)

func newSetupCommand(a *app) *cobra.Command {
	o := setup.Options{}
	var ifNeeded, noProbe bool
	var netns string
	c := &cobra.Command{
		Use:   "setup",
		Short: "Create the first configuration: a few questions, or a file of answers",
		Long: `Create the first configuration of a new router: find its ports, ask a few questions on
the console (or read the answers from a file), and commit the result. The WAN uses DHCP,
PPPoE or a fixed address. The other ports are a LAN, as those of a switch, or a LAN each,
with DHCP, DNS, NTP and NAT. The firewall permits connections from the LAN and none from outside. The user admin gets a random
password, which is shown only once.

Nothing changes before the last answer; Ctrl-C leaves everything as it is. On a router
that has a configuration, nothing happens without --force.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if netns != "" {
				if err := enterNetns(netns); err != nil {
					return err
				}
			}
			if os.Geteuid() != 0 {
				return errors.New("setup must be run as root")
			}
			var err error
			if o.Instance, err = a.inst(); err != nil {
				return err
			}
			o.In, o.Out, o.Probe = console(), a.out, !noProbe
			if err = setup.Run(c.Context(), o); ifNeeded && errors.Is(err, setup.ErrConfigured) {
				return nil
			}
			return err
		},
	}
	c.Flags().StringVar(&o.Answers, "answers", "", "`file` with the answers, in YAML")
	c.Flags().StringVar(&o.Files, "files", "", "`directory` that may hold minne.yaml (a whole configuration) or answers.yaml")
	c.Flags().BoolVar(&o.Force, "force", false, "replace an existing configuration")
	c.Flags().BoolVar(&ifNeeded, "if-needed", false, "do nothing when the router has a configuration")
	c.Flags().BoolVar(&noProbe, "no-probe", false, "do not search for DHCP servers and PPPoE on the ports")
	c.Flags().StringVar(&netns, "netns", "", "network namespace of the router: `name` (of ip netns) or path")
	c.MarkFlagsMutuallyExclusive("force", "if-needed")
	return c
}

// console is where people answer: a terminal, or what is piped in; nil when there is neither.
func console() io.Reader {
	if _, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS); err == nil {
		return os.Stdin
	}
	if st, err := os.Stdin.Stat(); err == nil && st.Mode()&os.ModeNamedPipe != 0 {
		return os.Stdin
	}
	return nil
}
