// SPDX-License-Identifier: Apache-2.0

package uml

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/routing"
)

// customers is a router with a BGP peer in the main table and in each of two VRFs, which have the same addresses; in red
// also OSPF, OSPFv3 and BFD. Every network of a peer has 11.1.0.0/16: who answers there tells which table was asked.
const customers = `
      version: 1
      system: {router-id: 192.0.2.1}
      interfaces:
        up0: {addresses: [192.0.2.1/24]}
        red: {vrf: {table: 100, interfaces: [up1, in1]}}
        up1: {addresses: [198.51.100.1/24, "2001:db8:1::1/64"]}
        in1: {addresses: [10.0.0.1/24, "2001:db8:2::1/64"]}
        blue: {vrf: {table: 101, interfaces: [up2, in2]}}
        up2: {addresses: [198.51.100.1/24, "2001:db8:1::1/64"]}
        in2: {addresses: [10.0.0.1/24, "2001:db8:2::1/64"]}
      routing:
        bgp:
          asn: 64500
          bogons: accept
          announce: [9.9.0.0/16]
          peers: {isp: {address: 192.0.2.2, asn: 64501, import: {accept: [11.0.0.0/8]}}}
        vrfs:
          red:
` + redBGP + `            ospf: {default-route: bgp, areas: {0: {interfaces: {in1: {network: point-to-point, hello: 1s, dead: 4s}}}}}
            ospf3: {default-route: always, areas: {0: {interfaces: {in1: {network: point-to-point, hello: 1s, dead: 4s}}}}}
          blue:
            router-id: 192.0.2.9
            bgp:
              asn: 64600
              bogons: accept
              announce: [10.0.0.0/16]
              peers: {isp: {address: 198.51.100.2, asn: 64502}}
      fast-path: {mode: generic}
`

// redBGP is BGP in red.
const redBGP = `            bgp:
              asn: 64500
              bogons: accept
              announce: [10.0.0.0/16, "2001:db8:2::/48"]
              peers: {isp: {address: 198.51.100.2, asn: 64501, families: [ipv4, ipv6], bfd: on}}
`

// upstream is a BGP peer of another make.
const upstream = `
      router id 198.51.100.2;
      protocol device {}
      protocol bfd { interface "*" { interval 300 ms; multiplier 5; }; }
      protocol kernel { ipv4 { import none; export all; }; }
      protocol kernel { ipv6 { import none; export all; }; }
      protocol static { ipv4; route 11.1.0.0/16 blackhole; ROUTES }
      protocol static { ipv6; route 2001:db8:b::/48 blackhole; }
      protocol bgp r { local LOCAL as ASN; neighbor PEER; connect delay time 1; connect retry time 2; error wait time 1, 2; BFD
        ipv4 { import all; export where source = RTS_STATIC; next hop self; }; IPV6 }
`

// customersNetwork puts the router between its neighbours. Addresses that are there twice are the nodes' own affair.
func customersNetwork(config string) string {
	node := func(name, addresses, conf string) string {
		prepare := "\n      ip link add lan type veth peer name out\n      ip link set lan up\n      ip link set out up"
		for line := range strings.Lines(addresses) {
			prepare += "\n      ip address add " + strings.TrimSpace(line)
		}
		return fmt.Sprintf("\n  %s:\n    runs: bird\n    prepare: |%s\n    config: |%s", name, prepare, conf)
	}
	isp := func(local, asn, peer, routes, bfd, six string) string {
		return strings.NewReplacer("LOCAL", local, "ASN", asn, "PEER", peer, "ROUTES", routes, "BFD", bfd, "IPV6", six).Replace(upstream)
	}
	return "version: 1\nnodes:" +
		node("isp0", "192.0.2.2/24 dev eth0\n11.1.0.1/32 dev lo", isp("192.0.2.2", "64501", "192.0.2.1 as 64500", "", "", "")) +
		node("isp1", "198.51.100.2/24 dev eth0\n2001:db8:1::2/64 dev eth0 nodad\n11.1.0.1/32 dev lo\n11.2.0.1/32 dev lo\n2001:db8:b::1/128 dev lo",
			isp("198.51.100.2", "64501", "198.51.100.1 as 64500", "route 0.0.0.0/0 blackhole; route 11.2.0.0/16 blackhole;", "bfd on;",
				"ipv6 { import all; export where source = RTS_STATIC; next hop address 2001:db8:1::2; };")) +
		node("isp2", "198.51.100.2/24 dev eth0\n11.1.0.1/32 dev lo\n11.3.0.1/32 dev lo", isp("198.51.100.2", "64502", "198.51.100.1 as 64600", "route 11.3.0.0/16 blackhole;", "", "")) +
		node("core", "10.0.0.2/24 dev eth0\n2001:db8:2::2/64 dev eth0 nodad\n10.0.9.1/24 dev lan\n2001:db8:2:9::1/64 dev lan nodad", core) + `
  host:
    runs: host
    prepare: |
      ip address add 10.0.0.2/24 dev eth0
      ip route add default via 10.0.0.1
  router:
    runs: minne
    machine: uml
    config: |` + config + `
links:
  - {ends: [isp0.eth0, router.up0]}
  - {ends: [isp1.eth0, router.up1]}
  - {ends: [isp2.eth0, router.up2]}
  - {ends: [core.eth0, router.in1]}
  - {ends: [host.eth0, router.in2]}
`
}

