// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"minne/internal/model/config"
)

// inside is an OSPF router of the campus: both versions, authenticated, with a network behind it.
func inside(v2key, v3key string) string {
	return fmt.Sprintf(`
router id 10.0.0.2;
protocol device {}
protocol bfd { interface "*" { interval 100 ms; multiplier 3; }; }
protocol direct { ipv4; ipv6; interface "lan"; }
protocol kernel { ipv4 { import none; export all; }; }
protocol kernel { ipv6 { import none; export all; }; }
protocol ospf v2 o2 { ipv4 { import all; export none; };
  area 0 { interface "to-r" { hello 1; dead 4; type ptp; bfd on; authentication cryptographic; password %q { id 7; algorithm keyed md5; }; };
           interface "lan" { stub; }; }; }
protocol ospf v3 o3 { ipv6 { import all; export none; };
  area 0 { interface "to-r" { hello 1; dead 4; type ptp; %s };
           interface "lan" { stub; }; }; }
`, v2key, v3key)
}

// insideNetwork makes the namespace of that router, linked to ours, with the network behind it.
func (l *lab) insideNetwork() {
	l.namespace("i")
	l.link("r", "i", "10.0.0.1/30 2001:db8:a::1/64", "10.0.0.2/30 2001:db8:a::2/64")
	l.run("ip", "-n", l.ns("i"), "link", "add", "lan", "type", "veth", "peer", "name", "lanp")
	l.run("ip", "-n", l.ns("i"), "addr", "add", "10.9.0.1/24", "dev", "lan")
	l.run("ip", "-n", l.ns("i"), "addr", "add", "2001:db8:9::1/64", "dev", "lan", "nodad")
	for _, dev := range []string{"lan", "lanp"} {
		l.run("ip", "-n", l.ns("i"), "link", "set", dev, "up")
	}
}

func campus(trailer bool) *config.Config {
	cfg := upstreams()
	iface := func(algorithm config.AuthAlgo) map[string]*config.OSPFInterface {
		return map[string]*config.OSPFInterface{
			"to-i": {Network: "point-to-point", Cost: 15, Hello: config.Duration(time.Second), Dead: config.Duration(4 * time.Second), BFD: on(),
				Auth: &config.OSPFAuth{KeyID: 7, Algorithm: algorithm, Secret: "ospf"}},
			"lo": {Passive: true},
		}
	}
	cfg.Routing.Static = []config.StaticRoute{{Prefix: prefix("172.20.0.0/16"), Blackhole: true}}
	cfg.Routing.OSPF = &config.OSPF{DefaultRoute: "bgp", DefaultMetric: 33, Redistribute: []config.Redistribute{"static", "connected"},
		Areas: map[config.AreaID]*config.OSPFArea{0: {Interfaces: iface("")}, 5: {Type: "nssa", Interfaces: map[string]*config.OSPFInterface{"to-b": nil}}}}
	cfg.Routing.OSPF3 = &config.OSPF{DefaultRoute: "bgp", Areas: map[config.AreaID]*config.OSPFArea{0: {Interfaces: iface("sha256")}}}
	if !trailer {
		cfg.Routing.OSPF3.Areas[0].Interfaces["to-i"].Auth = nil
	}
	return cfg
}

// authenticatesOSPFv3 says whether FRR is new enough for it; an older one must have refused it.
func (l *lab) authenticatesOSPFv3(secrets passwords) bool {
	l.t.Helper()
	err := l.router.Apply(context.Background(), l.render(campus(true), secrets))
	v, dialErr := dialVTY(context.Background(), ospf6d, l.host.socket(ospf6d))
	if dialErr != nil {
		l.t.Fatal(dialErr)
	}
	defer v.close()
	major, minor, versionErr := v.version(context.Background())
	if versionErr != nil {
		l.t.Fatal(versionErr)
	}
	l.t.Logf("FRR %d.%d", major, minor)
	if major > 9 || major == 9 && minor >= 1 {
		if err != nil {
			l.t.Fatal(err)
		}
		return true
	}
	if s := contains(fmt.Sprint(err), "needs FRR 9.1"); s != "" {
		l.t.Error(s)
	}
	return false
}

