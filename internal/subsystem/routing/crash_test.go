// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// sixPeer is a router with one upstream over IPv6, and the upstream.
func (l *lab) sixPeer() (*config.Config, func(...string) string) {
	l.namespace("a")
	l.link("r", "a", "192.0.2.1/24 2001:db8:1::1/64", "192.0.2.2/24 2001:db8:1::2/64")
	bird := l.bird("a", birdPeer("192.0.2.2", "2001:db8:1::2", "2001:db8:1::1", 64501, "graceful restart on; connect delay time 0; connect retry time 1;",
		"", "route 2a01:1::/32 blackhole; route 2a02:2::/32 blackhole;"))
	cfg := &config.Config{System: config.System{RouterID: addr("192.0.2.1")}}
	cfg.Routing.BGP = &config.BGP{ASN: 64500, Announce: []config.Prefix{prefix("2a00:9::/32")},
		Peers: map[string]*config.BGPPeer{"isp": {Address: addr("2001:db8:1::2"), ASN: 64501, Families: []config.Family{"ipv6"}}}}
	return cfg, bird
}

// pids returns the processes of daemons, those that run.
func (l *lab) pids(daemons ...string) map[string]int {
	l.t.Helper()
	out := map[string]int{}
	for _, daemon := range daemons {
		p, err := l.host.find(daemon)
		if err != nil {
			l.t.Fatal(err)
		}
		if p != nil {
			out[daemon] = p.PID
			p.Close()
		}
	}
	return out
}

// ask returns a daemon's answer, or why there is none.
func (l *lab) ask(daemon, command string) string {
	v, err := dialVTY(context.Background(), daemon, l.host.socket(daemon))
	if err != nil {
		return err.Error()
	}
	defer v.close()
	text, err := v.command(context.Background(), command)
	if err != nil {
		return err.Error()
	}
	return text
}

// gone is a check for eventually: none of the daemons runs, and the router's own handles say so: a process
// that ends loses its command line a moment before it counts as ended.
func (l *lab) gone(daemons ...string) func() string {
	return func() string {
		if left := l.pids(daemons...); len(left) > 0 {
			return fmt.Sprint(left)
		}
		for _, daemon := range daemons {
			if l.router.unit(daemon).proc.Alive() {
				return daemon + " is ending"
			}
		}
		return ""
	}
}

// accepted is a check for eventually: the session is up, with routes that it accepted.
func (l *lab) accepted(want uint64) func() string {
	return func() string {
		peers, err := l.router.BGPNeighbors(context.Background(), "")
		if err != nil {
			return err.Error()
		}
		for _, p := range peers {
			if p.State == "Established" && p.Families["ipv6"].Received == want {
				return ""
			}
		}
		return fmt.Sprintf("%+v", peers)
	}
}

// Whoever dies, together or alone, in whatever order: IPv6 sessions come back with their routes. bgpd
// that starts before zebra takes a session and refuses its routes for good.
func TestSessionsAfterDeaths(t *testing.T) {
	l := newLab(t)
	cfg, _ := l.sixPeer()
	d := l.apply(cfg, nil)
	for _, daemon := range []string{bgpd, zebra} {
		l.kill(daemon)
	}
	l.eventually("both are gone", l.gone(bgpd, zebra))
	if err := l.router.ensure(context.Background(), bgpd, d); err == nil || !strings.Contains(err.Error(), "bgpd waits for zebra") {
		t.Errorf("bgpd was started without zebra: %v", err)
	}
	l.supervise()
	l.eventually("routes", l.accepted(2))
	both := []string{bgpd, zebra}
	for round, die := range [][]string{both, {zebra, bgpd}, {zebra}, {bgpd}, both} {
		old := l.pids(both...)
		for _, daemon := range die {
			l.kill(daemon)
		}
		l.eventually(fmt.Sprintf("round %d: %v run again", round, die), func() string {
			now := l.pids(both...)
			for _, daemon := range both {
				if now[daemon] == 0 || slices.Contains(die, daemon) == (now[daemon] == old[daemon]) {
					return fmt.Sprint(old, now)
				}
			}
			return ""
		})
		l.eventually(fmt.Sprintf("round %d: routes accepted", round), l.accepted(2))
		l.eventually("in the kernel", l.via("-6", "2a02:2::/32", "to-a"))
	}
}

