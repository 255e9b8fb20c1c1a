// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"syscall"
	"testing"
)

// Hosts behind a router whose firewall lets nothing out of itself get addresses from a server on another network.
func TestDHCPRelay(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	hosts, campus := b.newNeighbour("lan"), b.newNeighbour("wan")
	campus.run("ip addr add 198.51.100.9/24 dev eth0 && ip addr add 203.0.113.67/32 dev lo && ip route add 192.0.2.0/24 via 198.51.100.1")
	campus.serve("exec dnsmasq -k -C /dev/null --pid-file=" + campus.dir + "/pid --user=root --port=0 --no-ping --log-dhcp --log-facility=" + campus.dir + "/log " +
		"--dhcp-circuitid=set:circuit,lan --dhcp-remoteid=set:remote,border --tag-if=set:here,tag:circuit,tag:remote " +
		"--dhcp-range=tag:here,192.0.2.200,192.0.2.220,255.255.255.0,1h --dhcp-range=tag:!here,192.0.2.100,192.0.2.120,255.255.255.0,1h --dhcp-option=option:router,192.0.2.1 --dhcp-leasefile=" + campus.dir + "/leases")
	text := func(services string) string {
		return b.file("relay.yaml", `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24], zone: lan}
  wan: {addresses: [198.51.100.1/24], zone: wan}
firewall:
  policies:
    - {from: lan, to: wan, default: permit}
    - {from: self, to: any, default: deny}
routing:
  static: [{prefix: 203.0.113.0/24, via: [198.51.100.9]}]
fast-path: {mode: generic}
`+services)
	}
	b.start()
	b.want(0, "DHCP relay", "apply", "--dry-run", text("services: {dhcp-relay: {lan: {servers: [198.51.100.9]}}}\n"))
	b.want(0, "applied", "apply", text("services: {dhcp-relay: {lan: {servers: [198.51.100.9]}}}\n"))
	b.want(0, "nothing to change", "apply", text("services: {dhcp-relay: {lan: {servers: [198.51.100.9]}}}\n"))
	hosts.write("event", `#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr replace $ip/$mask dev $interface
ip route replace default via $router
echo "$ip $router $serverid" >told
`)
	asks := func() bool {
		_, err := hosts.try("chmod +x event && udhcpc -q -n -f -i eth0 -t 3 -T 1 -x hostname:laptop -s $PWD/event")
		return err == nil
	}
	eventually(t, "an address from the server", asks)
	if told := strings.Fields(hosts.run("cat told")); len(told) != 3 || !strings.HasPrefix(told[0], "192.0.2.1") || told[1] != "192.0.2.1" {
		t.Errorf("the host was told %q", told)
	}
	hosts.run("ping -c 1 -W 5 203.0.113.67")
	b.want(0, "DHCP of lan by 198.51.100.9", "show", "services")

	// By option 82 the server knows where the host is; the host does not see it, and may ask for broadcasts.
	b.want(0, "applied", "apply", text("system: {hostname: border}\nservices: {dhcp-relay: {lan: {servers: [198.51.100.9], option-82: {}}}}\n"))
	hosts.write("event", `#!/bin/sh
[ "$1" = bound ] && echo "$ip $(env | grep -ci opt82)" >told
`)
	flags := ""
	marked := func() bool {
		_, err := hosts.try("rm -f told; udhcpc -q -n -f -i eth0 -t 3 -T 1 -O 82 " + flags + " -s $PWD/event")
		if err != nil {
			return false
		}
		told := strings.TrimSpace(hosts.run("cat told"))
		return strings.HasPrefix(told, "192.0.2.2") && strings.HasSuffix(told, " 0")
	}
	eventually(t, "an address of the interface's pool", marked)
	flags = "-B"
	eventually(t, "an address by broadcasts", marked)
	b.end(syscall.SIGKILL)
	b.start()
	eventually(t, "an address after the daemon's death", marked)
	b.want(0, "lan", "show", "dhcp-relay")

	// Without it nobody answers.
	b.want(0, "applied", "apply", text(""))
	if hosts.run("ip addr flush dev eth0"); asks() {
		t.Error("an address without the relay")
	}
	b.want(0, "applied", "apply", text("services: {dhcp-relay: {lan: {servers: [198.51.100.9]}}}\n"))
	eventually(t, "an address from the server again", asks)
}
