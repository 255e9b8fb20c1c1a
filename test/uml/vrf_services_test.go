// SPDX-License-Identifier: Apache-2.0

package uml

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"minne/internal/daemon/show"
)

const vrfServices = `version: 1
interfaces:
  red: {vrf: {table: 100, interfaces: [rlan, rwan]}}
  blue: {vrf: {table: 101, interfaces: [blan, bwan]}}
  rwan: {dhcp: on}
  bwan: {dhcp: on}
  mwan: {dhcp: on}
  rlan: {addresses: [192.168.77.1/24, "2001:db8:77::1/64"]}
  blan: {addresses: [192.168.77.1/24, "2001:db8:77::1/64"]}
  mlan: {addresses: [192.168.77.1/24, "2001:db8:77::1/64"]}
services:
  dhcp:
    rlan: {pool: 192.168.77.100-192.168.77.109, static: {nas: {mac: "52:54:00:00:00:99", address: 192.168.77.20}}}
    blan: {pool: 192.168.77.110-192.168.77.119, static: {nas: {mac: "52:54:00:00:00:99", address: 192.168.77.21}}}
    mlan: {pool: 192.168.77.120-192.168.77.129, static: {nas: {mac: "52:54:00:00:00:99", address: 192.168.77.22}}}
  router-advertisements:
    rlan: {prefixes: ["2001:db8:77::/64"]}
    blan: {prefixes: ["2001:db8:77::/64"], default-router: off}
    mlan: {prefixes: ["2001:db8:77::/64"]}
  dns: {interfaces: [rlan, blan, mlan], domain: home.arpa}
`

// place is a VRF or the main table, with a host and a provider that have the same addresses as those of the others.
type place struct {
	vrf, host, provider string
	interfaces          [2]string // towards the host and the provider
	pool, nas, www      string    // what tells it from the others
}

var places = []place{
	{"", "mhost", "misp", [2]string{"mlan", "mwan"}, "192.168.77.12", "192.168.77.22", "198.18.0.3"},
	{"red", "rhost", "risp", [2]string{"rlan", "rwan"}, "192.168.77.10", "192.168.77.20", "198.18.0.1"},
	{"blue", "bhost", "bisp", [2]string{"blan", "bwan"}, "192.168.77.11", "192.168.77.21", "198.18.0.2"},
}

