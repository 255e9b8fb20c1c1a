// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"minne/internal/daemon/router"
)

func newAlarmCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "alarm", Short: "Acknowledge alarms"}
	c.AddCommand(&cobra.Command{
		Use:   "ack ID|all",
		Short: "Acknowledge an alarm: say that you know of it",
		Long: `Acknowledge an alarm by its id in "minne show alarms", or all of them: others see who knows
of it, and programs that receive alarms are told. The alarm stays until what is wrong is
right again. A restart of the daemon forgets the acknowledgement.`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
			if client, err := a.client(); err == nil && len(args) == 0 {
				v, _ := router.Alarms.Ask(c.Context(), client, router.Nothing{}) // without an answer there is nothing to offer
				for _, alarm := range v.Alarms {
					ids = append(ids, alarm.ID)
				}
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error { return a.acknowledge(c.Context(), args[0]) },
	})
	return c
}

func (a *app) acknowledge(ctx context.Context, id string) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	done, err := router.AckAlarm.Ask(ctx, client, router.AckQuestion{ID: id})
	if err != nil {
		return err
	}
	if len(done.Alarms) == 0 {
		_, err = fmt.Fprintln(a.out, "nothing to acknowledge")
	}
	for _, f := range done.Alarms {
		_, err = fmt.Fprintf(a.out, "acknowledged: %s %s: %s\n", f.ID, f.Key, f.Text)
	}
	return err
}
