// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/subsystem/services"
	"minne/internal/subsystem/services/service"
)

// versions are those of all that makes the router.
type versions struct {
	Minne    string        `json:"minne"`            // this command
	Daemon   string        `json:"daemon,omitempty"` // "" when none runs
	Kernel   string        `json:"kernel"`
	Machine  string        `json:"machine"`
	System   string        `json:"system,omitempty"` // the distribution
	Programs []usedProgram `json:"programs"`
}

// usedProgram is one that the router runs or calls.
type usedProgram struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // "" when it is not installed
	For     string `json:"for"`
	Package string `json:"package"` // of Debian
}

// usedPrograms are asked for their versions, beside those of the services.
var usedPrograms = []service.Program{
	{Name: "FRR", For: "routing protocols", Package: "frr", Version: []string{"/usr/lib/frr/zebra", "--version"}},
	{Name: "nft", For: "firewall, NAT, anti-spoof", Package: "nftables", Version: []string{"nft", "--version"}},
}

func newShowVersionCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of Minne, the kernel and the programs that the router uses",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			v, err := a.versions(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(v)
			}
			screen := a.screen()
			return errors.Join(v.print(screen), screen.Flush())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	return c
}

func (a *app) versions(ctx context.Context) (versions, error) {
	v := versions{Minne: version(), System: distribution()}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return v, os.NewSyscallError("uname", err)
	}
	v.Kernel, v.Machine = unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:])
	client, err := a.client()
	if err != nil {
		return v, err
	}
	switch status, err := api.GetStatus.Ask(ctx, client, api.Empty{}); {
	case err == nil:
		v.Daemon = status.Version
	case !errors.Is(err, api.ErrNoDaemon) && api.KindOf(err) != api.Denied:
		return v, err
	}
	for _, p := range slices.Concat(usedPrograms, services.Programs()) {
		v.Programs = append(v.Programs, usedProgram{Name: p.Name, Version: versionOf(ctx, p.Version), For: p.For, Package: p.Package})
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

func (v versions) print(screen *show.Screen) error {
	t := show.NewTable("Part", "Version", "~For")
	daemon, does := v.Daemon, "the router"
	switch daemon {
	case "":
		daemon, does = "-", "not running"
	case v.Minne:
	default:
		does += "; not the version of this command: restart it, systemctl restart minne"
	}
	t.Row("minne", v.Minne, "this command")
	t.Row("daemon", daemon, does)
	t.Row("Linux", v.Kernel, fmt.Sprintf("forwarding (%s)", v.Machine))
	if v.System != "" {
		t.Row("system", v.System, "")
	}
	for _, p := range v.Programs {
		text := p.Version
		if text == "" {
			text = "-"
			p.For += "; not installed, Debian package " + p.Package
		}
		t.Row(p.Name, text, p.For)
	}
	return t.Write(screen)
}
