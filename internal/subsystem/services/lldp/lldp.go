// SPDX-License-Identifier: Apache-2.0

// Package lldp tells neighbours on a cable who the router is, and hears who they are, by lldpd: the
// Link Layer Discovery Protocol, IEEE 802.1AB. It speaks on the ports that are named and on no other.
//
// Its frames are no IP packets: the firewall has nothing to open, and the fast path gives them to the kernel
// (class link of the guard). lldpd runs as its own user in an empty directory; only a small
// part of it that opens sockets keeps rights.
package lldp

import (
	"fmt"
	"path/filepath"
	"strings"

	"minne/internal/model/config"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

// Name is the program's directory below the run directory, and its task.
const Name = "lldpd"

const (
	binary = "lldpd"
	socket = "socket" // for lldpcli; lldpd makes it when it serves
)

// Service is LLDP to the other parts.
var Service = service.Descriptor{
	Name:  "lldp",
	Title: "LLDP",
	Programs: []service.Program{{Name: binary, For: "LLDP", Package: "lldpd", Version: []string{binary, "-v"}, Unit: "lldpd",
		Image: []string{"usr/sbin/lldpd", "usr/sbin/lldpcli"}}},
	New: func(h service.Host) service.Running {
		d := &Daemon{program.New(h.RunDir, Name, h.Log)}
		return service.OfProgram(d, func(cfg *config.Config) (program.Desired, error) { return Render(cfg, h.RunDir) })
	},
	Views: []service.View{service.NewView(service.View{
		Path:  "lldp neighbors",
		Short: "Show the neighbours that LLDP found, and their ports",
	}, (*Daemon).Observe, table)},
}

// Daemon is the lldpd of an instance.
type Daemon struct{ *program.Program }

// Render makes the configuration of lldpd; runDir is the instance's run directory.
func Render(cfg *config.Config, runDir string) (program.Desired, error) {
	l := cfg.Services.LLDP
	if l == nil {
		return program.Desired{}, nil
	}
	dir := program.Dir(runDir, Name)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Made by minne from minne.yaml; changes here are lost.")
	if cfg.System.Hostname != "" {
		line("configure system hostname %s", cfg.System.Hostname)
	}
	line("configure system description \"Minne router\"")
	line("configure lldp portidsubtype ifname")
	on := strings.Join(l.Interfaces, ",")
	conf := filepath.Join(dir, "lldpd.conf")
	return program.Desired{
		Object: "LLDP",
		Facts:  []string{"LLDP on " + strings.Join(l.Interfaces, ", ")},
		// In the foreground, its log to stderr (-d twice); no inventory (-i), no kernel release (-k).
		Argv:   []string{binary, "-d", "-d", "-i", "-k", "-u", filepath.Join(dir, socket), "-O", conf, "-I", on, "-C", on},
		Serves: socket,
		Files:  map[string]string{"lldpd.conf": b.String()},
	}, nil
}
