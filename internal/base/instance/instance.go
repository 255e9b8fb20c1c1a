// SPDX-License-Identifier: Apache-2.0

// Package instance names one router on a host: where its files, sockets, pinned
// maps and routing daemons live. Several instances share a host without seeing
// each other; the default one uses the paths that an operator expects.
//
// An instance runs in the network namespace of its daemon process. Paths that
// the kernel keeps per mount namespace (bpffs) stay reachable because the daemon
// changes only its network namespace.
package instance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Default is the name of the instance that owns the host's own namespace.
const Default = "default"

// Instance is one router on this host.
type Instance struct {
	Name     string
	Config   string // the configuration file
	Secrets  string // the secrets file, mode 0600
	StateDir string // revisions, confirm deadline: survives a reboot
	RunDir   string // control socket, rendered files: gone after a reboot
	BPFDir   string // directory on a bpffs for pinned programs, maps and links
	FRRName  string // FRR pathspace (-N); also its directory under /etc/frr and /run/frr
}

var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)

// New returns the instance of that name with the standard paths.
func New(name string) (Instance, error) {
	if name == "" || name == Default {
		return Instance{
			Name:     Default,
			Config:   "/etc/minne/minne.yaml",
			Secrets:  "/etc/minne/secrets.yaml",
			StateDir: "/var/lib/minne",
			RunDir:   "/run/minne",
			BPFDir:   "/sys/fs/bpf/minne",
			FRRName:  "minne",
		}, nil
	}
	if !nameRE.MatchString(name) {
		return Instance{}, fmt.Errorf("instance name %q: expected 1 to 31 lower-case letters, digits or dashes", name)
	}
	return Instance{
		Name:     name,
		Config:   filepath.Join("/etc/minne/instances", name, "minne.yaml"),
		Secrets:  filepath.Join("/etc/minne/instances", name, "secrets.yaml"),
		StateDir: filepath.Join("/var/lib/minne-instances", name),
		RunDir:   filepath.Join("/run/minne-instances", name),
		BPFDir:   filepath.Join("/sys/fs/bpf/minne-instances", name),
		FRRName:  "minne-" + name,
	}, nil
}

// Under returns the instance with all of its directories below root, except the
// bpffs one: for tests and the lab, which must not touch the host's paths.
func (i Instance) Under(root string) Instance {
	for _, p := range []*string{&i.Config, &i.Secrets, &i.StateDir, &i.RunDir} {
		*p = filepath.Join(root, *p)
	}
	return i
}

// RevisionsDir is where the configuration's revisions are stored.
func (i Instance) RevisionsDir() string { return filepath.Join(i.StateDir, "revisions") }

// OwnsHost says whether the instance is the host's own router, which also names
// the host: the default one, with the standard paths, in the host's network namespace.
func (i Instance) OwnsHost() bool {
	standard, err := New(Default)
	if err != nil || i.Name != standard.Name || i.StateDir != standard.StateDir {
		return false
	}
	ours, err1 := os.Stat("/proc/self/ns/net")
	hosts, err2 := os.Stat("/proc/1/ns/net")
	return err1 == nil && err2 == nil && os.SameFile(ours, hosts)
}

// ControlSocket is the unix socket on which the daemon answers the command line.
func (i Instance) ControlSocket() string { return filepath.Join(i.RunDir, "control.sock") }
