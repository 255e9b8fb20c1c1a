// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"minne/internal/base/health"
	"minne/internal/model/config"
)

// birdPeer is the configuration of an upstream that tells routes over one session.
func birdPeer(routerID, local, remote string, as int, extra, routes4, routes6 string) string {
	return fmt.Sprintf(`
router id %s;
protocol device {}
protocol bfd { interface "*" { interval 100 ms; multiplier 3; }; multihop { interval 100 ms; multiplier 3; }; }
protocol static s4 { ipv4; %s }
protocol static s6 { ipv6; %s }
protocol bgp r { local %s as %d; neighbor %s as 64500; connect delay time 1; connect retry time 2; error wait time 1, 2; %s
  ipv4 { import all; export all; }; ipv6 { import all; export all; }; }
`, routerID, routes4, routes6, local, as, remote, extra)
}

// upstreams is a router with two ISPs, both families over one session each.
func upstreams() *config.Config {
	both := []config.Family{"ipv4", "ipv6"}
	cfg := &config.Config{System: config.System{RouterID: addr("192.0.2.1")}}
	cfg.Routing.BGP = &config.BGP{ASN: 64500, Announce: []config.Prefix{prefix("9.9.0.0/16"), prefix("2a00:9::/32")},
		Peers: map[string]*config.BGPPeer{
			"isp-a": {Address: addr("192.0.2.2"), ASN: 64501, Families: both, Password: "isp-a", Description: "fibre | north",
				Import: config.BGPImport{Preference: 200}},
			"isp-b": {Address: addr("198.51.100.2"), ASN: 64502, Families: both, HoldTime: config.Duration(9 * time.Second)},
		}}
	return cfg
}

var upstreamSecrets = passwords{"isp-a": "s3cret"}

func (l *lab) upstreams(extraA string) (a, b func(...string) string) {
	l.namespace("a")
	l.namespace("b")
	l.link("r", "a", "192.0.2.1/24 2001:db8:1::1/64", "192.0.2.2/24 2001:db8:1::2/64")
	l.link("r", "b", "198.51.100.1/24 2001:db8:2::1/64", "198.51.100.2/24 2001:db8:2::2/64")
	a = l.bird("a", birdPeer("192.0.2.2", "192.0.2.2", "192.0.2.1", 64501, `password "s3cret"; `+extraA,
		"route 1.2.0.0/16 blackhole; route 4.4.0.0/16 blackhole; route 0.0.0.0/0 blackhole; route 10.1.0.0/16 blackhole; route 5.5.5.128/25 blackhole;",
		"route 2a01:1::/32 blackhole; route ::/0 blackhole; route 2001:db8:5::/48 blackhole; route fd00::/16 blackhole;"))
	b = l.bird("b", birdPeer("198.51.100.2", "198.51.100.2", "198.51.100.1", 64502, "",
		"route 1.2.0.0/16 blackhole; route 6.6.0.0/16 blackhole { bgp_path.prepend(64666); };", "route 2a01:1::/32 blackhole;"))
	return a, b
}

func (l *lab) via(family, prefix, dev string) func() string {
	return func() string {
		return contains(l.in("r", "ip", family, "route", "show", "exact", prefix), "dev "+dev, "proto bgp")
	}
}

// established returns how often the session has been established, and whether it is now.
func (l *lab) established(peer string) (times uint64, up bool) {
	l.t.Helper()
	s, err := l.router.BGPSummary(context.Background(), "")
	if err != nil {
		l.t.Fatal(err)
	}
	for _, p := range s.Peers {
		if p.Name == peer {
			return p.Established, p.State == "Established"
		}
	}
	return 0, false // bgpd has just started
}

