// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"minne/internal/daemon/page"
	"minne/internal/daemon/router"
	"minne/internal/model/api"
	"minne/internal/subsystem/services"
	"minne/internal/subsystem/services/web"
)

func newDaemonCommand(a *app) *cobra.Command {
	var netns, file string
	c := &cobra.Command{
		Use:   "daemon",
		Short: "Run the router",
		Long: `Run the router's daemon in the foreground, usually from minne.service.

The daemon applies the last confirmed configuration, handles commits, and keeps the fast
path's tables up to date. Packets do not pass through it, so it can be stopped, killed
and restarted while the router forwards. (minne stop --all also removes what it set up.)
On a router without revisions, the file of --config is the first configuration.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if netns != "" {
				if err := enterNetns(netns); err != nil {
					return err
				}
			}
			return runDaemon(c.Context(), a, file)
		},
	}
	c.Flags().StringVar(&netns, "netns", "", "network namespace to route in: `name` (of ip netns) or path")
	c.Flags().StringVar(&file, "config", "", "`file` with the first configuration of a new router (default /etc/minne/minne.yaml)")
	return c
}

func runDaemon(ctx context.Context, a *app, file string) error {
	inst, err := a.inst()
	if err != nil {
		return err
	}
	if file != "" {
		if inst.Config, err = filepath.Abs(file); err != nil {
			return err
		}
	}
	if os.Geteuid() != 0 {
		return errors.New("the daemon must be started as root")
	}
	journal := router.NewJournal(a.err)
	log := slog.New(slog.NewTextHandler(journal, logOptions()))
	d, err := router.NewDaemon(inst, log, journal, version())
	if err != nil {
		return err
	}
	d.AnswerBy(func(s *api.Server, w *web.Server) http.Handler { return page.New(s, w, log) })
	return d.Run(ctx)
}

// logOptions leaves the time to the system's journal where that is what reads us.
func logOptions() *slog.HandlerOptions {
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if os.Getenv("JOURNAL_STREAM") != "" {
		o.ReplaceAttr = func(groups []string, attr slog.Attr) slog.Attr {
			if attr.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return attr
		}
	}
	return o
}

// netnsEntered marks a process that was started again inside the namespace.
const netnsEntered = "MINNE_NETNS_ENTERED"

// enterNetns starts this program again with the whole process inside the network
// namespace: a running Go process can move only single threads. The mount
// namespace stays, and with it the bpffs.
func enterNetns(name string) error {
	if os.Getenv(netnsEntered) == name {
		return os.Unsetenv(netnsEntered)
	}
	path := name
	if !strings.Contains(name, "/") {
		path = filepath.Join("/run/netns", name)
	}
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", name, err)
	}
	runtime.LockOSThread()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("network namespace %s: enter: %w", name, err)
	}
	env := append(os.Environ(), netnsEntered+"="+name)
	if err := unix.Exec("/proc/self/exe", os.Args, env); err != nil {
		return fmt.Errorf("network namespace %s: start again inside: %w", name, err)
	}
	return nil
}

func newStopCommand(a *app) *cobra.Command {
	var all bool
	var netns string
	c := &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon, or with --all the whole router",
		Long: `Stop the daemon. The kernel, the fast path and the routing daemons keep forwarding.

With --all they stop too: forwarding is turned off, the fast path is removed, and the
routing daemons and services (` + services.Titles() + `) end. Open SSH logins, addresses
(also from DHCP) and static routes stay, so that you do not lose the router. This also works
when the daemon is not running.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if netns != "" {
				if err := enterNetns(netns); err != nil {
					return err
				}
			}
			return a.stop(c.Context(), all)
		},
	}
	c.Flags().StringVar(&netns, "netns", "", "network namespace of the router, as given to its daemon: for --all when the daemon does not run")
	c.Flags().BoolVar(&all, "all", false, "also stop forwarding, the fast path, the routing daemons and the services")
	return c
}

func (a *app) stop(ctx context.Context, all bool) error {
	inst, err := a.inst()
	if err != nil {
		return err
	}
	_, err = api.Stop.Ask(ctx, api.NewClient(inst.ControlSocket()), api.StopQuestion{All: all})
	if errors.Is(err, api.ErrNoDaemon) && all {
		return router.TakeDown(ctx, inst, slog.New(slog.NewTextHandler(a.err, nil)))
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return router.WaitStopped(ctx, inst)
}
