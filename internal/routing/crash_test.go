// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"minne/internal/config"
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

// gone is a check for eventually: none of the daemons runs.
func (l *lab) gone(daemons ...string) func() string {
	return func() string {
		if left := l.pids(daemons...); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	}
}

// accepted is a check for eventually: the session is up, with routes that it accepted.
func (l *lab) accepted(want uint64) func() string {
	return func() string {
		peers, err := l.router.BGPNeighbors(context.Background())
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
	l.apply(cfg, nil)
	for _, daemon := range []string{bgpd, zebra} {
		l.kill(daemon)
	}
	l.eventually("both are gone", l.gone(bgpd, zebra))
	if err := l.router.ensure(context.Background(), bgpd); err == nil || !strings.Contains(err.Error(), "bgpd waits for zebra") {
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
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
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