func TestOSPF(t *testing.T) {
	l := newLab(t)
	birdA, _ := l.upstreams("")
	l.insideNetwork()
	l.in("r", "ip", "route", "add", "blackhole", "172.20.0.0/16", "proto", "static", "metric", "1")
	l.in("r", "ip", "route", "add", "blackhole", "9.9.0.0/16", "proto", "static", "metric", fmt.Sprint(uint32(254<<24)))
	secrets := passwords{"isp-a": "s3cret", "ospf": "s3cret"}
	trailer := l.authenticatesOSPFv3(secrets)
	cfg := campus(trailer)
	if trailer {
		l.bird("i", inside("s3cret", `authentication cryptographic; password "s3cret" { id 7; algorithm hmac sha256; };`))
	} else {
		l.bird("i", inside("s3cret", ""))
	}
	l.apply(cfg, secrets)
	l.supervise()

	full := func() string {
		n, err := l.router.OSPFNeighbors(context.Background(), "")
		if err != nil {
			return err.Error()
		}
		return contains(fmt.Sprintf("%+v", n), "{Version:2 RouterID:10.0.0.2 Address:10.0.0.2 Interface:to-i State:Full",
			"{Version:3 RouterID:10.0.0.2 Address: Interface:to-i State:Full")
	}
	l.eventually("adjacencies", full)
	l.eventually("network behind, IPv4", func() string { return contains(l.routes("-4"), "10.9.0.0/24 nhid", "proto ospf") })
	l.eventually("network behind, IPv6", func() string { return contains(l.routes("-6"), "2001:db8:9::/64 nhid", "proto ospf") })
	told := func(family string) string { return l.in("i", "ip", family, "route") }
	l.eventually("static route told", func() string { return contains(told("-4"), "172.20.0.0/16 via 10.0.0.1") })
	if s := lacks(told("-4"), "9.9.0.0/16"); s != "" {
		t.Errorf("the blackhole of an announced prefix was told: %s", s)
	}

	// The default route is inside exactly while BGP holds one.
	l.eventually("default inside, IPv4", func() string { return contains(told("-4"), "default via 10.0.0.1") })
	l.eventually("default inside, IPv6", func() string { return contains(told("-6"), "default via fe80::") })
	l.in("r", "ip", "route", "add", "default", "via", "10.0.0.2", "metric", fmt.Sprint(250<<24), "proto", "static")
	birdA("disable", "r")
	l.eventually("no default inside without BGP, IPv4", func() string { return lacks(told("-4"), "default") })
	l.eventually("no default inside without BGP, IPv6", func() string { return lacks(told("-6"), "default") })
	birdA("enable", "r")
	l.eventually("default again, IPv4", func() string { return contains(told("-4"), "default via 10.0.0.1") })
	l.eventually("default again, IPv6", func() string { return contains(told("-6"), "default via fe80::") })

	// A cost changes without a reset; the preview of another key calls it a reset.
	cfg.Routing.OSPF.Areas[0].Interfaces["to-i"].Cost = 25
	changes, err := l.router.Plan(context.Background(), l.render(cfg, secrets))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(changes); got != "[~ OSPF cost on to-i: 15 → 25]" {
		t.Errorf("preview of a cost: %s", got)
	}
	l.apply(cfg, secrets)
	if s := full(); s != "" {
		t.Errorf("a cost has reset an adjacency: %s", s)
	}
	changes, err = l.router.Plan(context.Background(), l.render(cfg, passwords{"isp-a": "s3cret", "ospf": "other"}))
	if err != nil {
		t.Fatal(err)
	}
	preview := fmt.Sprint(changes)
	if s := contains(preview, "OSPF adjacency on to-i resets"); s != "" {
		t.Error(s)
	}
	if strings.Contains(preview, "OSPFv3 adjacency on to-i resets") != trailer {
		t.Errorf("preview: %s", preview)
	}
	if s := lacks(preview, "other", "s3cret", "BGP"); s != "" {
		t.Error(s)
	}

	// With another key on our side only, both adjacencies go; back with the right one.
	l.apply(cfg, passwords{"isp-a": "s3cret", "ospf": "other"})
	l.eventually("a wrong key ends adjacencies", func() string {
		if trailer {
			return lacks(l.routes("-4")+l.routes("-6"), "10.9.0.0/24", "2001:db8:9::/64")
		}
		return lacks(l.routes("-4"), "10.9.0.0/24")
	})
	l.apply(cfg, secrets)
	l.eventually("adjacencies again", full)

	// Begun anew by a word.
	if got, err := l.router.ClearOSPF(context.Background(), ""); err != nil || fmt.Sprint(got) != "[OSPFv2 OSPFv3]" {
		t.Errorf("clear: %v %v", got, err)
	}
	l.eventually("adjacencies end", func() string {
		if full() == "" {
			return "still full"
		}
		return ""
	})
	l.eventually("adjacencies after a clear", full)

	// ospfd and ospf6d come back from a crash.
	l.kill(ospfd)
	l.kill(ospf6d)
	l.eventually("routes after a crash", func() string {
		return contains(l.routes("-4")+l.routes("-6"), "10.9.0.0/24 nhid", "2001:db8:9::/64 nhid")
	})
	l.eventually("adjacencies after a crash", full)

	// Other settings of all kinds are taken, and taken back.
	plain := campus(trailer)
	plain.Routing.OSPF.DefaultRoute, plain.Routing.OSPF3.DefaultRoute = "always", "always"
	plain.Routing.OSPF.Redistribute = []config.Redistribute{"bgp"}
	plain.Routing.OSPF.ReferenceBandwidth, plain.Routing.OSPF3.ReferenceBandwidth = 10e9, 10e9
	plain.Routing.OSPF.GracefulRestart = off()
	plain.Routing.OSPF.Areas[5].Type = "stub"
	plain.Routing.OSPF.Areas[0].Interfaces["to-i"] = &config.OSPFInterface{Priority: new(int), Hello: config.Duration(5 * time.Second)}
	plain.Routing.OSPF3.Areas[0].Interfaces["to-i"] = &config.OSPFInterface{Priority: new(int), Dead: config.Duration(50 * time.Second)}
	if trailer {
		plain.Routing.OSPF3.Areas[0].Interfaces["to-i"].Auth = &config.OSPFAuth{KeyID: 9, Algorithm: "md5", Secret: "ospf"}
	}
	l.apply(plain, secrets)
	moved := campus(trailer)
	moved.System.RouterID = addr("192.0.2.77")
	moved.Routing.OSPF.Areas[6] = &config.OSPFArea{Interfaces: moved.Routing.OSPF.Areas[5].Interfaces}
	delete(moved.Routing.OSPF.Areas, 5)
	l.apply(moved, secrets)
	l.apply(cfg, secrets)
	l.eventually("adjacencies after changes", full)
	// zebra is too busy to work off what ospfd says before it ends.
	busy := l.pids(zebra)[zebra]
	if err := syscall.Kill(busy, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { _ = syscall.Kill(busy, syscall.SIGCONT) }) // it is there as long as the test
	ospf := cfg.Routing.OSPF
	cfg.Routing.OSPF = nil
	l.apply(cfg, secrets)
	l.eventually("no routes of OSPFv2 outlive it", func() string { return lacks(l.routes("-4"), "proto ospf") })

	// A daemon that ends before it has learned again what it told before a crash does not withdraw it.
	cfg.Routing.OSPF = ospf
	l.apply(cfg, secrets)
	l.eventually("routes anew", func() string { return contains(l.routes("-4"), "10.9.0.0/24 nhid") })
	old := l.pids(ospfd)[ospfd]
	l.kill(ospfd)
	l.eventually("ospfd runs again", func() string {
		if now := l.pids(ospfd)[ospfd]; now == 0 || now == old {
			return fmt.Sprint(old, now)
		}
		return ""
	})
	cfg.Routing.OSPF = nil
	l.apply(cfg, secrets)
	l.eventually("no held routes of OSPFv2 outlive it", func() string { return lacks(l.routes("-4"), "proto ospf") })
}
