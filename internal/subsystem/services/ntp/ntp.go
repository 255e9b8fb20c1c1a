// SPDX-License-Identifier: Apache-2.0

// Package ntp keeps the router's clock right by chrony, and tells the time to the
// networks that may ask. Without such networks chronyd opens no port at all.
//
// Only a router that owns its host sets the clock, which is not part of a network
// namespace: others compare and tell, and leave it alone.
package ntp

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

// Name is the program's directory below the run directory, and its task.
const Name = "chronyd"

const (
	binary = "chronyd"
	user   = "_chrony"
	port   = 123
	socket = "chronyd.sock" // for chronyc, in the directory that is the user's
)

// Service is NTP to the other parts.
var Service = service.Descriptor{
	Name:  "ntp",
	Title: "NTP",
	Programs: []service.Program{{Name: "chronyd", For: "NTP", Package: "chrony", Version: []string{binary, "--version"}, Unit: "chrony",
		Image: []string{"usr/sbin/chronyd", "usr/bin/chronyc"}}},
	Openings: openings,
	New: func(h service.Host) service.Running {
		d := New(h.RunDir, h.Log)
		r := service.OfProgram(d, func(cfg *config.Config) (program.Desired, error) { return Render(cfg, h.RunDir, h.Own) })
		r.Trouble = func(ctx context.Context) map[string]string {
			if text := d.Trouble(ctx); text != "" {
				return map[string]string{"time": text}
			}
			return nil
		}
		return r
	},
}

// openings let hosts ask where they may, and the router ask its servers.
func openings(cfg *config.Config) []policy.Opening {
	n := cfg.Services.NTP
	if n == nil {
		return nil
	}
	udp := []uint8{unix.IPPROTO_UDP}
	return []policy.Opening{
		{Text: "NTP", Protocols: udp, Port: port, Interfaces: n.Interfaces},
		{Text: "NTP queries", Protocols: udp, Port: port, Out: true, Anywhere: true},
	}
}

// Daemon is the chronyd of an instance.
type Daemon struct{ *program.Program }

// New returns the daemon. Nothing runs before the first Apply.
func New(runDir string, log *slog.Logger) *Daemon {
	return &Daemon{program.New(runDir, Name, log)}
}

// Render makes the configuration of chronyd. ownHost says whether the clock is ours to set.
func Render(cfg *config.Config, runDir string, ownHost bool) (program.Desired, error) {
	n := cfg.Services.NTP
	if n == nil {
		return program.Desired{}, nil
	}
	dir := program.Dir(runDir, Name)
	d := program.Desired{
		Object: "NTP client",
		Facts:  []string{"time from " + strings.Join(n.Servers, ", ")},
		Owner:  user,
		Directories: []program.Directory{ // a package of Debian brings them
			{Path: "/run/chrony", Mode: 0o750, User: user},
			{Path: "/var/lib/chrony", Mode: 0o750, User: user},
		},
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Made by minne from minne.yaml; changes here are lost.")
	for _, s := range n.Servers {
		// A name may stand for a pool; pool takes plain servers as well.
		if _, err := netip.ParseAddr(s); err == nil {
			line("server %s iburst", s)
		} else {
			line("pool %s iburst maxsources 4", s)
		}
	}
	// A router without a battery wakes up in 1970: step the clock at the start, later only slew it.
	line("makestep 1.0 3")
	line("driftfile %s", filepath.Join(dir, "var", "drift"))
	line("pidfile %s", filepath.Join(dir, "pid"))
	line("bindcmdaddress %s", filepath.Join(dir, "var", socket))
	line("cmdport 0")
	if ownHost {
		line("rtcsync")
	}
	networks := served(cfg, n)
	if len(networks) == 0 {
		line("port 0")
	} else {
		d.Object = "NTP client and server"
		d.Facts = append(d.Facts, "NTP on "+strings.Join(n.Interfaces, ", "))
		for _, p := range networks {
			line("allow %s", p)
		}
		if len(n.Interfaces) == 1 {
			line("binddevice %s", n.Interfaces[0])
		}
		line("local stratum 10 orphan") // a LAN without the Internet still agrees on a time
	}
	conf := filepath.Join(dir, "chrony.conf")
	d.Files = map[string]string{"chrony.conf": b.String()}
	d.Argv = []string{binary, "-n", "-u", user, "-f", conf}
	if !ownHost {
		d.Argv = append(d.Argv, "-x")
	}
	d.Check = []string{binary, "-p", "-f", conf}
	return d, nil
}

// served are the networks whose hosts may ask.
func served(cfg *config.Config, n *config.NTP) (list []netip.Prefix) {
	for _, name := range n.Interfaces {
		for _, a := range cfg.Interfaces[name].Addresses {
			list = append(list, a.Masked())
		}
	}
	return list
}