func TestBGPTwoUpstreams(t *testing.T) {
	l := newLab(t)
	birdA, birdB := l.upstreams("")
	cfg := upstreams()
	d := l.apply(cfg, upstreamSecrets)
	l.supervise()

	// The preferred upstream carries what both tell; each carries what only it tells.
	l.eventually("preferred upstream", l.via("-4", "1.2.0.0/16", "to-a"))
	l.eventually("preferred upstream", l.via("-6", "2a01:1::/32", "to-a"))
	l.eventually("default route", l.via("-4", "default", "to-a"))
	l.eventually("session b", func() string { _, up := l.established("isp-b"); return map[bool]string{false: "down"}[up] })
	if s := lacks(l.routes("-4")+l.routes("-6"), "10.1.0.0", "5.5.5.128", "6.6.0.0", "2001:db8:5::", "fd00::/16"); s != "" {
		t.Errorf("bogons: %s", s)
	}
	// Own prefixes only: nothing of A reaches B, nothing of B reaches A.
	for name, bird := range map[string]func(...string) string{"a": birdA, "b": birdB} {
		l.eventually("own routes at "+name, func() string {
			return contains(bird("show", "route", "protocol", "r"), "9.9.0.0/16", "2a00:9::/32")
		})
		if s := lacks(bird("show", "route", "protocol", "r"), "4.4.0.0/16", "1.2.0.0/16", "2a01:1::/32"); s != "" {
			t.Errorf("transit at %s: %s", name, s)
		}
	}

	// Another preference moves the routes without touching a session, and the preview says so.
	cfg.Routing.BGP.Peers["isp-b"].Import.Preference = 300
	changes, err := l.router.Plan(context.Background(), l.render(cfg, upstreamSecrets))
	if err != nil {
		t.Fatal(err)
	}
	preview := fmt.Sprint(changes)
	if s := contains(preview, "BGP import from isp-b: 100 → 300", "the session stays"); s != "" || strings.Contains(preview, "resets") {
		t.Errorf("preview: %v", preview)
	}
	if s := fmt.Sprint(between(d, l.render(cfg, upstreamSecrets))); s != preview {
		t.Errorf("effects without FRR: %s\nplan with FRR: %s", s, preview)
	}
	before := l.router.Commands()
	l.apply(cfg, upstreamSecrets)
	t.Logf("a preference took %d commands", l.router.Commands()-before)
	l.eventually("new preference", l.via("-4", "1.2.0.0/16", "to-b"))
	l.eventually("new preference", l.via("-6", "2a01:1::/32", "to-b"))
	for _, peer := range []string{"isp-a", "isp-b"} {
		if n, up := l.established(peer); n != 1 || !up {
			t.Errorf("%s: established %d times, up %v; a preference must not reset it", peer, n, up)
		}
	}

	// B fails: its routes move to A.
	l.in("b", "ip", "link", "set", "to-r", "down")
	l.eventually("failover", l.via("-4", "1.2.0.0/16", "to-a"))
	l.eventually("failover", l.via("-6", "2a01:1::/32", "to-a"))

	// Another AS number and password of B's make a new peer; the preview calls it a reset.
	cfg.Routing.BGP.Peers["isp-b"].ASN = 64503
	cfg.Routing.BGP.Peers["isp-a"].Password = ""
	changes, err = l.router.Plan(context.Background(), l.render(cfg, upstreamSecrets))
	if err != nil {
		t.Fatal(err)
	}
	if s := contains(fmt.Sprint(changes), "BGP session isp-b resets", "BGP session isp-a resets"); s != "" {
		t.Error(s)
	}
	l.apply(cfg, upstreamSecrets)

	// A hand at vtysh is noticed and undone.
	v, err := dialVTY(context.Background(), bgpd, l.host.socket(bgpd))
	if err != nil {
		t.Fatal(err)
	}
	defer v.close()
	if _, err := v.configure(context.Background(), []string{"router bgp 64500", "no neighbor 192.0.2.2", "exit"}); err != nil {
		t.Fatal(err)
	}
	l.apply(cfg, upstreamSecrets)
	if s := contains(fmt.Sprint(l.running(bgpd)), "neighbor 192.0.2.2 remote-as 64501"); s != "" {
		t.Error(s)
	}

	// No BGP: nothing runs and nothing is left.
	cfg.Routing.BGP = nil
	l.apply(cfg, nil)
	if s := lacks(l.routes("-4")+l.routes("-6"), "bgp"); s != "" {
		t.Error(s)
	}
	for _, daemon := range startOrder {
		if p, err := l.host.find(daemon); p != nil || err != nil {
			t.Errorf("%s runs without need (%v)", daemon, err)
		}
	}
}

// running returns all lines of a daemon's running configuration.
func (l *lab) running(daemon string) []string {
	l.t.Helper()
	n, err := l.router.running(context.Background(), daemon)
	if err != nil {
		l.t.Fatal(err)
	}
	return flat(n)
}

