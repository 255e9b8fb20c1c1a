// SPDX-License-Identifier: Apache-2.0

package uml

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"minne/internal/subsystem/services/dhcpv6client"
)

// TestPPPoEDelegated has a provider give IPv6 in a PPPoE session: a default route by router advertisements, and a prefix by
// DHCPv6 that an inside interface gets a network of. The provider ends the session; the next one has the same prefix.
func TestPPPoEDelegated(t *testing.T) {
	b := build(t, `
version: 1
nodes:
  left: {runs: host, ports: {eth0: [2001:db8:a000:1::2/64]}, gateway: ["2001:db8:a000:1::1"]}
  provider:
    runs: kernel
    machine: uml
    ports: {line: [], core: [2001:db8:2::1/64]}
    prepare: |
      mkdir -p /etc/ppp /run/kea
      echo '"line@isp" * "anything" *' >/etc/ppp/chap-secrets
      printf 'require-chap\nlcp-echo-interval 0\nnodefaultroute\n+ipv6\n' >/etc/ppp/pppoe-server-options
      cat >/run/kea/pattern <<'end'
      {"Dhcp6": {"server-id": {"type": "EN", "enterprise-id": 32473, "identifier": "01", "persist": false},
      "interfaces-config": {"interfaces": ["INTERFACE"], "service-sockets-max-retries": 1000, "service-sockets-retry-wait-time": 100},
      "lease-database": {"type": "memfile", "persist": false},
      "option-data": [{"name": "dns-servers", "data": "2001:db8:53::53"}],
      "subnet6": [{"subnet": "2001:db8:1::/64", "interface": "INTERFACE", "pd-pools": [{"prefix": "2001:db8:a000::", "prefix-len": 56, "delegated-len": 56}]}]}}
      end
      cat >/etc/ppp/ipv6-up <<'end'
      #!/bin/sh
      # The servers of a session that has ended may still be there, and this session's interface may have another number.
      for pid in $(cat /run/kea/pid /run/kea/dnsmasq.pid 2>/dev/null); do
        kill -9 $pid
        while [ -e /proc/$pid/exe ]; do sleep 0.1; done
      done
      sed "s/INTERFACE/$1/" /run/kea/pattern >/run/kea/kea.json
      ip -6 address flush dev $1 # Kea takes the far end's address for the own one
      ip -6 address add $4/64 dev $1 nodad
      ip -6 address add 2001:db8:1::1/64 dev $1 nodad
      ip -6 route replace 2001:db8:a000::/56 via $5 dev $1
      dnsmasq -C /dev/null --pid-file=/run/kea/dnsmasq.pid --user=root --port=0 --interface=$1 --bind-interfaces --enable-ra --dhcp-range=2001:db8:1::,ra-only --ra-param=$1,4,60 --dhcp-leasefile=/run/kea/leases
      KEA_PIDFILE_DIR=/run/kea KEA_LOCKFILE_DIR=none KEA_LOGGER_DESTINATION=/run/kea/log setsid /usr/sbin/kea-dhcp6 -c /run/kea/kea.json >/run/kea/output 2>&1 &
      echo $! >/run/kea/pid
      end
      chmod 755 /etc/ppp/ipv6-up
      sysctl -qw net.ipv6.conf.all.forwarding=1
      pppoe-server -I line -L 10.64.0.1 -R 10.64.0.100 -N 5
  right: {runs: host, ports: {eth0: [2001:db8:2::2/64]}, gateway: ["2001:db8:2::1"]}
  router:
    runs: minne
    machine: uml
    secrets: |
      isp: anything
    config: |
      version: 1
      interfaces:
        p1: {delegated-prefix: {from: isp, subnet: 1}}
        wan: {}
        isp: {pppoe: {parent: wan, user: line@isp, secret: isp}, dhcpv6: {prefix-length: 56}}
      fast-path: {mode: generic}
links:
  - {ends: [left.eth0, router.p1]}
  - {ends: [router.wan, provider.line]}
  - {ends: [provider.core, right.eth0]}
`)
	t.Cleanup(func() {
		if t.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			for node, script := range map[string]string{
				"provider": "ip address; tail -n 40 /run/kea/output /run/kea/log",
				"router":   "ip address; cat /run/minne-guest/run/minne/services/dhcpv6-isp/output",
			} {
				out, err := b.Node(node).Run(ctx, "sh", "-c", script)
				t.Logf("%s: %v\n%s", node, err, out)
			}
		}
	})
	prefix := func() (p dhcpv6client.Prefix) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var o dhcpv6client.Observed
		if err := b.router.JSON(ctx, &o, "show", "ipv6", "prefixes"); err == nil && len(o.Prefixes) == 1 {
			p = o.Prefixes[0]
		}
		return p
	}
	delegated := func() error {
		if p := prefix(); !p.Used || p.Prefix != netip.MustParsePrefix("2001:db8:a000::/56") || len(p.Networks) != 1 {
			return fmt.Errorf("%+v", p)
		}
		return nil
	}
	b.until(t, "the prefix", delegated)
	b.talk(t, "left", "right", "2001:db8:2::2", fast)
	// The interface of the session has no MAC address to make the router's identifier (DUID) of: it is that of the port.
	identifier := "duid=[00:03:00:01:" + strings.TrimSpace(b.run(t, "router", "cat", "/sys/class/net/wan/address")) + "]"
	if out := b.run(t, "provider", "cat", "/run/kea/log", "/run/kea/output"); !strings.Contains(out, identifier) {
		t.Errorf("no %s in the server's log:\n%s", identifier, out)
	}

	b.run(t, "provider", "sh", "-c", `for p in /proc/[0-9]*; do if [ "$(cat $p/comm 2>/dev/null)" = pppd ]; then kill ${p#/proc/}; fi; done`)
	b.until(t, "the end of the session", func() error {
		if out := b.run(t, "router", "cat", "/proc/net/pppoe"); strings.Count(out, "\n") > 1 {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	b.until(t, "the prefix again", delegated)
	b.talk(t, "left", "right", "2001:db8:2::2", fast)
}
