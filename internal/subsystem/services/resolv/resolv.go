// SPDX-License-Identifier: Apache-2.0

// Package resolv says whom the router itself asks for names: its own DNS server
// where it has one, else the servers that providers gave. It writes resolv.conf in the
// instance's run directory and leaves /etc alone; the router's image has a link
// there.
package resolv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

// Service is the file to the other parts.
var Service = service.Descriptor{
	Name: "resolv",
	New: func(h service.Host) service.Running {
		f := New(h.RunDir)
		r := service.Of(f, func(cfg *config.Config, _ config.Secrets) (Desired, error) { return Render(cfg) })
		r.Servers = f.SetServers
		return r
	},
}

// Desired is what the configuration says about it.
type Desired struct {
	Own    bool     // this router's own DNS server
	Learn  []string // the interfaces whose providers' servers are asked
	Domain string
}

// Render makes the Desired of a configuration.
func Render(cfg *config.Config) (d Desired, err error) {
	inVRFs := cfg.VRFs()
	dns := cfg.Services.DNS
	if dns != nil && slices.ContainsFunc(dns.Interfaces, func(name string) bool { return inVRFs[name] == "" }) {
		return Desired{Own: true, Domain: dns.Domain}, nil
	}
	for name := range cfg.Interfaces {
		if inVRFs[name] == "" {
			d.Learn = append(d.Learn, name)
		}
	}
	return d, nil
}

// Resolv is the file of an instance.
type Resolv struct {
	file string

	mu      sync.Mutex
	desired Desired
	applied bool
	servers []service.Server
}

// New returns the file in the instance's run directory.
func New(runDir string) *Resolv { return &Resolv{file: filepath.Join(runDir, "resolv.conf")} }

// Plan says nothing: operators see the services that it follows from.
func (r *Resolv) Plan(context.Context, Desired) ([]plan.Change, error) { return nil, nil }

// Apply writes the file, or removes it where nothing is known.
func (r *Resolv) Apply(_ context.Context, d Desired) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.desired, r.applied = d, true
	return r.write()
}

// SetServers takes the servers of providers.
func (r *Resolv) SetServers(servers []service.Server) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers = servers
	return r.write()
}

func (r *Resolv) write() error {
	if !r.applied {
		return nil
	}
	text := Text(r.desired, service.ServersOf(r.servers, r.desired.Learn))
	if text == "" {
		if err := os.Remove(r.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		return err
	}
	return program.Replace(r.file, text, 0o644)
}

// Text is the file, "" for none.
func Text(d Desired, servers []netip.Addr) string {
	if d.Own {
		servers = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	} else if len(servers) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Made by minne.\n")
	if d.Domain != "" {
		fmt.Fprintf(&b, "search %s\n", d.Domain)
	}
	for _, a := range servers[:min(len(servers), 3)] { // resolv.conf(5) reads three
		fmt.Fprintf(&b, "nameserver %s\n", a)
	}
	return b.String()
}
