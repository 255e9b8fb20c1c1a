// SPDX-License-Identifier: Apache-2.0

// Package pppoe dials sessions with providers by pppd and the kernel's PPPoE (RFC 2516), one pppd for each
// interface. pppd makes the link with the interface's name, gives it the address that the provider tells, and ends
// when the session does or the provider answers no echo. The kernel's packets never pass pppd.
//
// pppd, the session and the script that dials again outlive the daemon. The password is in a file that only root reads, never in a command.
package pppoe

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/program"
	"minne/internal/subsystem/services/service"
)

const (
	binary = "pppd"
	prefix = "pppoe-" // of the programs' directories; the interface's name follows
)

// dial runs pppd again and again, also while the daemon is away. A session that was cut is dialed at once. Pauses grow from a
// second to a minute while no session lasts: providers lock accounts whose password is wrong too often. The
// pid file is for the daemon that comes next; a pppd that outlived its script is in the way of the next one.
const dial = `#!/bin/sh
# Made by minne.
cd "${0%/*}" || exit 1
[ -e /dev/ppp ] || modprobe -q pppoe # the device comes with it where nobody has made it before, as on the image
steady=60 longest=60 pause=0
old=$(cat child 2>/dev/null)
while [ -n "$old" ] && [ "$(readlink "/proc/$old/cwd")" = "$PWD" ]; do
	kill "$old"
	sleep 1
done
trap 'trap "" TERM; kill "$child" 2>/dev/null; wait; rm -f session; exit 0' TERM
echo $$ >pid
while :; do
	rm -f session
	read -r began _ </proc/uptime
	pppd file "$PWD/options" &
	child=$!
	echo "$child" >child
	wait "$child"
	read -r ended _ </proc/uptime
	if [ $((${ended%.*} - ${began%.*})) -ge "$steady" ]; then pause=0; fi
	rm -f session
	sleep "$pause" &
	child=$!
	wait "$child"
	pause=$((2 * pause + 1))
	if [ "$pause" -gt "$longest" ]; then pause=$longest; fi
done
`

// event is what pppd calls when IPv4 works, and when it does no more.
const event = `#!/bin/sh
# Made by minne. Called by pppd: link, tty, speed, address, peer's address.
cd "${0%/*}" || exit 1
case ${0##*/} in
ip-up)
	id=$(sed -n 's/^PPP session is \([0-9]*\).*/\1/p' output | tail -n 1)
	ac=$(sed -n 's/^Connected to \([0-9A-Fa-f:]*\) via .*/\1/p' output | tail -n 1)
	printf 'address=%s\npeer=%s\nsince=%s\ndns=%s\nid=%s\nconcentrator=%s\n' "$4" "$5" "$(date +%s)" "$DNS1 $DNS2" "$id" "$ac" >session.new && mv session.new session
	;;
ip-down) rm -f session ;;
esac
`

// Service is PPPoE to the other parts.
var Service = service.Descriptor{
	Name:  "pppoe",
	Title: "PPPoE",
	Programs: []service.Program{{Name: binary, For: "PPPoE", Package: "ppp", Version: []string{binary, "--version"},
		Image: []string{"usr/sbin/pppd", "usr/sbin/pppoe-discovery", "usr/lib/pppd/*/pppoe.so", "usr/lib/*/ossl-modules/legacy.so"}}}, // legacy.so: pppd 2.5 does not start without
	New: func(h service.Host) service.Running {
		c := &Client{Fleet: program.NewFleet(h.RunDir, "interface", prefix, h.Log), runDir: h.RunDir, servers: h.Servers, log: h.Log}
		r := service.Of(c, func(cfg *config.Config, secrets config.Secrets) (Desired, error) {
			return Render(cfg, secrets, h.RunDir)
		})
		r.Task, r.Stop, r.Trim, r.States, r.Down = c, c.Stop, c.TrimOutput, c.States, c.Down
		return r
	},
	Views: []service.View{service.NewView(service.View{
		Path:  "pppoe",
		Short: "Show the PPPoE sessions",
	}, (*Client).Observe, table)},
}