// TestServicesInVRFs has two VRFs and the main table with the same addresses: a provider each, which gives the router its
// address and a DNS server, and a host each, which gets an address, names and advertisements of its own place.
func TestServicesInVRFs(t *testing.T) {
	topology := "version: 1\nnodes:\n"
	for _, p := range places {
		topology += fmt.Sprintf("  %s: {runs: host, ports: {eth0: []}}\n  %s: {runs: host, ports: {eth0: []}, prepare: ip address add 203.0.113.1/24 dev eth0; ip route add 192.168.77.0/24 via 203.0.113.50}\n", p.host, p.provider)
	}
	topology += "  router:\n    runs: minne\n    machine: uml\n    config: |\n      " + strings.ReplaceAll(vrfServices, "\n", "\n      ") + "\nlinks:\n"
	for _, p := range places {
		topology += fmt.Sprintf("  - {ends: [%s.eth0, router.%s]}\n  - {ends: [%s.eth0, router.%s]}\n", p.host, p.interfaces[0], p.provider, p.interfaces[1])
	}
	b := build(t, topology)
	dir := t.TempDir()
	event := filepath.Join(dir, "event")
	if err := os.WriteFile(event, []byte(`#!/bin/sh
[ "$1" = bound ] || exit 0
ip address replace $ip/$mask dev $interface
ip route replace default via $router
echo "leased $ip, DNS $dns"
`), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if _, err := b.Node(p.provider).Start("dnsmasq", "dnsmasq", "-k", "-C", "/dev/null", "--pid-file", "--user=root", "--interface=eth0", "--bind-interfaces", "--no-resolv", "--no-hosts",
			"--dhcp-range=203.0.113.50,203.0.113.50,2m", "--dhcp-leasefile="+filepath.Join(dir, p.provider), "--dhcp-authoritative", "--no-ping",
			"--address=/www.example.net/"+p.www); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			out, err := b.Node("router").Run(ctx, "sh", "-c", "ip address; ip route show table all; nft list table inet minne; tail -n 20 /run/minne-guest/run/minne/services/*/output")
			t.Logf("%v\n%s", err, out)
		}
	})

	// The router is a client of each provider, and the default route is in the table of each.
	for _, p := range places {
		b.until(t, "a lease on "+p.interfaces[1], func() error {
			var v show.DHCPView
			if err := b.json(&v, "show", "dhcp"); err != nil {
				return err
			}
			for _, o := range v.Client {
				if o.Interface == p.interfaces[1] && o.Lease != nil && o.Lease.Address.String() == "203.0.113.50/24" {
					return nil
				}
			}
			return fmt.Errorf("%+v", v)
		})
		routes := []string{"minne", "show", "ip", "route"}
		if p.vrf != "" {
			routes = append(routes, "vrf", p.vrf)
		}
		b.until(t, "a default route of "+p.interfaces[1], func() error {
			if out := b.run(t, "router", routes...); !strings.Contains(out, "0.0.0.0/0 [210/0] via 203.0.113.1") || !strings.Contains(out, p.interfaces[1]) {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
	}

	for _, p := range places {
		b.run(t, p.host, "sh", "-c", "ip link set eth0 down && ip link set eth0 up") // it solicits advertisements when it comes up
	}
	for _, p := range places {
		b.served(t, p, event)
		b.run(t, p.host, "ping", "-c", "1", "-W", "5", "203.0.113.1")
		b.until(t, p.host+" hears advertisements", func() error {
			out := b.run(t, p.host, "sh", "-c", "ip -6 address show dev eth0; ip -6 route show default")
			if router := strings.Contains(out, "default via fe80::"); !strings.Contains(out, "2001:db8:77:") || router != (p.vrf != "blue") {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
		// Of the names of another place, it hears none, and towards the provider nothing is served.
		if out, err := b.resolve(p.provider, "203.0.113.50", "nas.home.arpa"); err == nil {
			t.Errorf("%s finds DNS at the router: %s", p.provider, out)
		}
	}
	var v show.DHCPView
	if err := b.json(&v, "show", "dhcp"); err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		found := 0
		for _, l := range v.Given {
			if strings.HasPrefix(l.Address.String(), p.pool) && l.VRF == p.vrf {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s has %d leases in VRF %q of\n%+v", p.host, found, p.vrf, v.Given)
		}
	}

	// While the server of a place is silent, the others don't answer in its stead, though they have the same address.
	before := b.servers(t)
	b.run(t, "router", "kill", "-STOP", strconv.Itoa(before["dnsmasq-red"]))
	for _, p := range places {
		if p.vrf != "red" {
			b.served(t, p, event)
			continue
		}
		if out, err := b.resolve(p.host, "192.168.77.1", "www.example.net"); err == nil {
			t.Errorf("another server answers %s: %s", p.host, out)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if out, err := b.Node(p.host).Run(ctx, "udhcpc", "-f", "-n", "-q", "-t", "2", "-T", "1", "-i", "eth0", "-s", event); err == nil {
			t.Errorf("another server gives %s an address: %s", p.host, out)
		}
		cancel()
	}
	// One that is killed begins anew, in its place; the others go on, and all do without the daemon.
	b.run(t, "router", "kill", "-KILL", strconv.Itoa(before["dnsmasq-red"]))
	b.until(t, "another server in red", func() error {
		after := b.servers(t)
		if after["dnsmasq-red"] == 0 || after["dnsmasq-red"] == before["dnsmasq-red"] {
			return fmt.Errorf("%v", after)
		}
		if after["dnsmasq"] != before["dnsmasq"] || after["dnsmasq-blue"] != before["dnsmasq-blue"] {
			t.Errorf("before %v, after %v", before, after)
		}
		return nil
	})
	b.served(t, places[1], event)
	before = b.servers(t)
	b.router.KillDaemon()
	b.served(t, places[1], event)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := b.router.StartDaemon(ctx); err != nil {
		t.Fatal(err)
	}
	if after := b.servers(t); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("before the daemon was killed %v, after it came back %v", before, after)
	}
	for _, p := range places {
		b.served(t, p, event)
	}
	b.timeInVRFs(t, dir)
}

func (b bed) json(into any, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return b.router.JSON(ctx, into, args...)
}

// served wants that the host of a place gets an address of its pool, and the answers of its DNS servers.
func (b bed) served(t *testing.T, p place, event string) {
	t.Helper()
	b.until(t, p.host+" gets an address", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		out, err := b.Node(p.host).Run(ctx, "udhcpc", "-f", "-n", "-q", "-t", "5", "-T", "1", "-i", "eth0", "-s", event)
		if err == nil && !(strings.Contains(out, "leased "+p.pool) && strings.Contains(out, "DNS 192.168.77.1")) {
			t.Errorf("%s, of the pool %s…: %s", p.host, p.pool, out)
		}
		return err
	})
	for name, want := range map[string]string{"nas.home.arpa": p.nas, "www.example.net": p.www} {
		b.until(t, p.host+" asks for "+name, func() error {
			got, err := b.resolve(p.host, "192.168.77.1", name)
			if err == nil && got != want {
				t.Errorf("%s: %s is %s, want %s", p.host, name, got, want)
			}
			return err
		})
	}
}

// resolve asks a DNS server for the IPv4 address of a name, from a node.
func (b bed) resolve(node, server, name string) (string, error) {
	r := net.Resolver{PreferGo: true, Dial: func(_ context.Context, network, _ string) (c net.Conn, err error) {
		err = b.Node(node).Do(func() error {
			c, err = net.DialTimeout(network, net.JoinHostPort(server, "53"), 5*time.Second)
			return err
		})
		return c, err
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	list, err := r.LookupNetIP(ctx, "ip4", name+".")
	if err != nil {
		return "", err
	}
	var words []string
	for _, a := range list {
		words = append(words, a.String())
	}
	slices.Sort(words)
	return strings.Join(words, " "), nil
}

// servers are the pids of the programs that serve, by name.
func (b bed) servers(t *testing.T) map[string]int {
	t.Helper()
	var v show.ServicesView
	if err := b.json(&v, "show", "services"); err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	for _, p := range v.Programs {
		if strings.HasPrefix(p.Name, "dnsmasq") && p.Running {
			pids[p.Name] = p.PID
		}
	}
	return pids
}
