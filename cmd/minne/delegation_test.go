// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"minne/internal/subsystem/services/dhcpv6client"
)

const delegationText = `version: 1
interfaces:
  wan: {dhcpv6: {prefix-length: 56}, zone: wan}
  lan: {delegated-prefix: {from: wan, subnet: 1}, zone: lan}
firewall:
  policies:
    - {from: lan, to: wan, default: permit}
services:
  router-advertisements:
    lan: {}
  dns: {interfaces: [lan]}
`

// delegator is a provider with router advertisements, by dnsmasq, and addresses and prefixes by DHCPv6, by Kea.
type delegator struct {
	*neighbour
	kea int // pid
}

func (b *box) delegator() *delegator {
	b.t.Helper()
	d := &delegator{neighbour: b.newNeighbour("wan")}
	d.run("sysctl -qw net.ipv6.conf.all.forwarding=1 && ip addr add 2001:db8:1::1/64 dev eth0 nodad && ip addr add 2001:db8:53::53/128 dev lo nodad")
	d.serve("exec dnsmasq -k -C /dev/null --pid-file=" + d.dir + "/pid --user=root --port=0 --interface=eth0 --bind-interfaces " +
		"--enable-ra --dhcp-range=2001:db8:1::,ra-only --ra-param=eth0,4,60 --dhcp-leasefile=" + d.dir + "/leases")
	return d
}

