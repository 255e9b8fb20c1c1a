// SPDX-License-Identifier: Apache-2.0

// Package uplinks_test lets an uplink of a router die, silently, by its link and by an operator's word, while packets flow, and
// asks kernel and fast path where they send them.
package uplinks_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"minne/internal/lab"
	"minne/internal/subsystem/uplinks"
	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

const config = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8:1::1/64"]}
  isp-a: {addresses: [198.51.100.2/30, "2001:db8:a::2/64"]}
  isp-b: {addresses: [198.51.100.6/30, "2001:db8:b::2/64"]}
uplinks:
  isp-a: {priority: 1, health: {ping: [203.0.113.1, "2001:db8:f::1"], interval: 200ms, recover: 3}}
  isp-b: {priority: 2}
routing:
  static:
    - {prefix: 0.0.0.0/0, via: [198.51.100.1]}
    - {prefix: 203.0.113.0/24, via: [198.51.100.1]}
    - {prefix: 0.0.0.0/0, via: [198.51.100.5], distance: 10}
    - {prefix: "::/0", via: ["2001:db8:a::1"]}
    - {prefix: "2001:db8:f::/48", via: ["2001:db8:a::1"]}
    - {prefix: "::/0", via: ["2001:db8:b::1"], distance: 10}
`

func prefixes(words ...string) (list []netip.Prefix) {
	for _, w := range words {
		list = append(list, netip.MustParsePrefix(w))
	}
	return list
}

func route(to, via string) lab.Route {
	return lab.Route{To: netip.MustParsePrefix(to), Via: netip.MustParseAddr(via)}
}

func port(node, name string, addresses ...string) lab.Port {
	return lab.Port{Node: node, Name: name, Addresses: prefixes(addresses...)}
}

// topology is two ISPs between a router and the world, which reaches hosts of the router by ISP B, and each of the router's own
// networks by its ISP.
var topology = lab.Topology{
	Nodes: []lab.Node{
		{Name: "desk", Routes: []lab.Route{route("0.0.0.0/0", "192.0.2.1"), route("::/0", "2001:db8:1::1")}},
		{Name: "border"},
		{Name: "isp-a", Forwards: true, Routes: []lab.Route{route("192.0.2.0/24", "198.51.100.2"), route("203.0.113.0/24", "198.51.100.10"),
			route("2001:db8:1::/64", "2001:db8:a::2"), route("2001:db8:f::/48", "2001:db8:c::2")}},
		{Name: "isp-b", Forwards: true, Routes: []lab.Route{route("192.0.2.0/24", "198.51.100.6"), route("203.0.113.0/24", "198.51.100.14"),
			route("2001:db8:1::/64", "2001:db8:b::2"), route("2001:db8:f::/48", "2001:db8:d::2")}},
		{Name: "world", Loopback: prefixes("203.0.113.1/32", "203.0.113.2/32", "2001:db8:f::1/128", "2001:db8:f::2/128"), Routes: []lab.Route{
			route("192.0.2.0/24", "198.51.100.13"), route("198.51.100.0/30", "198.51.100.9"), route("198.51.100.4/30", "198.51.100.13"),
			route("2001:db8:1::/64", "2001:db8:d::1"), route("2001:db8:a::/64", "2001:db8:c::1"), route("2001:db8:b::/64", "2001:db8:d::1")}},
	},
	Links: []lab.Link{
		{A: port("desk", "border", "192.0.2.2/24", "2001:db8:1::2/64"), B: port("border", "lan")},
		{A: port("isp-a", "border", "198.51.100.1/30", "2001:db8:a::1/64"), B: port("border", "isp-a")},
		{A: port("isp-b", "border", "198.51.100.5/30", "2001:db8:b::1/64"), B: port("border", "isp-b")},
		{A: port("isp-a", "world", "198.51.100.9/30", "2001:db8:c::1/64"), B: port("world", "isp-a", "198.51.100.10/30", "2001:db8:c::2/64")},
		{A: port("isp-b", "world", "198.51.100.13/30", "2001:db8:d::1/64"), B: port("world", "isp-b", "198.51.100.14/30", "2001:db8:d::2/64")},
	},
}

var destinations = []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2"),
	netip.MustParseAddr("2001:db8:f::1"), netip.MustParseAddr("2001:db8:f::2")}

var inside = []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8:1::2")}

const (
	rate     = 400 // packets a second, each way
	underway = 2 * time.Second
)

type network struct {
	*testing.T
	lab    *lab.Lab
	border *lab.Minne
}

func (n *network) must(err error) {
	n.Helper()
	if err != nil {
		n.Fatalf("%v\n%s", err, n.border.Log(30))
	}
}

func (n *network) until(what string, check func() error) {
	n.Helper()
	n.must(lab.Until(n.Context(), time.Minute, what, check))
}

func (n *network) run(node string, argv ...string) string {
	n.Helper()
	out, err := n.lab.Node(node).Run(n.Context(), argv...)
	n.must(err)
	return out
}

// leavesBy waits until the kernel and the fast path of the router send what desk sends by an uplink.
func (n *network) leavesBy(uplink string) {
	n.Helper()
	for _, to := range destinations {
		from := "192.0.2.2"
		if to.Is6() {
			from = "2001:db8:1::2"
		}
		n.until(fmt.Sprintf("packets to %v to leave by %s", to, uplink), func() error {
			kernel, err := n.lab.Node("border").Run(n.Context(), "ip", "route", "get", to.String(), "from", from, "iif", "lan")
			if err != nil || !strings.Contains(kernel, "dev "+uplink+" ") {
				return fmt.Errorf("the kernel: %s %w", kernel, err)
			}
			var e struct {
				Egress string `json:"egress"`
				Reason string `json:"reason"`
			}
			err = n.border.JSON(n.Context(), &e, "explain", "--in", "lan", "--src", from, "--dst", to.String(), "--proto", "udp", "--sport", "9", "--dport", "9")
			if err == nil && e.Egress != uplink {
				err = fmt.Errorf("the fast path: %+v", e)
			}
			return err
		})
	}
}

// shows waits for the state of an uplink.
func (n *network) shows(name, state string, passed bool) {
	n.Helper()
	n.until(fmt.Sprintf("%s to be %s, passed over: %v", name, state, passed), func() error {
		var v struct {
			Uplinks []uplinks.Observed `json:"uplinks"`
		}
		if err := n.border.JSON(n.Context(), &v, "show", "uplinks"); err != nil {
			return err
		}
		for _, u := range v.Uplinks {
			if u.Name == name && u.State == state && u.Passed == passed {
				return nil
			}
		}
		return fmt.Errorf("%+v", v.Uplinks)
	})
}

// both is what flows both ways.
type both struct{ out, in *lab.Probe }

func (n *network) start() both {
	n.Helper()
	out, err := lab.StartProbe(n.lab.Node("desk"), n.lab.Node("world"), destinations, rate, underway)
	n.must(err)
	in, err := lab.StartProbe(n.lab.Node("world"), n.lab.Node("desk"), inside, rate, underway)
	if err != nil {
		out.Stop()
		n.must(err)
	}
	return both{out, in}
}

// flows waits until everything of the last second arrived, both ways.
func (n *network) flows(b both) {
	n.Helper()
	time.Sleep(time.Second + underway) // the last second is one behind what was done before
	n.until("packets to flow both ways", func() error { return errors.Join(b.out.Flowing(time.Second), b.in.Flowing(time.Second)) })
}

// start builds the network, with a daemon that has a file and has applied nothing.
func start(t *testing.T, config string) *network {
	t.Helper()
	built, err := lab.Start(t.Context(), topology)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := built.Close(); err != nil {
			t.Error(err)
		}
	})
	n := &network{T: t, lab: built}
	for node, ports := range map[string][]string{"desk": {"border"}, "isp-a": {"border"}, "isp-b": {"border"}} {
		if err := built.Node(node).AcceptRedirects(ports...); err != nil {
			t.Fatal(err)
		}
	}
	if n.border, err = built.Node("border").Minne(testbuild.Minne(t, t.TempDir()), config, ""); err != nil {
		t.Fatal(err)
	}
	n.must(n.border.StartDaemon(t.Context()))
	return n
}

func TestUplinks(t *testing.T) {
	t.Parallel()
	n := start(t, config)
	apply := func() {
		t.Helper()
		_, err := n.border.Command(t.Context(), "apply", n.border.Config)
		n.must(err)
	}
	apply()
	for _, a := range []string{"198.51.100.1", "198.51.100.5", "2001:db8:a::1", "2001:db8:b::1"} { // their MACs are known
		n.until("the answer of "+a, func() error {
			_, err := n.lab.Node("border").Run(t.Context(), "ping", "-c1", "-W1", a)
			return err
		})
	}
	n.shows("isp-a", "up", false)
	flowing := n.start()
	n.flows(flowing)
	n.leavesBy("isp-a")
	main := n.run("border", "ip", "route")

	t.Log("an operator drains an uplink, and switches it on again")
	_, err := n.border.Command(t.Context(), "uplink", "isp-a", "off")
	n.must(err)
	n.leavesBy("isp-b")
	if _, err = n.border.Command(t.Context(), "uplink", "isp-b", "off"); err == nil || !strings.Contains(err.Error(), "no other uplink works") {
		t.Errorf("the last uplink is switched off: %v", err)
	}
	before, err := n.lab.Node("border").KernelForwarded(false)
	n.must(err)
	n.flows(flowing)
	after, err := n.lab.Node("border").KernelForwarded(false)
	n.must(err)
	if after-before > rate/2 {
		t.Errorf("the kernel forwards %d packets: the fast path does not pass over the uplink", after-before)
	}
	n.run("border", "ping", "-c1", "-W9", "198.51.100.1") // the neighbour of the uplink that was left is reached
	_, err = n.border.Command(t.Context(), "uplink", "isp-a", "on")
	n.must(err)
	n.leavesBy("isp-a")
	n.flows(flowing)
	out, in := flowing.out.Stop(), flowing.in.Stop()
	if out.Lost+in.Lost > 0 || out.Sent == 0 || in.Sent == 0 {
		t.Errorf("drained and back: %+v, %+v, expected no loss", out, in)
	}

	t.Log("an ISP dies silently, and comes back")
	flowing = n.start()
	n.run("isp-a", "nft", "table inet dead { chain in { type filter hook prerouting priority raw; drop; }; }")
	n.shows("isp-a", "down", true)
	n.leavesBy("isp-b")
	n.flows(flowing)
	if now := n.run("border", "ip", "route"); now != main {
		t.Errorf("the main table has changed:\n%s\nbefore:\n%s", now, main)
	}
	n.border.KillDaemon() // what is passed over stays so
	n.flows(flowing)
	n.must(n.border.StartDaemon(t.Context()))
	n.shows("isp-a", "down", true)
	n.leavesBy("isp-b")
	n.run("isp-a", "nft", "flush ruleset")
	n.shows("isp-a", "up", false)
	n.leavesBy("isp-a")
	n.flows(flowing)
	flowing.in.Stop()
	if lost := flowing.out.Stop(); lost.Lost == 0 {
		t.Error("nothing was lost while the ISP was dead and nobody knew: it was not")
	}

	t.Log("a link goes down")
	flowing = n.start()
	n.must(n.lab.Node("isp-a").SetPort("border", false))
	n.shows("isp-a", "down", true)
	n.flows(flowing)
	n.must(n.lab.Node("isp-a").SetPort("border", true))
	n.run("isp-a", "ip", "address", "add", "2001:db8:a::1/64", "dev", "border", "nodad") // which it lost with its link
	n.shows("isp-a", "up", false)
	n.leavesBy("isp-a")
	flowing.out.Stop()
	flowing.in.Stop()

	t.Log("without uplinks nothing is left")
	without := config[:strings.Index(config, "uplinks:")] + config[strings.Index(config, "routing:"):]
	file, err := n.border.Write(t.Context(), "without.yaml", without)
	n.must(err)
	_, err = n.border.Command(context.WithoutCancel(t.Context()), "apply", file)
	n.must(err)
	for _, family := range []string{"-4", "-6"} {
		if rules := n.run("border", "ip", family, "rule"); strings.Contains(rules, "suppress") || strings.Contains(rules, fmt.Sprint(uint32(uplinks.Table))) {
			t.Errorf("rules are left:\n%s", rules)
		}
	}
}
