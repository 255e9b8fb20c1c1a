// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"minne/internal/model/api"
)

// inside runs a command line in the router's own namespace, as an operator's hand would, and returns what it prints.
func (b *box) inside(line string) string {
	b.t.Helper()
	out, err := exec.Command("nsenter", "--net="+b.netns, "sh", "-c", line).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// has says whether a command line prints words in the router's namespace; one that fails prints nothing.
func (b *box) has(line, words string) bool {
	out, _ := exec.Command("nsenter", "--net="+b.netns, "sh", "-c", line).Output()
	return strings.Contains(string(out), words)
}

// flowing pings an address without a pause, and returns how to end it: with nothing lost.
func (n *neighbour) flowing(address string) (end func()) {
	n.t.Helper()
	var said bytes.Buffer
	ping := n.command(context.Background(), "exec ping -q -i 0.02 -W 5 "+address)
	ping.Stdout, ping.Stderr = &said, &said
	if err := ping.Start(); err != nil {
		n.t.Fatal(err)
	}
	return func() {
		n.t.Helper()
		_ = syscall.Kill(ping.Process.Pid, syscall.SIGINT)
		_ = ping.Wait()
		found := regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`).FindStringSubmatch(said.String())
		if found == nil {
			n.t.Fatalf("ping said:\n%s", &said)
		}
		sent, _ := strconv.Atoi(found[1])
		got, _ := strconv.Atoi(found[2])
		// The last may still have been under way.
		if sent < 3 || sent-got > 1 {
			n.t.Errorf("%d packets of other ports were lost:\n%s", sent-got, &said)
		}
	}
}

// handsOn is a router with three ports; between the hosts behind wan and dmz packets flow until the test ends.
func handsOn(t *testing.T) *box {
	t.Helper()
	b := newBox(t)
	b.addPort("dmz")
	wan, dmz := b.newNeighbour("wan"), b.newNeighbour("dmz")
	wan.run("ip addr add 198.51.100.9/24 dev eth0; ip route add default via 198.51.100.1")
	dmz.run("ip addr add 203.0.113.9/24 dev eth0; ip route add default via 203.0.113.1")
	file := b.file("router.yaml", `version: 1
interfaces:
  lan:
    addresses: [192.0.2.1/24, "2001:db8:1::1/64"]
    mtu: 1400
  wan:
    addresses: [198.51.100.1/24]
  dmz:
    addresses: [203.0.113.1/24]
routing:
  static:
    - prefix: 10.1.0.0/16
      via: [192.0.2.9]
    - prefix: 2001:db8:aaaa::/48
      via: ["2001:db8:1::9"]
`)
	b.start()
	b.want(0, "", "apply", file)
	wan.run("ping -c 1 -W 10 203.0.113.9")
	end := wan.flowing("203.0.113.9")
	t.Cleanup(end)
	return b
}

// wantRepaired waits until a repair is in the book.
func (b *box) wantRepaired(words string) {
	b.t.Helper()
	var s api.Status
	eventually(b.t, "repair "+words, func() bool {
		s = b.status()
		for _, r := range s.Repairs {
			if strings.Contains(r.Text, words) {
				return true
			}
		}
		return false
	})
}

func (b *box) fault(key string) (text string) {
	for _, f := range b.status().Faults {
		if f.Key == key {
			return f.Text
		}
	}
	return ""
}

// TestHandsAreUndone changes what Minne owns by hand, piece by piece: each is as configured again by
// itself, the book of health says what was changed, and packets of the other ports are not disturbed.
func TestHandsAreUndone(t *testing.T) {
	t.Parallel()
	b := handsOn(t)
	for _, c := range []struct {
		name, hand   string
		look, wanted string // a command line, and what it prints once all is well
		repair       string
	}{
		{"an address", "ip addr del 192.0.2.1/24 dev lan", "ip addr show lan", "192.0.2.1/24", "address 192.0.2.1/24 on lan was removed"},
		{"an IPv6 address", "ip addr del 2001:db8:1::1/64 dev lan", "ip addr show lan", "2001:db8:1::1/64", "address 2001:db8:1::1/64 on lan was removed"},
		{"all IPv6 addresses", "ip -6 addr flush dev lan", "ip -6 addr show lan scope link", "fe80:", "the IPv6 link-local address on lan was removed"},
		{"another address", "ip addr add 10.9.9.9/24 dev lan", "ip addr show lan | grep -q 10.9.9.9 || echo gone", "gone", "address 10.9.9.9/24 on lan was added"},
		{"a connected route", "ip route del 192.0.2.0/24 dev lan", "ip route show proto kernel", "192.0.2.0/24 dev lan", "connected route 192.0.2.0/24 on lan was removed"},
		{"an IPv6 connected route", "ip -6 route del 2001:db8:1::/64 dev lan", "ip -6 route show proto kernel", "2001:db8:1::/64 dev lan", "connected route 2001:db8:1::/64 on lan was removed"},
		{"a static route", "ip route del 10.1.0.0/16", "ip route show proto static", "10.1.0.0/16 via 192.0.2.9", "route 10.1.0.0/16 via 192.0.2.9 was removed"},
		{"an IPv6 static route", "ip -6 route del 2001:db8:aaaa::/48", "ip -6 route show proto static", "2001:db8:aaaa::/48 via 2001:db8:1::9", "route 2001:db8:aaaa::/48 via 2001:db8:1::9 was removed"},
		{"a static route of somebody else", "ip route add 10.2.0.0/16 via 192.0.2.8 proto static", "ip route show 10.2.0.0/16 | grep -q . || echo gone", "gone", "route 10.2.0.0/16 via 192.0.2.8"},
		{"the MTU", "ip link set lan mtu 1300", "ip link show lan", "mtu 1400", "mtu on lan was changed from 1400 to 1300"},
		{"the link down", "ip link set lan down", "ip link show lan", "LOWER_UP", "link lan was set down"},
		{"forwarding of a port", "echo 0 >/proc/sys/net/ipv4/conf/lan/forwarding", "cat /proc/sys/net/ipv4/conf/lan/forwarding", "1", "ipv4 forwarding of lan was changed to 0"},
		{"IPv6 forwarding", "echo 0 >/proc/sys/net/ipv6/conf/all/forwarding", "cat /proc/sys/net/ipv6/conf/all/forwarding /proc/sys/net/ipv6/conf/lan/forwarding", "1\n1", "ipv6 forwarding was changed to 0"},
		{"a setting that nobody announces", "echo 2 >/proc/sys/net/ipv6/conf/lan/accept_ra", "cat /proc/sys/net/ipv6/conf/lan/accept_ra", "0", "ipv6 accept_ra of lan was changed to 2"},
		{"a setting of the namespace", "echo 0 >/proc/sys/net/ipv4/fib_multipath_hash_policy", "cat /proc/sys/net/ipv4/fib_multipath_hash_policy", "1", "ipv4 fib_multipath_hash_policy was changed to 0"},
	} {
		b.inside(c.hand)
		eventually(t, c.name+" is restored", func() bool { return b.has(c.look, c.wanted) })
		b.wantRepaired(c.repair)
	}
	b.wantWhole(1)
	if s := b.status(); s.Faults != nil {
		t.Errorf("faults: %+v", s.Faults)
	}
}

// TestForwardingIsSwitchedOnAgain: everything stands still while it is off, so no other ports are asked.
func TestForwardingIsSwitchedOnAgain(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(0, "", "apply", b.config("both", "192.0.2.1/24", "198.51.100.1/24"))
	b.inside("echo 0 >/proc/sys/net/ipv4/ip_forward")
	eventually(t, "forwarding is on again", func() bool {
		return b.has("cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/wan/forwarding", "1\n1")
	})
	b.wantRepaired("ipv4 forwarding was changed to 0")
}

// TestAPortComesBack takes a port away in every way that ports go, and gives it back: it is configured
// again by itself, and missing it is a fault until then.
func TestAPortComesBack(t *testing.T) {
	t.Parallel()
	b := handsOn(t)
	elsewhere := newNetns(t)
	pid := strings.Split(elsewhere, "/")[2]
	for _, c := range []struct{ name, away, back string }{
		{"deleted", "ip link del lan", "ip link add lan type veth peer name lan-far && ip link set lan-far up"},
		{"renamed", "ip link set lan down && ip link set lan name gone", "ip link set gone down; ip link set gone name lan"},
		{"elsewhere", "ip link set lan netns " + pid, "nsenter --net=" + elsewhere + " ip link set lan netns " + strings.Split(b.netns, "/")[2]},
	} {
		b.inside(c.away)
		eventually(t, c.name+": the fault is seen", func() bool { return strings.Contains(b.fault("port lan"), "no link with name lan") })
		b.inside(c.back)
		b.wantPort(c.name)
		eventually(t, c.name+": the fault is over", func() bool { return b.fault("port lan") == "" })
		b.wantRepaired("port lan is there again")
	}
	// So fast that nobody saw it missing.
	b.inside("ip link del lan && ip link add lan type veth peer name lan-far && ip link set lan-far up")
	b.wantPort("at once")
	b.wantWhole(1)
}

// wantPort waits until the port lan is all that handsOn configures.
func (b *box) wantPort(how string) {
	b.t.Helper()
	for line, wanted := range map[string]string{
		"ip addr show lan":              "192.0.2.1/24",
		"ip -6 addr show lan":           "2001:db8:1::1/64",
		"ip link show up lan":           "LOWER_UP",
		"ip link show lan":              "mtu 1400",
		"ip route show proto static":    "10.1.0.0/16 via 192.0.2.9",
		"ip -6 route show proto static": "2001:db8:aaaa::/48 via 2001:db8:1::9",
		"cat /proc/sys/net/ipv4/conf/lan/forwarding /proc/sys/net/ipv6/conf/lan/forwarding": "1\n1",
		"cat /proc/sys/net/ipv6/conf/lan/accept_ra":                                         "0",
		"ip -d link show lan": "xdp",
	} {
		eventually(b.t, how+": "+line+" prints "+wanted, func() bool { return b.has(line, wanted) })
	}
}

// TestAHostileProvider: a server that tells routes to the LAN does not get them, and is said to. When the
// port goes and comes back, the client on it begins anew.
func TestAHostileProvider(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	isp := b.provider("198.51.100", "1h", "--dhcp-option=121,192.168.1.50/32,198.51.100.1,10.5.0.0/16,198.51.100.1,0.0.0.0/0,198.51.100.1")
	file := b.file("router.yaml", `version: 1
interfaces:
  wan: {dhcp: on}
  lan: {addresses: [192.168.1.1/24]}
routing:
  static:
    - {prefix: 10.0.0.0/8, via: [192.168.1.9]}
`)
	b.start()
	b.want(0, "", "apply", file)
	leased := func() bool {
		return strings.HasPrefix(b.address("wan"), "198.51.100.") && b.defaultRoute("198.51.100.1")
	}
	eventually(t, "the lease", leased)
	if text := b.inside("ip route"); strings.Contains(text, "192.168.1.50") || strings.Contains(text, "10.5.0.0/16") {
		t.Errorf("the server took over:\n%s", text)
	}
	if text := b.fault("DHCP on wan"); !strings.Contains(text, "192.168.1.50/32 via 198.51.100.1: it leads to a part of the network 192.168.1.0/24") ||
		!strings.Contains(text, "10.5.0.0/16 via 198.51.100.1: it leads to a part of the static route 10.0.0.0/8") {
		t.Errorf("fault %q of %+v", text, b.status())
	}
	b.want(0, "refused route 192.168.1.50/32 via 198.51.100.1", "show", "dhcp")
	client := func() int {
		var v struct {
			Client []struct{ Client struct{ PID int } }
		}
		b.json(&v, "show", "dhcp", "--json")
		return v.Client[0].Client.PID
	}
	before := client()

	b.inside("ip link del wan && ip link add wan type veth peer name wan-far && ip link set wan-far netns " + strings.Split(isp.netns, "/")[2])
	isp.run("ip link set wan-far name eth0 && ip addr add 198.51.100.1/24 dev eth0 && ip link set eth0 up")
	eventually(t, "the lease is in place again", leased)
	eventually(t, "another client", func() bool { now := client(); return now != 0 && now != before })
}

// TestTheLANComesBack: after the port of a home network was gone, all that serves it does again: filter and
// NAT, DHCP, DNS, router advertisements, the fast path.
func TestTheLANComesBack(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.Chmod(b.root, 0o755); err != nil { // as /run/minne is: dnsmasq does not stay root
		t.Fatal(err)
	}
	b.provider("198.51.100", "1h")
	home := b.newNeighbour("lan")
	b.start()
	b.want(0, "applied", "apply", b.file("home.yaml", homeText))
	eventually(t, "the lease", func() bool { return b.defaultRoute("198.51.100.1") })
	served := func(when string) {
		t.Helper()
		eventually(t, when+": an address by DHCP", func() bool {
			_, err := home.try("udhcpc -q -n -f -i eth0 -t 3 -T 1 -s $PWD/event")
			return err == nil
		})
		eventually(t, when+": a name", func() bool { return home.resolve("192.168.77.1", "nas.home.arpa.") == "192.168.77.30" })
		eventually(t, when+": the Internet", func() bool { _, err := home.try("ping -c 1 -W 5 198.51.100.1"); return err == nil })
		eventually(t, when+": an address by router advertisement", func() bool {
			return strings.Contains(home.run("ip -6 addr show dev eth0"), "2001:db8:77:")
		})
		eventually(t, when+": the fast path", func() bool { return b.has("ip -d link show lan", "xdp") })
	}
	home.write("event", `#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr flush dev $interface scope global
ip addr add $ip/$mask dev $interface
ip route replace default via $router
`)
	home.run("chmod +x event")
	t.Cleanup(func() {
		if t.Failed() {
			out, err := os.ReadFile(filepath.Join(b.root, "run/minne-instances", b.name, "services/dnsmasq/output"))
			t.Logf("router: %s\nhost: %s\ndnsmasq: %v %s", b.inside("ip -6 addr; ip -6 maddr; cat /proc/net/snmp6 | grep Router"), home.run("ip -6 addr; ip -6 route; cat /proc/net/snmp6 | grep Router; sysctl net.ipv6.conf.eth0"), err, out)
		}
	})
	served("at first")
	home.run("sysctl -qw net.ipv6.conf.default.router_solicitations=0") // the port of a host behind a switch never goes: it asks for nothing
	// It is away for longer than between two advertisements: at first 5 to 20 seconds.
	b.inside("ip link del lan && sleep 21 && ip link add lan type veth peer name lan-far && ip link set lan-far netns " + strings.Split(home.netns, "/")[2])
	home.run("ip link set lan-far name eth0 && ip link set eth0 up")
	served("when it is back")
	b.wantWhole(1)
}

// TestACableIsNoHand: what the kernel does by itself when a cable is pulled out and put in is nobody's
// change, and neither is what the router does at an apply.
func TestACableIsNoHand(t *testing.T) {
	t.Parallel()
	b := handsOn(t)
	file := b.config("other", "192.0.2.1/24", "198.51.100.1/24")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b.file("other.yaml", string(text)+"  dmz:\n    addresses: [203.0.113.1/24, 203.0.113.2/24, \"2001:db8:3::1/64\"]\n")
	b.want(0, "applied", "apply", file)
	for range 3 {
		b.inside("ip link set lan-far down")
		eventually(t, "the cable is out", func() bool { return b.has("ip link show lan", "NO-CARRIER") })
		b.inside("ip link set lan-far up")
		eventually(t, "the cable is in", func() bool { return b.has("ip link show lan", "state UP") })
	}
	b.want(0, "applied", "apply", filepath.Join(b.root, "router.yaml"))
	b.inside("ip addr del 192.0.2.1/24 dev lan") // what is said of this comes after all that was seen before
	b.wantRepaired("address 192.0.2.1/24 on lan was removed")
	for _, r := range b.status().Repairs {
		if !strings.HasPrefix(r.Text, "address 192.0.2.1/24 on lan was removed") && !strings.HasPrefix(r.Text, "connected route 192.0.2.0/24") &&
			!strings.HasPrefix(r.Text, "route 10.1.0.0/16") {
			t.Errorf("%s: %s", r.Key, r.Text)
		}
	}
}
