// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// With a firewall, the far end of a tunnel reaches what its zone may, and another sender of such packets nothing; what a
// hand changes at the tunnel is put back.
func TestTunnel(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	lan, wan := b.newNeighbour("lan"), b.newNeighbour("wan")
	lan.run("ip addr add 192.0.2.9/24 dev eth0 && ip route add default via 192.0.2.1")
	wan.run("ip addr add 198.51.100.9/24 dev eth0 && ip addr add 198.51.100.8/24 dev eth0")
	tunnelFrom := func(address string) {
		wan.run("ip link add far type vxlan id 42 dstport 4789 local " + address + " remote 198.51.100.1 && ip link set far address 02:00:00:00:07:07 up && ip addr add 10.9.0.2/24 dev far && ip route add 192.0.2.0/24 via 10.9.0.1")
	}
	text := func(more string) string {
		return b.file("router.yaml", `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24], zone: lan}
  wan: {addresses: [198.51.100.1/24], zone: wan}
  branch:
    addresses: [10.9.0.1/24]
    zone: branch
    tunnel: {type: vxlan, id: 42, local: 198.51.100.1, remote: 198.51.100.9`+more+`}
firewall:
  policies:
    - {from: branch, to: lan, default: permit}
    - {from: wan, to: any, default: deny}
fast-path: {mode: generic}
`)
	}
	b.start()
	b.want(0, "VXLAN 42 on UDP port 4789 as branch", "apply", "--dry-run", text(", interfaces: [wan]"))
	b.want(0, "applied", "apply", text(", interfaces: [wan]"))
	b.want(0, "nothing to change", "apply", text(", interfaces: [wan]"))

	tunnelFrom("198.51.100.9")
	pings := func() bool {
		_, err := wan.try("ping -n -c 1 -W 1 192.0.2.9")
		return err == nil
	}
	eventually(t, "the far end reaches the lan", pings)
	wan.run("ip link del far")
	tunnelFrom("198.51.100.8")
	for range 3 {
		if pings() {
			t.Fatal("another sender reaches the lan through the tunnel")
		}
	}
	wan.run("ip link del far")
	tunnelFrom("198.51.100.9")
	eventually(t, "the far end reaches the lan again", pings)

	// Without interfaces the firewall lets nothing in that the far end begins.
	b.want(0, "applied", "apply", text(""))
	wan.run("ip link del far")
	tunnelFrom("198.51.100.9")
	b.inside("conntrack -D -p udp")
	if pings() {
		t.Error("the firewall is open without interfaces")
	}
	b.want(0, "applied", "apply", text(", interfaces: [wan]"))
	eventually(t, "the far end reaches the lan once more", pings)
	b.inside("ip link del branch")
	eventually(t, "the tunnel is back after another hand removed it", pings)
	b.want(0, "- tunnel branch", "apply", b.config("without", "192.0.2.1/24", "198.51.100.1/24"))
}