// core is a router behind red, with networks of its own.
const core = `
      router id 10.0.0.2;
      protocol device {}
      protocol kernel { ipv4 { import none; export filter { krt_prefsrc = 10.0.9.1; accept; }; }; }
      protocol kernel { ipv6 { import none; export filter { krt_prefsrc = 2001:db8:2:9::1; accept; }; }; }
      protocol ospf v2 { ipv4 { import all; }; area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; interface "lan" { stub; }; }; }
      protocol ospf v3 { ipv6 { import all; }; area 0 { interface "eth0" { type ptp; hello 1; dead 4; }; interface "lan" { stub; }; }; }
`

// TestRoutingInVRFs has BGP, BFD, OSPF and OSPFv3 work in VRFs that have the same addresses: routes are in their own table and
// nowhere else, outlive crashes of the daemons, and go with what told them.
func TestRoutingInVRFs(t *testing.T) {
	b := build(t, customersNetwork(customers))
	tables := map[string][]string{
		"main": {"11.1.0.0/16 via 192.0.2.2 dev up0 proto bgp", "blackhole 9.9.0.0/16 proto static"},
		"red": {"default via 198.51.100.2 dev up1 proto bgp", "unreachable default proto static metric 4278198272", "11.1.0.0/16 via 198.51.100.2 dev up1 proto bgp",
			"11.2.0.0/16 via 198.51.100.2 dev up1 proto bgp", "10.0.9.0/24 via 10.0.0.2 dev in1 proto ospf", "blackhole 10.0.0.0/16 proto static",
			"2001:db8:b::/48 via fe80:", "dev up1 proto bgp", "2001:db8:2:9::/64 via fe80:", "dev in1 proto ospf", "unreachable default dev lo proto static"},
		"blue": {"11.1.0.0/16 via 198.51.100.2 dev up2 proto bgp", "11.3.0.0/16 via 198.51.100.2 dev up2 proto bgp",
			"unreachable default proto static metric 4278198272", "blackhole 10.0.0.0/16 proto static"},
	}
	strange := map[string][]string{"main": {"11.2.", "11.3.", "10.0.9.", "dev up1", "dev in1", "dev up2"}, "red": {"9.9.", "11.3.", "up0", "up2"}, "blue": {"11.2.", "9.9.", "10.0.9.", "proto ospf", "up1"}}
	have := func(counts func(route string) bool) error {
		for table, want := range tables {
			want = slices.DeleteFunc(slices.Clone(want), func(route string) bool { return !counts(route) })
			if err := lines(b.table(t, table), want, strange[table]); err != nil {
				return fmt.Errorf("table %s: %w", table, err)
			}
		}
		return nil
	}
	all := func() error { return have(func(string) bool { return true }) }
	b.until(t, "all tables have their routes, and no others", all)

	b.reach(t, "core", "11.2.0.1", true)
	b.reach(t, "core", "2001:db8:b::1", true)
	b.reach(t, "core", "11.3.0.1", false)
	b.reach(t, "host", "11.3.0.1", true)
	b.reach(t, "host", "11.1.0.1", true)
	b.reach(t, "host", "11.2.0.1", false)
	b.reach(t, "host", "10.0.9.1", false)
	b.views(t)
	b.changesNothing(t)

	// Crashes: nothing of a table is lost. OSPF's routes come back: zebra holds them for two minutes from the daemon's start on,
	// which a slow machine may need to get here.
	held := func() error {
		return have(func(route string) bool {
			return !strings.Contains(route, "proto ospf") && !strings.HasPrefix(route, "2001:db8:2:9:")
		})
	}
	b.until(t, "the routes of the adjacencies that were cleared", all)
	b.run(t, "router", "sh", "-c", "ip monitor route >/run/monitor 2>&1 &")
	for _, die := range [][]string{{"bgpd", "ospfd", "ospf6d"}, {"zebra"}} {
		for _, daemon := range die {
			b.crash(t, daemon)
		}
		b.until(t, "sessions and adjacencies after a crash", func() error { return b.sessions(t, "red", "blue", "") })
		if err := held(); err != nil && die[0] != "zebra" {
			t.Errorf("after a crash of %v: %v", die, err)
		}
		if die[0] == "zebra" {
			b.until(t, "the new zebra is told all routes", func() error { return b.told(t) })
		}
		b.until(t, "all routes", all)
		for line := range strings.Lines(b.run(t, "router", "cat", "/run/monitor")) {
			// bgpd and bfdd lose each other with zebra: the session that BFD watches begins anew.
			watched := die[0] == "zebra" && strings.Contains(line, "dev up1 ")
			if strings.HasPrefix(line, "Deleted ") && strings.Contains(line, "proto bgp") && !watched {
				t.Errorf("lost in a crash of %v: %s", die, line)
			}
		}
		b.run(t, "router", "sh", "-c", "echo >/run/monitor")
	}

	// One VRF's BGP goes, with its routes and no others.
	without := strings.Replace(customers, redBGP, "", 1)
	without = strings.Replace(without, "default-route: bgp", "default-route: never", 1)
	b.says(t, "apply "+b.write(t, without), "BGP AS 64500 in VRF red")
	b.until(t, "red is without BGP", func() error {
		return lines(b.table(t, "red"), []string{"10.0.9.0/24 via 10.0.0.2 dev in1 proto ospf", "unreachable default proto static metric 4278198272"}, []string{"proto bgp", "blackhole"})
	})
	for line := range strings.Lines(b.run(t, "router", "cat", "/run/monitor")) {
		if strings.HasPrefix(line, "Deleted ") && (strings.Contains(line, "up2") || strings.Contains(line, "up0")) {
			t.Errorf("it took a route of another table: %s", line)
		}
	}

	// The VRF goes, and comes back.
	gone := strings.Replace(without, "        red: {vrf: {table: 100, interfaces: [up1, in1]}}\n", "", 1)
	gone = strings.Replace(gone, "        up1: {addresses: [198.51.100.1/24, \"2001:db8:1::1/64\"]}\n        in1: {addresses: [10.0.0.1/24, \"2001:db8:2::1/64\"]}\n", "", 1)
	cut := strings.Index(gone, "          red:\n")
	gone = gone[:cut] + gone[strings.Index(gone, "          blue:\n"):]
	b.says(t, "apply "+b.write(t, gone), "OSPF in VRF red")
	if out := b.table(t, "100"); strings.Contains(out, "proto") {
		t.Errorf("left of red: %s", out)
	}
	b.says(t, "apply "+b.write(t, customers), "BGP AS 64500 in VRF red")
	b.until(t, "red is back", all)
	b.reach(t, "core", "11.2.0.1", true)
	b.changesNothing(t)
}

