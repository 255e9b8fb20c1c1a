// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"

	"minne/internal/base/diagnosis"
	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
)

func newDoctorCommand(a *app) *cobra.Command {
	var asJSON, check bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong, step by step",
		Long: router.Doctor.Long + `

The first line is the summary. A line that begins with "->" is what to do next: a command,
or what to write into the configuration.

With --check the exit code is for a monitoring program: 0 when no check failed; 6 when one
failed, or no daemon runs.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			v, err := router.Doctor.Ask(c.Context(), client, router.Nothing{})
			if errors.Is(err, api.ErrNoDaemon) {
				v, err = withoutDaemon(err), nil
			}
			if err == nil {
				err = a.printView(router.Doctor, &router.Nothing{}, v, asJSON)
			}
			if err == nil && check && v.Failed > 0 {
				return errDegraded
			}
			return err
		},
	}
	c.Flags().BoolVar(&check, "check", false, "end with exit code 6 when a check failed")
	c.Flags().BoolVar(&asJSON, "json", false, "print the checks as JSON")
	return c
}

// withoutDaemon is what can be said when none runs: all that it would have checked is skipped.
func withoutDaemon(why error) show.DoctorView {
	v := show.DoctorView{Checks: []diagnosis.Outcome{{Name: "daemon", Result: diagnosis.Failed, Text: why.Error(), Fix: "systemctl start minne",
		Then: []diagnosis.Outcome{{Name: "router", Result: diagnosis.Skipped, Text: "not checked: daemon failed"}}}}}
	v.Counts = diagnosis.Count(v.Checks)
	return v
}
