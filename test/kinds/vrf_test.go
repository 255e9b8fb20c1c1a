// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

const vrfs = `
version: 1
system: {hostname: stick, router-id: 10.0.80.1}
interfaces:
  red: {vrf: {table: 100, interfaces: [r0, r1]}}
  r0: {addresses: [10.0.80.1/24, "2001:db8:80::1/64"]}
  r1: {addresses: [10.0.81.1/24, "2001:db8:81::1/64"]}
  m0: {addresses: [10.0.82.1/24, "2001:db8:82::1/64"]}
routing:
  static:
    - {prefix: 0.0.0.0/0, via: [10.0.82.2]}
    - {prefix: "::/0", via: ["2001:db8:82::2"]}
    - {prefix: 10.0.90.0/24, via: [10.0.81.2], vrf: red}
`

// TestVRF has two ports of a VRF reach each other and what its static routes lead to, and nothing of the main table.
func TestVRF(t *testing.T) {
	left, right, other := newHost(t, "r0", "l0"), newHost(t, "r1", "l1"), newHost(t, "m0", "o0")
	left.do(t, func() {
		addAddress(t, "l0", "10.0.80.2/24")
		addAddress(t, "l0", "2001:db8:80::2/64")
		addRoute(t, "10.0.0.0/8", "10.0.80.1")
		addRoute(t, "2001:db8::/32", "2001:db8:80::1")
	})
	right.do(t, func() {
		addAddress(t, "l1", "10.0.81.2/24")
		addAddress(t, "l1", "10.0.90.1/32")
		addAddress(t, "l1", "2001:db8:81::2/64")
		addRoute(t, "10.0.0.0/8", "10.0.81.1")
		addRoute(t, "2001:db8::/32", "2001:db8:81::1")
	})
	other.do(t, func() {
		addAddress(t, "o0", "10.0.82.2/24")
		addAddress(t, "o0", "10.0.99.1/32")
		addAddress(t, "o0", "2001:db8:82::2/64")
		addRoute(t, "10.0.0.0/8", "10.0.82.1")
		addRoute(t, "2001:db8::/32", "2001:db8:82::1")
	})
	r, here := startRouter(t), router(t)
	r.apply(t, vrfs)
	echo(t, right, left, "10.0.81.2:7", 3)
	echo(t, right, left, "[2001:db8:81::2]:7", 3)
	echo(t, right, left, "10.0.90.1:7", 3)
	echo(t, here, other, "10.0.82.1:7", 3)
	for what, apart := range map[string]struct {
		server  host
		address string
	}{
		"the main table's default route": {other, "10.0.99.1:7"},
		"a network of the main table":    {other, "10.0.82.2:7"},
		"the same by IPv6":               {other, "[2001:db8:82::2]:7"},
		"the router's address there":     {here, "10.0.82.1:7"},
	} {
		if reaches(t, apart.server, left, apart.address) {
			t.Errorf("from the VRF, %s is reached", what)
		}
	}
	r.says(t, "show interfaces r0", "in VRF red")
	r.says(t, "show fast-path", "ipv4 of red", "ipv6 of red")
	r.says(t, "show interfaces red", "VRF (table 100)", "interfaces r0, r1")

	r.says(t, "show ip route vrf red", "10.0.80.0/24", "10.0.90.0/24 [1/0] via 10.0.81.2", "unreachable")
	r.says(t, "show ip route vrf red 10.0.90.7", "10.0.90.0/24")
	r.says(t, "show ip route vrf red static", "10.0.90.0/24")
	r.says(t, "show ipv6 route vrf red connected", "2001:db8:80::/64")
	if text, err := r.minne("show", "ip", "route", "vrf", "red"); err != nil || strings.Contains(text, "10.0.82.") || strings.Contains(text, "10.0.80.1/32") {
		t.Errorf("routes of the VRF, with others: %v\n%s", err, text)
	}
	if text, err := r.minne("show", "ip", "route"); err != nil || strings.Contains(text, "10.0.90.") {
		t.Errorf("routes of the main table, with others: %v\n%s", err, text)
	}
	for _, wrong := range []string{"green", "r0"} {
		if text, err := r.minne("show", "ip", "route", "vrf", wrong); err == nil || !strings.Contains(text, "VRF") || !strings.Contains(text, wrong) {
			t.Errorf("VRF %s: %v\n%s", wrong, err, text)
		}
	}
	r.says(t, "explain --in r0 --src 10.0.80.2 --dst 10.0.90.1", "10.0.90.0/24 via 10.0.81.2", "Forwarded by the fast path out of r1")
	r.says(t, "explain --in r0 --src 10.0.80.2 --dst 10.0.99.1", "unreachable")
	r.says(t, "explain --in m0 --src 10.0.82.2 --dst 10.0.90.1", "0.0.0.0/0 via 10.0.82.2 dev m0", "out of m0")

	// The rule for local addresses is the router's to keep.
	local := netlink.NewRule()
	local.Family, local.Table, local.Priority = netlink.FAMILY_V4, 255, 0
	must(t, netlink.RuleAdd(local))
	until(t, "the rule for local addresses is behind that of the VRFs again", func() bool {
		rules, err := netlink.RuleList(netlink.FAMILY_V4)
		must(t, err)
		for _, rule := range rules {
			if rule.Table == 255 && rule.Priority < 1000 {
				return false
			}
		}
		return true
	})

	r.apply(t, strings.NewReplacer("  red: {vrf: {table: 100, interfaces: [r0, r1]}}\n", "", "    - {prefix: 10.0.90.0/24, via: [10.0.81.2], vrf: red}\n", "").Replace(vrfs))
	until(t, "all are in the main table", func() bool {
		return reaches(t, right, left, "10.0.81.2:7") && reaches(t, other, left, "10.0.82.2:7")
	})
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: 100}, netlink.RT_FILTER_TABLE)
	if err != nil || len(routes) > 0 {
		t.Errorf("the VRF's table still has %v, %v", routes, err)
	}
}

