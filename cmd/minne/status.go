// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/model/api"
)

func newStatusCommand(a *app) *cobra.Command {
	var asJSON, check bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the router's status",
		Long: `Show the router's status. The first line is the summary: healthy; degraded, with the
number of faults; starting, until the configuration is applied after a start of the
daemon; or no configuration. "not in place" lists parts of the running revision that
could not be applied, "degraded" other faults, "repaired" what another program or person
had changed and the router restored.

With --check the exit code is for a monitoring program: 0 healthy; 6 degraded, starting
or without configuration; 1 no daemon answers.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			status, err := api.GetStatus.Ask(c.Context(), client, api.Empty{})
			if err != nil {
				return err
			}
			if asJSON {
				err = a.printJSON(status)
			} else {
				err = a.printStatus(status)
			}
			if err == nil && check && status.State != api.Healthy {
				return errDegraded
			}
			return err
		},
	}
	c.Flags().BoolVar(&check, "check", false, "end with exit code 6 unless the router is healthy")
	c.Flags().BoolVar(&asJSON, "json", false, "print the status as JSON")
	return c
}

func (a *app) printStatus(s api.Status) error {
	screen := a.screen()
	switch s.State {
	case api.Degraded:
		fmt.Fprintf(screen, "degraded (%d)\n", s.Troubles())
	case api.Unconfigured:
		fmt.Fprintln(screen, "without configuration: nothing is forwarded")
	case api.Starting:
		fmt.Fprintln(screen, "starting: not all is in place yet")
	default:
		fmt.Fprintln(screen, s.State)
	}
	fmt.Fprintf(screen, "instance %s, version %s, pid %d, since %s\n", s.Instance, s.Version, s.PID, s.Started.Format(time.DateTime))
	switch {
	case s.Running == 0:
		fmt.Fprintln(screen, "no configuration is in force yet")
	case s.Awaiting != nil:
		fmt.Fprintf(screen, "revision %d by %s awaits its confirmation until %s\n", s.Running, s.Awaiting.User, s.Awaiting.Deadline.Format(time.DateTime))
	default:
		fmt.Fprintf(screen, "revision %d is in force\n", s.Running)
	}
	for _, d := range s.Degraded {
		fmt.Fprintln(screen, "not in place:", d)
	}
	for _, f := range s.Faults {
		fmt.Fprintf(screen, "degraded: %s: %s\n", f.Key, f.Text)
	}
	if len(s.Repairs) > 0 {
		last := s.Repairs[len(s.Repairs)-1]
		fmt.Fprintf(screen, "repaired: %d times; last at %s: %s: %s\n", s.Repaired, last.Time.Format(time.DateTime), last.Key, last.Text)
	}
	for _, t := range s.Tasks {
		state := "starting"
		switch {
		case t.Error != "":
			state = "ended: " + t.Error
		case t.Ready:
			state = "ready"
		}
		if _, err := fmt.Fprintf(screen, "%s: %s\n", t.Name, state); err != nil {
			return err
		}
	}
	return screen.Flush()
}