// BGP for each family over a session of its own, a prefix limit, a wrong password, BFD.
func TestBGPSessionsApart(t *testing.T) {
	l := newLab(t)
	for _, n := range []string{"a", "b", "c", "d"} {
		l.namespace(n)
	}
	l.link("r", "d", "10.0.0.1/24", "10.0.0.2/24")
	l.link("r", "a", "192.0.2.1/24 2001:db8:1::1/64", "192.0.2.2/24 2001:db8:1::2/64")
	l.link("r", "b", "198.51.100.1/24", "198.51.100.2/24")
	l.link("r", "c", "203.0.113.1/24", "203.0.113.2/24")
	birdA := l.bird("a", `
router id 192.0.2.2;
protocol device {}
protocol bfd { interface "*" { interval 100 ms; multiplier 3; }; }
protocol static s4 { ipv4; route 1.2.0.0/16 blackhole; }
protocol static s6 { ipv6; route 2a01:1::/32 blackhole; }
protocol bgp r4 { local 192.0.2.2 as 64501; neighbor 192.0.2.1 as 64500; connect delay time 1; connect retry time 2; error wait time 1, 2; bfd on; ipv4 { import all; export all; }; }
protocol bgp r6 { local 2001:db8:1::2 as 64501; neighbor 2001:db8:1::1 as 64500; connect delay time 1; connect retry time 2; error wait time 1, 2; bfd on; ipv6 { import all; export all; }; }
`)
	l.bird("b", birdPeer("198.51.100.2", "198.51.100.2", "198.51.100.1", 64502, "",
		"route 11.0.0.0/16 blackhole; route 11.1.0.0/16 blackhole; route 11.2.0.0/16 blackhole;", ""))
	l.bird("c", birdPeer("203.0.113.2", "203.0.113.2", "203.0.113.1", 64503, `password "theirs";`, "route 12.0.0.0/16 blackhole;", ""))
	birdD := l.bird("d", birdPeer("10.0.0.2", "10.0.0.2", "10.0.0.1", 64500, "", "route 10.66.0.0/16 blackhole;", ""))
	cfg := &config.Config{System: config.System{RouterID: addr("192.0.2.1")}}
	cfg.Routing.BGP = &config.BGP{ASN: 64500, Announce: []config.Prefix{prefix("9.9.0.0/16"), prefix("2a00:9::/32")},
		Multipath: 4, RestartTime: config.Duration(90 * time.Second),
		Peers: map[string]*config.BGPPeer{
			"a4": {Address: addr("192.0.2.2"), ASN: 64501, BFD: on(), Source: addr("192.0.2.1"),
				Export: config.BGPExport{Routes: "own", Prepend: 2, MED: 70}},
			"a6": {Address: addr("2001:db8:1::2"), ASN: 64501, BFD: on(), Import: config.BGPImport{Accept: []config.Prefix{prefix("2a00::/12")}},
				Export: config.BGPExport{Routes: "default"}},
			"core": {Address: addr("10.0.0.2"), ASN: 64500},
			"b": {Address: addr("198.51.100.2"), ASN: 64502, Export: config.BGPExport{Routes: "default"},
				Import: config.BGPImport{MaxPrefixes: &config.PrefixLimit{IPv4: 2}}},
			"c": {Address: addr("203.0.113.2"), ASN: 64503, Password: "c", Multihop: 255, Passive: true},
			"d": {Address: addr("203.0.113.9"), ASN: 64500, Disabled: true},
			"e": {Address: addr("fe80::9"), Interface: "to-c", ASN: 64504, Families: []config.Family{"ipv4", "ipv6"}},
		}}
	secrets := passwords{"c": "ours"}
	l.apply(cfg, secrets)
	l.supervise()
	l.eventually("IPv4", l.via("-4", "1.2.0.0/16", "to-a"))
	l.eventually("IPv6", l.via("-6", "2a01:1::/32", "to-a"))
	l.eventually("prepended, with MED", func() string {
		return contains(birdA("show", "route", "9.9.0.0/16", "all"), "64500 64500 64500", "BGP.med: 70")
	})
	l.eventually("default route told, nothing else", func() string {
		told := birdA("show", "route", "protocol", "r6")
		if s := lacks(told, "2a00:9::/32"); s != "" {
			return s
		}
		return contains(told, "::/0")
	})
	l.eventually("internal peer: all routes, by us", func() string {
		return contains(birdD("show", "route", "1.2.0.0/16", "all", "protocol", "r"), "BGP.next_hop: 10.0.0.1", "BGP.local_pref: 100", "BGP.as_path: 64501\n")
	})
	l.eventually("internal peer's private prefix is no bogon", l.via("-4", "10.66.0.0/16", "to-d"))
	l.eventually("BFD", func() string {
		n, err := l.router.BGPNeighbors(context.Background(), "")
		if err != nil {
			return err.Error()
		}
		return contains(fmt.Sprintf("%+v", n), "BFD:Up")
	})
	l.eventually("prefix limit ends the session", func() string {
		n, err := l.router.BGPNeighbors(context.Background(), "")
		if err != nil {
			return err.Error()
		}
		for _, p := range n {
			if p.Name == "b" && p.State != "Established" && p.LastReset != "" {
				return ""
			}
		}
		return fmt.Sprintf("%+v", n)
	})
	l.eventually("its routes go", func() string { return lacks(l.routes("-4"), "11.0.0.0", "11.1.0.0", "11.2.0.0") })
	if n, up := l.established("c"); n != 0 || up {
		t.Error("a session came up with different passwords")
	}
	// The link stays up but nothing comes through: only BFD notices within the hold time of 90 s.
	l.in("a", "nft", "add table ip x; add chain ip x i { type filter hook input priority 0; policy drop; }")
	l.eventually("BFD takes the session down", func() string {
		return lacks(l.in("r", "ip", "-4", "route", "show", "exact", "1.2.0.0/16"), "1.2.0.0")
	})
}

