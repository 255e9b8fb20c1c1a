// SPDX-License-Identifier: Apache-2.0

// Package ntp keeps the router's clock right by chrony, and tells the time to the
// networks that may ask. Without such networks chronyd opens no port at all.
//
// Only a router that owns its host sets the clock, which is not part of a network
// namespace: others compare and tell, and leave it alone.
package ntp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"minne/internal/base/plan"
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
		r := service.Of(d, func(cfg *config.Config, _ config.Secrets) (Desired, error) { return Render(cfg, h.RunDir, h.Own), nil })
		r.Task, r.Stop, r.States, r.Trim, r.Returned = d, d.Stop, d.States, d.TrimOutput, d.returned
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

// Desired is what runs, by the VRF that it serves. That of "" asks the servers and sets the clock, wherever it serves.
type Desired map[string]program.Desired

// Daemon is the chronyds of an instance.
type Daemon struct {
	*program.Fleet // by key

	mu      sync.Mutex
	desired Desired
}

// New returns the daemon. Nothing runs before the first Apply.
func New(runDir string, log *slog.Logger) *Daemon {
	return &Daemon{Fleet: program.NewFleet(runDir, "", Name, log)}
}

// String names the task.
func (s *Daemon) String() string { return Name }

// key is what follows Name in the directory of the chronyd of a VRF.
func key(vrf string) string {
	if vrf == "" {
		return ""
	}
	return "-" + vrf
}

// programs are those of a fleet.
func (d Desired) programs() map[string]program.Desired {
	all := map[string]program.Desired{}
	for vrf, p := range d {
		all[key(vrf)] = p
	}
	return all
}

// Plan says which would begin, change and end.
func (s *Daemon) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	return s.Fleet.Plan(ctx, d.programs())
}

// Apply makes each run as desired, or not at all. One that does already goes on.
func (s *Daemon) Apply(ctx context.Context, d Desired) error {
	s.mu.Lock()
	s.desired = d
	s.mu.Unlock()
	return s.Fleet.Apply(ctx, d.programs())
}

// Stop ends all.
func (s *Daemon) Stop(ctx context.Context) error { return s.Apply(ctx, nil) }

// States are those of each, the one that keeps the clock first.
func (s *Daemon) States() (list []program.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, vrf := range slices.Sorted(maps.Keys(s.desired)) {
		list = append(list, s.State(key(vrf)))
	}
	return list
}

// returned begins anew where sockets are bound to an interface that is another link now.
func (s *Daemon) returned(ctx context.Context, name string) error {
	s.mu.Lock()
	var again []string
	for vrf, p := range s.desired {
		conf := p.Files["chrony.conf"]
		if vrf == name || strings.Contains(conf, "\nbinddevice "+name+"\n") || strings.Contains(conf, "\nbindacqdevice "+name+"\n") {
			again = append(again, vrf)
		}
	}
	s.mu.Unlock()
	var failed []error
	for _, vrf := range again {
		failed = append(failed, s.Restart(ctx, key(vrf)))
	}
	return errors.Join(failed...)
}

// Render makes the configuration of each chronyd; runDir is the instance's run directory. ownHost says that the clock is
// the router's to set, else the servers are only watched.
func Render(cfg *config.Config, runDir string, ownHost bool) Desired {
	n := cfg.Services.NTP
	if n == nil {
		return nil
	}
	in, places := cfg.VRFs(), map[string][]string{}
	for _, name := range n.Interfaces {
		places[in[name]] = append(places[in[name]], name)
	}
	// The one that asks serves the main table, else the VRF where it asks, else the first: hosts hear there how good the time is.
	at := ""
	if vrfs := slices.Sorted(maps.Keys(places)); places[at] == nil && len(vrfs) > 0 {
		at = vrfs[0]
		if places[n.VRF] != nil {
			at = n.VRF
		}
	}
	d := Desired{"": keeper(cfg, runDir, at, places[at], ownHost)}
	for vrf, interfaces := range places {
		if vrf != at {
			d[vrf] = server(cfg, runDir, vrf, interfaces)
		}
	}
	return d
}