// changesNothing applies the configuration that is in force again.
func (b bed) changesNothing(t *testing.T) {
	t.Helper()
	out, err := b.router.Command(t.Context(), "apply", b.write(t, customers))
	if err == nil {
		err = lines(out, nil, []string{"BGP", "OSPF", "table", "route"})
	}
	if err != nil {
		t.Errorf("applied again: %v", err)
	}
}

// table are the routes of a VRF or of the main table, without the numbers of next hops.
func (b bed) table(t *testing.T, name string) (out string) {
	t.Helper()
	where := []string{"vrf", name}
	if name == "main" || name == "100" {
		where = []string{"table", name}
	}
	for _, family := range []string{"-4", "-6"} {
		text, err := b.Node("router").Run(t.Context(), append([]string{"ip", family, "route", "show"}, where...)...)
		if err != nil && !strings.Contains(text+err.Error(), "FIB table does not exist") {
			t.Fatal(err)
		}
		out += text
	}
	return regexp.MustCompile(` nhid \d+`).ReplaceAllString(out, "")
}

// lines wants all of some words in a text, and none of others.
func lines(text string, want, strange []string) error {
	for _, w := range want {
		if !strings.Contains(text, w) {
			return fmt.Errorf("%q is missing in:\n%s", w, text)
		}
	}
	for _, s := range strange {
		if strings.Contains(text, s) {
			return fmt.Errorf("%q should not be in:\n%s", s, text)
		}
	}
	return nil
}

// reach wants that a node reaches an address, or that it does not.
func (b bed) reach(t *testing.T, from, address string, yes bool) {
	t.Helper()
	ping := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := b.Node(from).Run(ctx, "ping", "-c", "1", "-W", "1", address)
		return err
	}
	if yes {
		b.until(t, from+" reaches "+address, ping)
	} else if ping() == nil {
		t.Errorf("%s reaches %s", from, address)
	}
}

