// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
)

// VersionView answers show version.
type VersionView struct {
	Minne    string        `json:"minne"`            // of the command; over the API that of the daemon
	Daemon   string        `json:"daemon,omitempty"` // "" when none runs
	Kernel   string        `json:"kernel"`
	Machine  string        `json:"machine"`
	System   string        `json:"system,omitempty"` // the distribution
	Sets     []string      `json:"sets,omitempty"`   // what the image has besides its base
	Programs []UsedProgram `json:"programs"`
}

// UsedProgram is one that the router runs or calls.
type UsedProgram struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // "" when it is not installed
	For     string `json:"for"`
	Package string `json:"package"` // of Debian
}

// Version prints the versions.
func Version(w io.Writer, v VersionView) error {
	t := NewTable("Part", "Version", "~For")
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
	if len(v.Sets) > 0 {
		t.Row("sets", strings.Join(v.Sets, ", "), "laid over the image's base")
	}
	for _, p := range v.Programs {
		text := p.Version
		if text == "" {
			text = "-"
			p.For += "; not installed, Debian package " + p.Package
		}
		t.Row(p.Name, text, p.For)
	}
	return t.Write(w)
}
