// SPDX-License-Identifier: Apache-2.0

package router

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/appliance/boot"
	"minne/internal/daemon/show"
	"minne/internal/subsystem/services"
	"minne/internal/subsystem/services/service"
)

// usedPrograms are those that the router uses besides the programs of its services.
var usedPrograms = []service.Program{
	{Name: "FRR", For: "routing protocols", Package: "frr", Version: []string{"/usr/lib/frr/zebra", "--version"}},
	{Name: "nft", For: "firewall, NAT, anti-spoof", Package: "nftables", Version: []string{"nft", "--version"}},
}

// Version is show version.
var Version = View[Nothing, show.VersionView]{
	Text: Text{Path: "version", Short: "Show the versions of Minne, the kernel and the programs that the router uses"},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (show.VersionView, error) {
		return ReadVersions(ctx, d.version, d.version)
	},
	Print: only[Nothing](show.Version),
}

// ReadVersions asks the kernel and the programs of this machine. The versions of Minne are the caller's: of the
// command, and of the daemon, "" when none runs.
func ReadVersions(ctx context.Context, minne, daemon string) (show.VersionView, error) {
	v := show.VersionView{Minne: minne, Daemon: daemon, System: distribution()}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return v, os.NewSyscallError("uname", err)
	}
	v.Kernel, v.Machine = unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:])
	if booted, err := boot.ReadReport(); err == nil {
		v.Sets = booted.Sets
	}
	for _, p := range slices.Concat(usedPrograms, services.Programs()) {
		v.Programs = append(v.Programs, show.UsedProgram{Name: p.Name, Version: versionOf(ctx, p.Version), For: p.For, Package: p.Package})
	}
	return v, nil
}

// number is a version as programs print it.
var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)+[0-9A-Za-z.~+-]*`)

// versionOf asks a program, which may also lie where only root's PATH leads; "" when it is not there.
func versionOf(ctx context.Context, command []string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	path, err := exec.LookPath(command[0])
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + command[0]); err != nil {
			return ""
		}
	}
	out, _ := exec.CommandContext(ctx, path, command[1:]...).CombinedOutput() // old ones know no such option, and say their version all the same
	if found := number.Find(out); found != nil {
		return string(found)
	}
	return "unknown"
}

// distribution is what os-release(5) calls the system.
func distribution() string {
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"`)
		}
	}
	return ""
}
