// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"minne/internal/appliance/boot"
	"minne/internal/daemon/router"
	"minne/internal/model/api"
)

// showMore is what some commands below "minne show" do besides asking the daemon once.
var showMore = map[string]func(*app, *cobra.Command){
	"boot":              bootWithoutDaemon,
	"config":            configWithoutDaemon,
	"fast-path drivers": driversWithoutDaemon,
	"log":               withFollow,
	"rates":             withWatch,
	"version":           versionWithoutDaemon,
}

func wantsJSON(c *cobra.Command) bool { return c.Flags().Lookup("json").Value.String() == "true" }

// bootWithoutDaemon shows the boot also when no daemon runs, which is when people ask.
func bootWithoutDaemon(a *app, c *cobra.Command) {
	c.Flags().Lookup("json").Usage = "print as JSON, times in nanoseconds since the kernel's start"
	c.RunE = func(c *cobra.Command, _ []string) error {
		r, err := boot.ReadReport()
		if err != nil {
			return err
		}
		return a.printView(router.Boot, &router.Nothing{}, r, wantsJSON(c))
	}
}

// configWithoutDaemon shows what is stored also when no daemon runs.
func configWithoutDaemon(a *app, c *cobra.Command) {
	c.Flags().Lookup("json").Usage = "print the revision with its history as JSON"
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%q: expected minne show config --revision %s", args[0], args[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		number, err := c.Flags().GetInt("revision")
		if err != nil {
			return err
		}
		if c.Flags().Changed("revision") && number < 1 {
			return usageError{fmt.Errorf("revision %d: expected a number from 1", number)}
		}
		rev, err := a.stored(c.Context(), number)
		if err != nil {
			return err
		}
		if c.Flags().Lookup("effective").Value.String() == "true" {
			if err := router.Complete(&rev); err != nil {
				return err
			}
		}
		return a.printView(router.Config, &router.ConfigQuestion{}, rev, wantsJSON(c))
	}
}

// driversWithoutDaemon shows what drivers can do also where no router runs: people ask before they choose a computer.
func driversWithoutDaemon(a *app, c *cobra.Command) {
	c.RunE = func(c *cobra.Command, _ []string) error {
		v, err := router.ReadDrivers()
		if err != nil {
			return err
		}
		return a.printView(router.Drivers, &router.Nothing{}, v, wantsJSON(c))
	}
}

// versionWithoutDaemon shows the versions also when no daemon runs, or for those who may not ask it.
func versionWithoutDaemon(a *app, c *cobra.Command) {
	c.RunE = func(c *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		status, err := api.GetStatus.Ask(c.Context(), client, api.Empty{})
		if err != nil && !errors.Is(err, api.ErrNoDaemon) && api.KindOf(err) != api.Denied {
			return err
		}
		v, err := router.ReadVersions(c.Context(), version(), status.Version)
		if err != nil {
			return err
		}
		return a.printView(router.Version, &router.Nothing{}, v, wantsJSON(c))
	}
}

func withWatch(a *app, c *cobra.Command) {
	var watch bool
	c.Flags().BoolVar(&watch, "watch", false, "refresh every second, until Ctrl-C")
	once := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		for {
			if watch {
				fmt.Fprint(a.out, "\x1b[H\x1b[2J") // cursor home, clear
			}
			if err := once(c, args); err != nil || !watch {
				return err
			}
			select {
			case <-c.Context().Done():
				return nil
			case <-time.After(time.Second):
			}
		}
	}
}

func withFollow(a *app, c *cobra.Command) {
	var follow bool
	c.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new lines, until Ctrl-C")
	c.Flags().Lookup("json").Usage = "print the lines as JSON; with --follow, an object for each"
	once := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !follow {
			return once(c, args)
		}
		lines, err := c.Flags().GetInt("lines")
		if err != nil {
			return err
		}
		return a.followLog(c.Context(), lines, wantsJSON(c))
	}
}

// followLog prints the log until the operator or the daemon has enough.
func (a *app) followLog(ctx context.Context, lines int, asJSON bool) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	err = router.FollowLog.Follow(ctx, client, router.LogQuestion{Lines: lines}, func(l router.LogLine) error {
		if asJSON {
			return json.NewEncoder(a.out).Encode(l)
		}
		_, err := fmt.Fprintln(a.out, l.Line)
		return err
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