// delegates has Kea delegate prefixes of a network, and of the former one no more.
func (d *delegator) delegates(network string) {
	d.t.Helper()
	pools := fmt.Sprintf(`{"prefix": %q, "prefix-len": 48, "delegated-len": 56}`, network)
	d.write("kea.json", `{"Dhcp6": {
	"interfaces-config": {"interfaces": ["eth0"], "service-sockets-max-retries": 1000, "service-sockets-retry-wait-time": 100},
	"server-id": {"type": "LL", "identifier": "525400000001", "htype": 1, "persist": false},
	"lease-database": {"type": "memfile", "persist": false},
	"preferred-lifetime": 60, "valid-lifetime": 120, "renew-timer": 2, "rebind-timer": 4,
	"option-data": [{"name": "dns-servers", "data": "2001:db8:53::53"}],
	"subnet6": [{"subnet": "2001:db8:1::/64", "interface": "eth0", "pools": [{"pool": "2001:db8:1::1000-2001:db8:1::1fff"}], "pd-pools": [`+pools+`]}]}}`)
	if d.kea != 0 {
		if err := syscall.Kill(d.kea, syscall.SIGTERM); err != nil {
			d.t.Fatal(err)
		}
		eventually(d.t, "the end of the server", func() bool { return d.logged("DHCP6_SHUTDOWN") })
	}
	d.serve("echo $$ >kea.pid; exec env KEA_PIDFILE_DIR=$PWD KEA_LOCKFILE_DIR=none KEA_LOGGER_DESTINATION=stdout kea-dhcp6 -c kea.json >kea.log 2>&1")
	eventually(d.t, "the DHCPv6 server", func() bool { return d.logged("DHCP6_STARTED") })
	text, err := os.ReadFile(filepath.Join(d.dir, "kea.pid"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &d.kea)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// logged says whether Kea has logged something since it was started.
func (d *delegator) logged(word string) bool {
	text, _ := os.ReadFile(filepath.Join(d.dir, "kea.log"))
	return strings.Contains(string(text), word)
}

// A router gets its IPv6 and a prefix from a provider, a host behind it makes an address of that prefix and reaches the
// provider. The daemon is killed and comes back; then the provider gives another prefix, which the host follows.
func TestPrefixDelegation(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.Chmod(b.root, 0o755); err != nil { // as /run/minne is: dnsmasq does not stay root
		t.Fatal(err)
	}
	isp := b.delegator()
	isp.delegates("2001:db8:a000::")
	home := b.newNeighbour("lan")
	b.start()
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := os.ReadFile(filepath.Join(b.root, "run/minne-instances", b.name, "services/dhcpv6-wan/output"))
			served, _ := os.ReadFile(filepath.Join(isp.dir, "kea.log"))
			t.Logf("dhcpcd:\n%s\nKea:\n%s", said, served)
		}
	})
	file := b.file("home.yaml", delegationText)
	b.want(0, "applied", "apply", file)

	prefix := func() (p dhcpv6client.Prefix) {
		var o dhcpv6client.Observed
		b.json(&o, "show", "ipv6", "prefixes", "--json")
		for _, one := range o.Prefixes {
			if one.Used {
				p = one
			}
		}
		return p
	}
	// behind has the provider send the prefix to the router, and waits until the host at home reaches it.
	behind := func(network string) (address netip.Addr) {
		t.Helper()
		eventually(t, "a prefix of "+network, func() bool {
			p := prefix()
			return netip.MustParsePrefix(network).Contains(p.Prefix.Addr()) && p.Prefix.Bits() == 56 && len(p.Networks) == 1 && p.Networks[0].Interface == "lan"
		})
		p := prefix()
		router, _, _ := strings.Cut(b.inside("ip -6 -o addr show dev wan scope link | awk '{print $4; exit}'"), "/")
		isp.run(fmt.Sprintf("ip -6 route replace %s via %s dev eth0", p.Prefix, router))
		lan := p.Networks[0].Address.Masked()
		eventually(t, "an address at home in "+lan.String(), func() bool {
			for _, word := range strings.Fields(home.run("ip -6 addr show dev eth0 scope global -tentative -deprecated")) {
				if a, err := netip.ParsePrefix(word); err == nil && lan.Contains(a.Addr()) {
					address = a.Addr()
				}
			}
			return address.IsValid()
		})
		eventually(t, "an answer of the provider", func() bool {
			_, err := home.try(fmt.Sprintf("ping -c 1 -W 2 -I %s 2001:db8:53::53", address))
			return err == nil
		})
		return address
	}
	first := behind("2001:db8:a000::/48")
	b.want(0, "lan "+prefix().Networks[0].Address.String(), "show", "ipv6", "prefixes")
	b.want(0, "::/0", "show", "ipv6", "route")
	b.wantWhole(1)
	b.want(0, "nothing to change", "apply", file)
	eventually(t, "the provider's DNS server", func() bool {
		text, err := os.ReadFile(filepath.Join(b.root, "run/minne-instances", b.name, "services/dnsmasq/upstream"))
		return err == nil && strings.Contains(string(text), "2001:db8:53::53")
	})

	b.end(syscall.SIGKILL)
	home.run(fmt.Sprintf("ping -c 1 -W 5 -I %s 2001:db8:53::53", first))
	b.start()
	if p := prefix(); !netip.MustParsePrefix("2001:db8:a000::/48").Contains(p.Prefix.Addr()) {
		t.Errorf("after a new start: %+v", p)
	}
	b.want(0, "nothing to change", "apply", file)

	changed := time.Now()
	isp.delegates("2001:db8:b000::")
	eventually(t, "the router has the new prefix", func() bool { return netip.MustParsePrefix("2001:db8:b000::/48").Contains(prefix().Prefix.Addr()) })
	learned := time.Now()
	eventually(t, "the former address is deprecated", func() bool {
		return !strings.Contains(home.run("ip -6 addr show dev eth0 scope global -deprecated"), first.String())
	})
	deprecated := time.Now()
	behind("2001:db8:b000::/48")
	t.Logf("renumbered: the router had the new prefix %v after the provider's change; the host held the former address deprecated %v after that, and reached the provider from the new one %v after it",
		learned.Sub(changed).Round(time.Millisecond), deprecated.Sub(learned).Round(time.Millisecond), time.Since(learned).Round(time.Millisecond))
}
