// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// FRR in a node: the daemons that its configuration needs, with all of their files below the node's
// directory. It is a router like any other here; the one inside Minne is Minne's own business.

const frrDir = "/usr/lib/frr"

// frrDaemons says by which words of a configuration a daemon is needed, in the order of start.
var frrDaemons = []struct {
	name  string
	words []string // beginnings of lines; X is any neighbour
}{
	{"mgmtd", nil}, // from FRR 9 on; needed for everything there
	{"zebra", nil},
	{"staticd", []string{"ip route", "ipv6 route"}},
	{"bgpd", []string{"router bgp"}},
	{"ospfd", []string{"router ospf", "ip ospf"}},
	{"ospf6d", []string{"router ospf6", "ipv6 ospf6"}},
	{"isisd", []string{"router isis"}},
	{"ripd", []string{"router rip"}},
	{"ripngd", []string{"router ripng"}},
	{"babeld", []string{"router babel"}},
	{"bfdd", []string{"bfd", "neighbor X bfd"}},
}

// RunFRR runs the FRR daemons that a frr.conf needs in the node, gives them the configuration, and
// returns once they have taken it.
func (n *Running) RunFRR(ctx context.Context, config []byte) error {
	if err := needProgram("vtysh", "frr"); err != nil {
		return err
	}
	dir := filepath.Join(n.Dir, "frr")
	if err := makeFRRDir(dir); err != nil {
		return err
	}
	file := filepath.Join(n.Dir, "frr.conf")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return err
	}
	vtysh := []string{"vtysh", "--vty_socket", dir, "--config_dir", dir}
	if err := n.addTool("vtysh", vtysh[0], vtysh[1:]...); err != nil {
		return err
	}
	var running []*Process
	for _, daemon := range neededFRR(string(config)) {
		p, err := n.Start(daemon, filepath.Join(frrDir, daemon), "-P", "0", "--log", "stdout",
			"--vty_socket", dir, "-z", filepath.Join(dir, "zserv.api"), "-i", filepath.Join(dir, daemon+".pid"))
		if err != nil {
			return err
		}
		running = append(running, p)
		err = Until(ctx, 20*time.Second, daemon+" in "+n.Name, func() error {
			if err := p.Failed(); err != nil {
				return Hopeless{err}
			}
			_, err := os.Stat(filepath.Join(dir, daemon+".vty"))
			return err
		})
		if err != nil {
			return err
		}
	}
	if _, err := n.Run(ctx, append(vtysh, "-f", file)...); err != nil {
		return fmt.Errorf("FRR refuses its configuration: %w", err)
	}
	for _, p := range running {
		if err := p.Failed(); err != nil {
			return err
		}
	}
	return nil
}

// neededFRR returns the daemons for a configuration.
func neededFRR(config string) []string {
	var needed []string
	for _, d := range frrDaemons {
		if _, err := os.Stat(filepath.Join(frrDir, d.name)); d.name == "mgmtd" && err != nil {
			continue
		}
		if d.words == nil || mentions(config, d.words) {
			needed = append(needed, d.name)
		}
	}
	return needed
}

// mentions says whether a line begins with one of the given words; X in them is any neighbour.
func mentions(config string, words []string) bool {
	for line := range strings.Lines(config) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[0] == "neighbor" {
			fields[1] = "X"
		}
		text := strings.Join(fields, " ") + " "
		for _, w := range words {
			if strings.HasPrefix(text, w+" ") {
				return true
			}
		}
	}
	return false
}

// makeFRRDir makes the directory of the daemons' sockets, which they use after they have dropped root.
func makeFRRDir(dir string) error {
	u, err := user.Lookup("frr")
	if err != nil {
		return fmt.Errorf("user of FRR: %w", err)
	}
	uid, _ := strconv.Atoi(u.Uid) // numbers on Linux
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		return err
	}
	// vtysh complains when it has none.
	return os.WriteFile(filepath.Join(dir, "vtysh.conf"), []byte("no service integrated-vtysh-config\n"), 0o644)
}
