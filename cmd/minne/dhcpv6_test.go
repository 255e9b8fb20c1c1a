// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/services/dnsmasq"
)

const dhcpv6Text = `version: 1
interfaces:
  lan: {addresses: ["2001:db8:1::1/64"], zone: inside}
  guests: {addresses: ["2001:db8:2::1/64"], zone: inside}
  office: {addresses: ["2001:db8:3::1/64"], zone: inside}
firewall:
  policies:
    - {from: inside, to: inside, default: deny}
services:
  router-advertisements:
    lan: {prefixes: ["2001:db8:1::/64"]}
    guests: {prefixes: ["2001:db8:2::/64"]}
    office: {prefixes: ["2001:db8:3::/64"]}
  dhcpv6:
    lan:
      pool: "::1000-::1fff"
      slaac: off
      static:
        nas: {mac: "52:54:00:00:00:20", address: "::20"}
    guests: {dns: ["2001:db8:53::53"], search: [corp.example]}
    office: {pool: "::1000-::1fff"}
  dns: {interfaces: [lan], upstream: ["2001:db8:53::54"], domain: home.arpa}
`

// asksV6 has a host ask for IPv6 by dhcpcd, which keeps its files in fixed places: each host has its own there. What it
// is told stands in the file told.
func (n *neighbour) asksV6() {
	n.t.Helper()
	n.write("dhcpcd.conf", "duid ll\nhostname\nipv6only\noption dhcp6_name_servers, dhcp6_domain_search\nallowinterfaces eth0\n")
	n.write("event", "#!/bin/sh\nenv | grep -E '^(new_dhcp6_|nd[0-9]+_rdnss|nd[0-9]+_dnssl)' >>"+n.dir+"/told || :\n")
	n.run("chmod +x event && mkdir -p lib run /var/lib/dhcpcd /run/dhcpcd")
	n.serve("exec unshare --mount sh -c 'mount --make-rprivate / && mount --bind lib /var/lib/dhcpcd && mount --bind run /run/dhcpcd && exec dhcpcd -B -f $PWD/dhcpcd.conf --script $PWD/event eth0' >asked 2>&1")
	n.t.Cleanup(func() {
		if n.t.Failed() {
			text, _ := os.ReadFile(filepath.Join(n.dir, "asked"))
			n.t.Logf("dhcpcd: %s", text)
		}
	})
}

func (n *neighbour) told() string {
	text, _ := os.ReadFile(filepath.Join(n.dir, "told"))
	return string(text)
}

// A host is given its static address by DHCPv6, one of another network an address of the pool and forms one, and one of a
// network without pool forms its own and is told DNS servers. DNS knows the names; the firewall lets them ask.
func TestDHCPv6Server(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.addPort("guests")
	b.addPort("office")
	if err := os.Chmod(b.root, 0o755); err != nil { // as /run/minne is: dnsmasq does not stay root
		t.Fatal(err)
	}
	nas, guest, desk := b.newNeighbour("lan"), b.newNeighbour("guests"), b.newNeighbour("office")
	nas.run("ip link set eth0 address 52:54:00:00:00:20")
	b.start()
	file := b.file("dhcpv6.yaml", dhcpv6Text)
	b.want(0, "applied", "apply", file)
	nas.asksV6()
	guest.asksV6()
	desk.asksV6()

	given := func() map[string]dnsmasq.Lease {
		var v show.DHCPView
		b.json(&v, "show", "dhcp", "--json")
		list := map[string]dnsmasq.Lease{}
		for _, l := range v.Given {
			list[l.Address.String()] = l
		}
		return list
	}
	eventually(t, "the static address", func() bool {
		return strings.Contains(nas.run("ip -6 addr show dev eth0 -tentative"), "2001:db8:1::20/128")
	})
	if addresses := nas.run("ip -6 -o addr show dev eth0 scope global"); strings.Count(addresses, "inet6") != 1 {
		t.Errorf("formed addresses of its own: %s", addresses)
	}
	if l := given()["2001:db8:1::20"]; l.Name != "nas" || l.DUID != "00:03:00:01:52:54:00:00:00:20" || l.MAC != "" || l.Until.IsZero() {
		t.Errorf("lease: %+v", l)
	}
	b.want(0, "00:03:00:01:52:54:00:00:00:20", "show", "dhcp")
	if got := nas.resolve("2001:db8:1::1", "nas.home.arpa"); got != "2001:db8:1::20" {
		t.Errorf("its name leads to %s", got)
	}
	if told := nas.told(); !strings.Contains(told, "name_servers=2001:db8:1::1") {
		t.Errorf("DNS on the LAN: %s", told)
	}

	eventually(t, "an address formed on guests", func() bool {
		return strings.Contains(guest.run("ip -6 addr show dev eth0 scope global -tentative"), "2001:db8:2:")
	})
	eventually(t, "the options", func() bool {
		told := guest.told()
		return strings.Contains(told, "new_dhcp6_name_servers=2001:db8:53::53\n") && strings.Contains(told, "new_dhcp6_domain_search=corp.example\n")
	})
	if told := guest.told(); strings.Contains(told, "2001:db8:2::1") || strings.Contains(told, "ia_na") {
		t.Errorf("guests were told: %s", told)
	}

	// A host of the office has both.
	eventually(t, "an address of the pool", func() bool {
		for address, l := range given() {
			if strings.HasPrefix(address, "2001:db8:3::1") && len(address) == len("2001:db8:3::1000") && l.DUID != "" {
				return true
			}
		}
		return false
	})
	eventually(t, "an address formed in the office", func() bool {
		return strings.Contains(desk.run("ip -6 addr show dev eth0 scope global -tentative"), "2001:db8:3:0:")
	})
}