// Desired is what runs, by interface.
type Desired map[string]program.Desired

// Render says what runs; runDir is the instance's run directory.
func Render(cfg *config.Config, secrets config.Secrets, runDir string) (Desired, error) {
	d := Desired{}
	for name, i := range cfg.Interfaces {
		if i.PPPoE == nil || i.Disabled {
			continue
		}
		password, ok := secrets.Get(i.PPPoE.Secret)
		if !ok {
			return nil, fmt.Errorf("interfaces.%s.pppoe.secret: no secret %q", name, i.PPPoE.Secret)
		}
		d[name] = render(name, i, password, program.Dir(runDir, prefix+name))
	}
	return d, nil
}

// quote makes a word of pppd's option files. Between double quotes only they and the backslash mean something.
func quote(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// render is pppd for one interface. Echoes find a dead line within 15 seconds. The options of Debian's
// /etc/ppp/options are read before these, which win.
func render(name string, i *config.Interface, password, dir string) program.Desired {
	mtu := cmp.Or(i.MTU, config.PPPoEMTU) // more than 1492 is asked for by PPP-Max-Payload (RFC 4638)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Made by minne; changes here are lost.")
	line("plugin pppoe.so")
	if s := i.PPPoE.Service; s != "" {
		line("pppoe-service %s", quote(s))
	}
	if a := i.PPPoE.Concentrator; a != "" {
		line("pppoe-ac %s", quote(a))
	}
	line("nic-%s", i.PPPoE.Parent)
	line("ifname %s", name)
	line("user %s\npassword %s\nhide-password", quote(i.PPPoE.User), quote(password))
	line("noauth\nnoipdefault\nnodefaultroute\nnodetach\nmtu %d\nmru %d", mtu, mtu)
	line("noaccomp\nnopcomp\nnoccp\nnovj")
	line("lcp-echo-interval 5\nlcp-echo-failure 3\nusepeerdns")
	// A request is repeated after a second, not three: pppd waits as long after the provider's end of a session, too (RFC
	// 1661 section 4.4). The tries last as long as by default, 30 seconds.
	line("lcp-restart 1\nlcp-max-configure 30\nipcp-restart 1\nipcp-max-configure 30")
	line("ip-up-script %s\nip-down-script %s", filepath.Join(dir, "ip-up"), filepath.Join(dir, "ip-down"))
	if i.PPPoE.IPv6.On() {
		line("+ipv6")
	} else {
		line("noipv6")
	}
	return program.Desired{
		Object: "PPPoE on " + i.PPPoE.Parent + " as " + name,
		Argv:   []string{"sh", filepath.Join(dir, "dial")},
		Files:  map[string]string{"options": b.String(), "dial": dial, "ip-up": event, "ip-down": event},
		Modes:  map[string]fs.FileMode{"options": 0o600, "dial": 0o755, "ip-up": 0o755, "ip-down": 0o755},
	}
}

// Client is the sessions of an instance.
type Client struct {
	*program.Fleet
	runDir  string
	servers func(service string, list []service.Server) error
	log     *slog.Logger

	mu      sync.Mutex
	desired Desired
}

// String names the task.
func (c *Client) String() string { return "pppoe" }

// Apply makes the sessions those that are desired. One that is as desired goes on.
func (c *Client) Apply(ctx context.Context, d Desired) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.desired = d
	return c.Fleet.Apply(ctx, d)
}

// Plan says which sessions would begin, change and end.
func (c *Client) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	return c.Fleet.Plan(ctx, d)
}

// Stop ends all sessions.
func (c *Client) Stop(ctx context.Context) error { return c.Apply(ctx, Desired{}) }

// Run supervises, and follows the sessions, until ctx ends. The sessions go on.
func (c *Client) Run(ctx context.Context) error {
	return c.Follow(ctx, func(ctx context.Context) time.Duration {
		if err := c.ReportServers(); err != nil && ctx.Err() == nil {
			c.log.Error("DNS servers of PPPoE sessions", "error", err)
		}
		return 0
	}, "session")
}