// A bgpd that somebody else started before zebra is adopted, and its sessions are reset once.
func TestEarlySessionIsReset(t *testing.T) {
	l := newLab(t)
	cfg, _ := l.sixPeer()
	d := l.apply(cfg, nil)
	l.eventually("routes", l.accepted(2))
	for _, daemon := range []string{bgpd, zebra} {
		l.kill(daemon)
	}
	l.eventually("both are gone", l.gone(bgpd, zebra))
	argv := append(slices.Clone(l.host.wrap), l.host.argv(bgpd, 0)...)
	said, err := os.Create(filepath.Join(t.TempDir(), "said")) // no pipe: FRR 10's daemon keeps it open
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	start := exec.Command(argv[0], argv[1:]...)
	start.Stdout, start.Stderr = said, said
	if err := start.Run(); err != nil {
		out, _ := os.ReadFile(said.Name())
		t.Fatalf("%v: %s", err, out)
	}
	v, err := dialVTY(context.Background(), bgpd, l.host.socket(bgpd))
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	if _, err := v.configure(context.Background(), difference(&node{}, parse(d.text[bgpd]))); err != nil {
		t.Fatal(err)
	}
	l.eventually("a session without routes", func() string {
		n, up := l.established("isp")
		return map[bool]string{false: fmt.Sprint(n, up)}[up]
	})
	l.apply(cfg, nil)
	l.supervise()
	l.eventually("routes of the session", l.accepted(2))
	repairs, _ := l.router.health.Repairs()
	if s := contains(fmt.Sprint(repairs), "the session with isp (2001:db8:1::2) had come up before"); s != "" {
		t.Error(s)
	}
	if n := strings.Count(fmt.Sprint(repairs), "had come up before"); n != 1 {
		t.Errorf("%d resets", n)
	}
}

// ospfd and ospf6d are killed, also twice in a row and after zebra: no OSPF route leaves the kernel. A new zebra is
// told all routes again. What the network withdraws goes in the end.
func TestOSPFSurvivesCrashes(t *testing.T) {
	l := newLab(t)
	l.insideNetwork()
	secrets := passwords{"ospf": "s3cret"}
	cfg := campus(false)
	cfg.Routing.BGP, cfg.Routing.OSPF.DefaultRoute, cfg.Routing.OSPF3.DefaultRoute = nil, "", ""
	l.bird("i", inside("s3cret", ""))
	l.apply(cfg, secrets)
	l.supervise()
	full := func() string {
		n, err := l.router.OSPFNeighbors(context.Background(), "")
		return contains(fmt.Sprintf("%+v %v", n, err), "Version:2 RouterID:10.0.0.2 Address:10.0.0.2 Interface:to-i State:Full",
			"Version:3 RouterID:10.0.0.2 Address: Interface:to-i State:Full")
	}
	routes := func() string {
		return contains(l.routes("-4")+l.routes("-6"), "10.9.0.0/24 nhid", "2001:db8:9::/64 nhid")
	}
	l.eventually("adjacencies", full)
	l.eventually("routes", routes)
	told := func() string { // how many routes zebra has been told by each of them
		text := l.ask(zebra, "show zebra client summary")
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); strings.HasPrefix(line, "ospf") && strings.HasPrefix(f[4], "0/") && strings.HasPrefix(f[5], "0/") {
				return text
			}
		}
		return contains(text, "ospf ", "ospf6 ")
	}
	gone, expected := l.deletions("ospf"), 0
	for round, die := range [][]string{{ospfd, ospf6d}, {ospfd, ospf6d}, {zebra}, {ospfd, ospf6d}} {
		old := l.pids(die...)
		for _, daemon := range die {
			l.kill(daemon)
		}
		l.eventually(fmt.Sprintf("round %d: %v run again", round, die), func() string {
			now := l.pids(die...)
			for _, daemon := range die {
				if now[daemon] == 0 || now[daemon] == old[daemon] {
					return fmt.Sprint(old, now)
				}
			}
			return ""
		})
		l.eventually(fmt.Sprintf("round %d: zebra is told the routes", round), told)
		l.eventually(fmt.Sprintf("round %d: adjacencies", round), full)
		if die[0] == zebra {
			l.eventually("routes, told again", routes)
			expected = len(gone())
		}
		if s := routes(); s != "" {
			t.Errorf("round %d: %s", round, s)
		}
		if g := gone(); len(g) > expected {
			t.Errorf("round %d: kernel routes lost: %v", round, g[expected:])
			expected = len(g)
		}
	}
	l.eventually("the new daemons know the routes", func() string {
		return contains(l.ask(ospfd, "show ip ospf route"), "10.9.0.0/24") + contains(l.ask(ospf6d, "show ipv6 ospf6 route"), "2001:db8:9::/64")
	})
	l.in("i", "ip", "link", "set", "lan", "down")
	l.eventually("a withdrawal", func() string {
		return lacks(l.routes("-4")+l.routes("-6"), "10.9.0.0/24", "2001:db8:9::/64")
	})
}