// deletions watches the kernel for a protocol's routes that vanish.
func (l *lab) deletions(proto string) (seen func() []string) {
	l.t.Helper()
	cmd := exec.Command("ip", "-n", l.ns("r"), "monitor", "route")
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	var mu sync.Mutex
	var gone []string
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			if strings.HasPrefix(s.Text(), "Deleted ") && strings.Contains(s.Text(), "proto "+proto) {
				mu.Lock()
				gone = append(gone, s.Text())
				mu.Unlock()
			}
		}
	}()
	l.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return func() []string { mu.Lock(); defer mu.Unlock(); return append([]string{}, gone...) }
}

// bgpd and zebra are killed: no route leaves the kernel, the peer keeps ours, and all is well again afterwards.
func TestBGPSurvivesCrashes(t *testing.T) {
	l := newLab(t)
	birdA, _ := l.upstreams("graceful restart on;")
	cfg := upstreams()
	l.apply(cfg, upstreamSecrets)
	stop := l.supervise()
	l.eventually("routes", l.via("-4", "4.4.0.0/16", "to-a"))
	l.eventually("routes", l.via("-6", "2a01:1::/32", "to-a"))
	l.eventually("own routes", func() string { return contains(birdA("show", "route"), "9.9.0.0/16") })
	l.eventually("End-of-RIB", func() string { return contains(birdA("show", "protocols", "all", "r"), "Established") })
	l.deferral(true)
	gone := l.deletions("bgp")

	lost := make(chan struct{})
	watching := make(chan struct{})
	go func() { // the peer must have our route all the time
		defer close(watching)
		for {
			select {
			case <-lost:
				return
			case <-time.After(50 * time.Millisecond):
				if s := birdA("show", "route", "9.9.0.0/16"); !strings.Contains(s, "9.9.0.0/16") {
					t.Errorf("the peer lost our route: %s", s)
					return
				}
			}
		}
	}()
	restarted := func(daemon string) {
		old, err := l.host.find(daemon)
		if err != nil || old == nil {
			t.Fatalf("%s: %v", daemon, err)
		}
		old.Close()
		l.kill(daemon)
		l.eventually(daemon+" runs again", func() string {
			p, err := l.host.find(daemon)
			if err != nil || p == nil || p.PID == old.PID {
				return fmt.Sprint("not yet ", err)
			}
			p.Close()
			return contains(l.ask(daemon, "show version"), "FRRouting") // the pid file is there before the socket
		})
	}
	restarted(bgpd)
	l.eventually("session again", func() string {
		n, up := l.established("isp-a")
		return map[bool]string{false: fmt.Sprint(n, up)}[up]
	})
	l.deferral(false)
	time.Sleep(2 * time.Second) // deferral of the best path: routes come back by End-of-RIB
	l.eventually("routes", l.via("-4", "4.4.0.0/16", "to-a"))
	ranks, err := l.router.Ranks(context.Background(), "", false, "bgp")
	if err != nil || ranks[prefix("4.4.0.0/16").Prefix] != (Rank{Distance: 20}) {
		t.Errorf("ranks %v, error %v; expected distance 20, metric 0", ranks, err)
	}
	close(lost)
	<-watching
	if g := gone(); len(g) > 0 {
		t.Errorf("kernel routes lost when bgpd died: %v", g)
	}

	restarted(zebra)
	l.eventually("zebra has the routes again", func() string {
		routes, err := l.router.Route(context.Background(), "", prefix("4.4.0.0/16").Prefix, false)
		if err != nil {
			return err.Error()
		}
		return contains(fmt.Sprintf("%+v", routes), "Protocol:bgp", "Installed:true")
	})
	if g := gone(); len(g) > 0 {
		t.Errorf("kernel routes lost when zebra died: %v", g)
	}
	l.eventually("bgpd speaks to the new zebra", func() string {
		v, err := dialVTY(context.Background(), zebra, l.host.socket(zebra))
		if err != nil {
			return err.Error()
		}
		defer v.close()
		clients, err := v.command(context.Background(), "show zebra client summary")
		return contains(fmt.Sprint(clients, err), "bgp")
	})
	// What zebra found in the kernel has the kernel's metric. Routes that are not told again go when its time to confirm is over.
	l.eventually("bgpd tells all routes again", func() (said string) {
		for _, p := range []string{"4.4.0.0/16", "1.2.0.0/16", "2a01:1::/32", "::/0"} {
			routes, err := l.router.Route(context.Background(), "", prefix(p).Prefix, false)
			said += contains(fmt.Sprintf("%+v %v", routes, err), "Protocol:bgp", "Metric:0")
		}
		return said
	})
	birdA("disable", "s4") // zebra and bgpd are one again when a withdrawal reaches the kernel
	l.eventually("withdrawal reaches the kernel", func() string { return lacks(l.routes("-4"), "4.4.0.0/16") })
	birdA("enable", "s4")
	l.eventually("route again", l.via("-4", "4.4.0.0/16", "to-a"))
	for _, g := range gone() {
		if !strings.Contains(g, "4.4.0.0/16") && !strings.Contains(g, "Deleted default nhid") && !strings.Contains(g, "1.2.0.0/16") {
			t.Errorf("kernel route lost after zebra came back: %s", g)
		}
	}

	// The supervisor dies; its successor adopts the daemons and sends nothing.
	stop()
	l.router = newRouting(l.host, health.NewBook(l.logger()), l.logger())
	if err := l.router.Apply(context.Background(), l.render(cfg, upstreamSecrets)); err != nil {
		t.Fatal(err)
	}
	if n := l.router.Commands(); n != 0 {
		t.Errorf("adoption sent %d commands", n)
	}
	l.deferral(false)
	l.supervise()
	restarted(bgpd) // and notices their end though they are no children
	l.eventually("configured again", func() string {
		s, err := l.router.BGPSummary(context.Background(), "")
		if err != nil || len(s.Peers) != 2 {
			return fmt.Sprint(s, err)
		}
		return ""
	})
}

