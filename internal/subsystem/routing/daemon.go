// SPDX-License-Identifier: Apache-2.0

// FRR daemons as processes: starting, adopting, watching, stopping.
//
// The daemons detach themselves (-d) and write a pid file once their sockets serve. A pid
// from a file is believed only when /proc shows the daemon's command line, our pathspace and our network
// namespace behind it.
package routing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"minne/internal/base/atomicfile"
	"minne/internal/base/instance"
	"minne/internal/base/process"
)

const (
	frrUser    = "frr"
	daemonDir  = "/usr/lib/frr"
	startLimit = 30 * time.Second // until a daemon serves its sockets
	stopLimit  = 20 * time.Second // until a daemon has ended after SIGTERM; zebra removes its routes first
)

// host is where FRR lives: the paths of one pathspace, and how to run a program beside it.
type host struct {
	root  string   // "" or the directory in which FRR is installed
	name  string   // pathspace
	wrap  []string // command words in front of a daemon's, none in production
	netns string   // the network namespace that the daemons live in
}

func (h host) runDir() string         { return filepath.Join(h.root, "/run/frr", h.name) }
func (h host) etcDir() string         { return filepath.Join(h.root, "/etc/frr", h.name) }
func (h host) socket(d string) string { return filepath.Join(h.runDir(), d+".vty") }

// BFDSocket is where bfdd tells of its sessions.
func BFDSocket(inst instance.Instance) string {
	return filepath.Join(host{name: inst.FRRName}.runDir(), "bfdd.sock")
}

func (h host) pidFile(d string) string { return filepath.Join(h.runDir(), d+".pid") }
func (h host) confFile() string        { return filepath.Join(h.etcDir(), "frr.conf") }
func (h host) binary(d string) string  { return filepath.Join(daemonDir, d) }

// daemons returns what runs for d on this host, in the order in which it starts.
func (h host) daemons(d Desired) []string {
	list := d.Daemons()
	if _, err := os.Stat(filepath.Join(h.root, h.binary(mgmtd))); err == nil && len(list) > 0 {
		list = append([]string{mgmtd}, list...)
	}
	return list
}

// argv returns the command of a daemon. staleSeconds is how long a new zebra leaves the routes of its
// predecessor in the kernel when no protocol confirms them.
func (h host) argv(d string, staleSeconds int) []string {
	argv := []string{h.binary(d), "-N", h.name, "-d", "-P", "0", "--log", "syslog", "--log-level", "warn"}
	if d == zebra {
		argv = append(argv, fmt.Sprintf("-K%d", staleSeconds), "-s", "90000000", "--v6-rr-semantics")
	}
	return argv
}

// adopt returns the running daemon, or nil when there is none. ended is called once when it ends.
func (h host) adopt(daemon string, ended func()) (*process.Process, error) {
	p, err := h.find(daemon)
	if p != nil {
		go p.Watch(ended)
	}
	return p, err
}

// find returns the running daemon, or nil when there is none, without watching it.
func (h host) find(daemon string) (*process.Process, error) {
	return process.Find(daemon, h.pidFile(daemon), func(pid int) bool { return h.isOurs(daemon, pid) })
}

// isOurs says whether the process is this daemon in this pathspace and network namespace.
func (h host) isOurs(daemon string, pid int) bool {
	want := strings.Join([]string{h.binary(daemon), "-N", h.name}, "\x00") + "\x00"
	return strings.HasPrefix(process.Command(pid), want) && process.InNetwork(pid, h.netns)
}

// start runs a daemon that is not running and waits until it serves.
func (h host) start(ctx context.Context, daemon string, staleSeconds int, ended func()) (*process.Process, error) {
	if err := h.directories(); err != nil {
		return nil, err
	}
	// A file, not a pipe: the daemon keeps it open for life.
	out, err := os.CreateTemp(h.runDir(), daemon+".start-*")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", daemon, err)
	}
	defer out.Close()
	defer os.Remove(out.Name())
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	argv := append(append([]string{}, h.wrap...), h.argv(daemon, staleSeconds)...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, "/"
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("start %s: %w%s (is the package frr installed?)", daemon, err, process.Said(out))
	}
	p, err := h.adopt(daemon, ended)
	if err == nil && p == nil {
		err = fmt.Errorf("start %s: it exited at once%s", daemon, process.Said(out))
	}
	return p, err
}

// directories makes the pathspace's directories, owned by FRR's user as its daemons drop root.
func (h host) directories() error {
	uid, gid, err := frrIDs()
	if err != nil {
		return err
	}
	for dir, mode := range map[string]fs.FileMode{h.runDir(): 0o755, h.etcDir(): 0o750} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("directory of FRR: %w", err)
		}
		if err := os.Chown(dir, uid, gid); err != nil {
			return fmt.Errorf("directory of FRR: %w", err)
		}
	}
	vtysh := filepath.Join(h.etcDir(), "vtysh.conf")
	if _, err := os.Stat(vtysh); errors.Is(err, fs.ErrNotExist) {
		return writeFile(vtysh, "service integrated-vtysh-config\n", gid)
	}
	return nil
}

func frrIDs() (uid, gid int, err error) {
	u, err := user.Lookup(frrUser)
	if err != nil {
		return 0, 0, fmt.Errorf("user of FRR: %w (is the package frr installed?)", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(err1, err2)
}

// writeFile replaces a file that root writes and FRR's group reads: it may hold passwords.
func writeFile(path, text string, gid int) error {
	if err := atomicfile.Write(path, []byte(text), 0o640, atomicfile.Fleeting, atomicfile.Owner(0, gid)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