// text is the configuration of one chronyd while it is written.
type text struct {
	program.Desired
	b   strings.Builder
	dir string
}

func (w *text) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// begin writes what holds for each; name is that of its directory.
func begin(runDir, name string) *text {
	w := &text{dir: program.Dir(runDir, name)}
	w.Owner = user
	w.Directories = []program.Directory{ // a package of Debian brings them
		{Path: "/run/chrony", Mode: 0o750, User: user},
		{Path: "/var/lib/chrony", Mode: 0o750, User: user},
	}
	w.line("# Made by minne from minne.yaml; changes here are lost.")
	w.line("pidfile %s", filepath.Join(w.dir, "pid"))
	w.line("bindcmdaddress %s", filepath.Join(w.dir, "var", socket))
	w.line("cmdport 0")
	return w
}

// end is what runs with that configuration.
func (w *text) end(setsClock bool) program.Desired {
	conf := filepath.Join(w.dir, "chrony.conf")
	w.Files = map[string]string{"chrony.conf": w.b.String()}
	w.Argv = []string{binary, "-n", "-u", user, "-f", conf}
	if !setsClock {
		w.Argv = append(w.Argv, "-x")
	}
	w.Check = []string{binary, "-p", "-f", conf}
	return w.Desired
}

// serve lets the hosts of some interfaces ask.
func (w *text) serve(cfg *config.Config, interfaces []string) {
	w.Facts = append(w.Facts, "NTP on "+strings.Join(interfaces, ", "))
	for _, name := range interfaces {
		for _, a := range cfg.Interfaces[name].Addresses {
			w.line("allow %s", a.Masked())
		}
	}
}

// keeper is the chronyd that asks the servers, and serves hosts in one place. Its sockets of the two kinds may be in two VRFs:
// it binds each kind to a device.
func keeper(cfg *config.Config, runDir, at string, interfaces []string, ownHost bool) program.Desired {
	n, w := cfg.Services.NTP, begin(runDir, Name)
	w.Object = "NTP client"
	w.Facts = []string{"time from " + strings.Join(n.Servers, ", ")}
	for _, s := range n.Servers {
		// A name may stand for a pool; pool takes plain servers as well.
		if _, err := netip.ParseAddr(s); err == nil {
			w.line("server %s iburst", s)
		} else {
			w.line("pool %s iburst maxsources 4", s)
		}
	}
	if n.VRF != "" {
		w.Facts[0] += " in VRF " + n.VRF
		w.line("bindacqdevice %s", n.VRF)
	}
	// A router without a battery wakes up in 1970: step the clock at the start, later only slew it.
	w.line("makestep 1.0 3")
	w.line("driftfile %s", filepath.Join(w.dir, "var", "drift"))
	if ownHost {
		w.line("rtcsync")
	}
	if len(interfaces) == 0 {
		w.line("port 0")
		return w.end(ownHost)
	}
	w.Object = "NTP client and server"
	w.serve(cfg, interfaces)
	if len(interfaces) == 1 {
		w.line("binddevice %s", interfaces[0])
	} else if at != "" {
		w.line("binddevice %s", at)
	}
	w.line("local stratum 10 orphan") // a LAN without the Internet still agrees on a time
	return w.end(ownHost)
}

// server is a chronyd inside of a VRF that gives the router's clock, which another one keeps: it can't ask that one, in another
// table, how good the time is, so it is of a stratum that any better server outdoes.
func server(cfg *config.Config, runDir, vrf string, interfaces []string) program.Desired {
	w := begin(runDir, Name+key(vrf))
	w.Object, w.VRF = "NTP server in VRF "+vrf, vrf
	if v := cfg.Interfaces[vrf]; v != nil && v.VRF != nil { // with another table it is another link, to begin anew with
		w.line("# In VRF %s, table %d.", vrf, v.VRF.Table)
	}
	w.serve(cfg, interfaces)
	w.line("local stratum 10")
	return w.end(false)
}