// Every golden configuration is taken by the installed FRR exactly as written, from any other one.
func TestGoldenIsTaken(t *testing.T) {
	l := newLab(t)
	secrets := passwords{"isp-a": "s3cret", "ospf": "0spfkey"}
	var configs []*config.Config
	for _, name := range []string{"border", "inside", "border"} {
		file := "testdata/golden/" + name + ".yaml"
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse(file, data)
		if err != nil {
			t.Fatal(err)
		}
		configs = append(configs, cfg)
	}
	if !l.authenticatesOSPFv3(secrets) {
		for _, cfg := range configs {
			if cfg.Routing.OSPF3 != nil {
				cfg.Routing.OSPF3.Areas[0].Interfaces["lan"].Auth = nil
			}
		}
	}
	for _, cfg := range configs {
		d := l.apply(cfg, secrets)
		if changes, err := l.router.Plan(context.Background(), d); err != nil || len(changes) > 0 {
			t.Errorf("plan of what runs: %v, %v", changes, err)
		}
		text, err := os.ReadFile(l.host.confFile())
		if err != nil || string(text) != d.Text() {
			t.Errorf("frr.conf: %v", err)
		}
		if info, err := os.Stat(l.host.confFile()); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("frr.conf: %v %v", info.Mode(), err)
		}
	}
}