// write puts a configuration where the router finds it.
func (b bed) write(t *testing.T, config string) string {
	t.Helper()
	file, err := b.router.Write(t.Context(), "other.yaml", strings.ReplaceAll(config, "\n      ", "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// says wants words in what a command of minne prints.
func (b bed) says(t *testing.T, command string, words ...string) {
	t.Helper()
	out, err := b.router.Command(t.Context(), strings.Fields(command)...)
	if err == nil {
		err = lines(out, words, nil)
	}
	if err != nil {
		t.Errorf("minne %s: %v\n%s", command, err, out)
	}
}

// crash kills a daemon of FRR and waits for the next one.
func (b bed) crash(t *testing.T, daemon string) {
	t.Helper()
	file := "/run/frr/minne/" + daemon + ".pid"
	old := b.run(t, "router", "cat", file)
	b.run(t, "router", "kill", "-9", strings.TrimSpace(old))
	b.until(t, "a new "+daemon, func() error {
		now, err := b.Node("router").Run(t.Context(), "cat", file)
		if err == nil && (now == old || strings.TrimSpace(now) == "") {
			err = fmt.Errorf("its process is %s, was %s", now, old)
		}
		return err
	})
}

// told wants zebra to have its BGP routes from bgpd: those that it found in the kernel have the kernel's metric.
func (b bed) told(t *testing.T) error {
	t.Helper()
	for _, vrf := range []string{"default", "red", "blue"} {
		out, err := b.Node("router").Run(t.Context(), "vtysh", "-N", "minne", "-c", "show ip route vrf "+vrf+" bgp")
		if err != nil {
			return err
		}
		if err := lines(out, []string{"11.1.0.0/16 [20/0]"}, []string{"[20/20]"}); err != nil {
			return err
		}
	}
	return nil
}

// sessions wants the BGP session of each table up, and the adjacencies in red.
func (b bed) sessions(t *testing.T, vrfs ...string) error {
	t.Helper()
	for _, vrf := range vrfs {
		command := []string{"show", "bgp", "summary"}
		if vrf != "" {
			command = append(command, "vrf", vrf)
		}
		var s routing.BGPSummary
		if err := b.router.JSON(t.Context(), &s, command...); err != nil {
			return err
		}
		if len(s.Peers) != 1 || s.Peers[0].Name != "isp" || s.Peers[0].State != "Established" {
			return fmt.Errorf("sessions in %q: %+v", vrf, s)
		}
	}
	var n show.OSPFView
	if err := b.router.JSON(t.Context(), &n, "show", "ospf", "neighbor", "vrf", "red"); err != nil {
		return err
	}
	if len(n.Neighbors) != 2 || n.Neighbors[0].State != "Full" || n.Neighbors[1].State != "Full" {
		return fmt.Errorf("OSPF in red: %+v", n)
	}
	return nil
}

// views wants what is in a VRF shown for it, and nothing of it without its name.
func (b bed) views(t *testing.T) {
	t.Helper()
	b.until(t, "sessions and adjacencies", func() error { return b.sessions(t, "red", "blue", "") })
	b.says(t, "show bgp vrf blue", "local AS number 64600", "router identifier 192.0.2.9", "198.51.100.2")
	b.says(t, "show bgp vrf red 11.2.0.1", "11.2.0.0/16", "isp")
	b.says(t, "show bgp 11.2.0.1", "no path in BGP")
	b.says(t, "show bgp neighbors vrf red isp", "isp  198.51.100.2, AS 64501", "BFD:", "Up")
	b.says(t, "show bgp neighbors vrf red isp received", "11.2.0.0/16", "2001:db8:b::/48")
	b.says(t, "show bgp neighbors vrf red isp advertised", "10.0.0.0/16")
	b.says(t, "show ip route vrf red 11.2.0.1", "11.2.0.0/16 [20/0] via 198.51.100.2", "*>")
	b.says(t, "show ip route vrf red ospf", "10.0.9.0/24 [110/")
	b.says(t, "show ospf interface vrf red", "in1", "Point-To-Point")
	b.says(t, "show ospf database vrf red", "10.0.0.2", "external", "router")
	b.says(t, "clear bgp vrf blue isp soft", "cleared: isp (198.51.100.2) in VRF blue")
	b.says(t, "clear ospf vrf red", "cleared: OSPFv2 in VRF red", "cleared: OSPFv3 in VRF red")
	b.until(t, "adjacencies form again", func() error { return b.sessions(t, "red") })
	for command, why := range map[string]string{"show bgp vrf green": "there is no VRF green", "show ospf neighbor vrf up1": "up1 is no VRF", "clear ospf": "OSPF is not running",
		"clear bgp vrf blue nobody": "no BGP peer", "show bgp neighbors vrf": "expected the name of a VRF"} {
		if out, err := b.router.Command(t.Context(), strings.Fields(command)...); err == nil || !strings.Contains(out+err.Error(), why) {
			t.Errorf("minne %s: %v\n%s", command, err, out)
		}
	}
}