const twinVRFs = `
version: 1
system: {hostname: stick, router-id: 10.0.80.1}
interfaces:
  red: {vrf: {table: 100, interfaces: [vs0, vs1]}}
  blue: {vrf: {table: 101, interfaces: [vb0, vb1]}}
  vs0: {addresses: [10.0.80.1/24, "2001:db8:80::1/64"]}
  vs1: {addresses: [10.0.81.1/24, "2001:db8:81::1/64"]}
  vb0: {addresses: [10.0.80.1/24, "2001:db8:80::1/64"]}
  vb1: {addresses: [10.0.81.1/24, "2001:db8:81::1/64"]}
routing:
  static:
    - {prefix: 10.0.90.0/24, via: [10.0.81.2], vrf: red}
    - {prefix: 10.0.90.0/24, via: [10.0.81.2], vrf: blue}
`

// TestVRFsWithTheSameAddresses has two networks that look the same side by side.
func TestVRFsWithTheSameAddresses(t *testing.T) {
	hosts := map[string][2]host{}
	for _, vrf := range []string{"vs", "vb"} {
		left, right := newHost(t, vrf+"0", vrf+"l"), newHost(t, vrf+"1", vrf+"r")
		left.do(t, func() {
			addAddress(t, vrf+"l", "10.0.80.2/24")
			addAddress(t, vrf+"l", "2001:db8:80::2/64")
			addRoute(t, "10.0.0.0/8", "10.0.80.1")
			addRoute(t, "2001:db8::/32", "2001:db8:80::1")
		})
		right.do(t, func() {
			addAddress(t, vrf+"r", "10.0.81.2/24")
			addAddress(t, vrf+"r", "10.0.90.1/32")
			addAddress(t, vrf+"r", "2001:db8:81::2/64")
			addRoute(t, "10.0.0.0/8", "10.0.81.1")
			addRoute(t, "2001:db8::/32", "2001:db8:81::1")
		})
		hosts[vrf] = [2]host{left, right}
	}
	r := startRouter(t)
	r.apply(t, twinVRFs)
	for _, address := range []string{"10.0.81.2:7", "10.0.90.1:7", "[2001:db8:81::2]:7"} {
		for _, vrf := range []string{"vs", "vb"} {
			echo(t, hosts[vrf][1], hosts[vrf][0], address, 3)
		}
		if reaches(t, hosts["vs"][1], hosts["vb"][0], address) || reaches(t, hosts["vb"][1], hosts["vs"][0], address) {
			t.Errorf("%s: one VRF reaches the other's", address)
		}
	}
	r.says(t, "apply "+filepath.Join(r.root, "minne.yaml"), "nothing to change")
}
