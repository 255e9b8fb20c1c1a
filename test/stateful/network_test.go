// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
)

// network is a router with hosts that have stacks of their own:
//
//	client ── lan ROUTER wan ── isp ── far
//	               dmz
//	                └── beside
//
// Connections from lan to wan are translated, those to dmz are not. Two doors lead
// from the router's outside addresses to the client.
type network struct {
	*router
	client, isp, far, beside *namespace
}

// The client's address for its peers outside is the router's.
const (
	clientV4, clientV6   = "192.0.2.10", "2001:db8:1::10"
	outsideV4, outsideV6 = "198.51.100.1", "2001:db8:2::1"
	ispV4, ispV6         = "198.51.100.9", "2001:db8:2::9"
	farV4, farV6         = "203.0.113.9", "2001:db8:9::9"
	besideV4, besideV6   = "198.18.0.9", "2001:db8:3::9"
)

const networkConfig = `version: 1
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24, "2001:db8:1::1/64"]}
  wan: {zone: wan, addresses: [198.51.100.1/24, "2001:db8:2::1/64"]}
  dmz: {zone: dmz, addresses: [198.18.0.1/24, "2001:db8:3::1/64"]}
routing:
  static:
    - {prefix: 203.0.113.0/24, via: [198.51.100.9]}
    - {prefix: "2001:db8:9::/64", via: ["2001:db8:2::9"]}
firewall:
  defaults: {log: off}
  policies:
    - from: lan
      to: [wan, dmz]
      rules:
        - permit any
    - from: wan
      to: lan
      rules:
        - permit tcp/udp any 192.0.2.10,2001:db8:1::10 80,5201
nat:
  - {from: lan, to: wan, masquerade: true, families: [ipv4, ipv6]}
  - {from: wan, forward: {protocol: tcp, port: 8080, target: 192.0.2.10, target-port: 80}}
  - {from: wan, forward: {protocol: tcp, port: 8080, target: "2001:db8:1::10", target-port: 80}}
  - {from: wan, forward: {protocol: tcp, port: 5201, target: 192.0.2.10}}
  - {from: wan, forward: {protocol: udp, port: 5201, target: 192.0.2.10}}
  - {from: wan, forward: {protocol: tcp, port: 5201, target: "2001:db8:1::10"}}
  - {from: wan, forward: {protocol: udp, port: 5201, target: "2001:db8:1::10"}}
`

// forbidding is the configuration with another first rule for what the client begins.
func forbidding(rule string) string {
	return strings.Replace(networkConfig, "        - permit any\n", "        - "+rule+"\n        - permit any\n", 1)
}

// newNetwork starts it; settings of the router's kernel are made before it has its configuration.
func newNetwork(t *testing.T, settings ...string) *network {
	t.Helper()
	n := &network{router: newRouter(t), client: newNamespace(t), isp: newNamespace(t), far: newNamespace(t), beside: newNamespace(t)}
	n.isp.sysctl("net/ipv4/ip_forward", "1", "net/ipv6/conf/all/forwarding", "1", "net/ipv4/icmp_ratelimit", "0", "net/ipv6/icmp/ratelimit", "0")
	for i, p := range []struct {
		name string
		host *namespace
	}{{"lan", n.client}, {"wan", n.isp}, {"dmz", n.beside}} {
		n.ip(fmt.Sprintf("link add %s address %s type veth peer name eth0 address %s netns %s", p.name, portMAC(i), hostMAC(i), p.host.path()))
	}
	n.isp.ip("link add eth1 type veth peer name eth0 netns " + n.far.path())
	n.client.plug("eth0", clientV4+"/24", clientV6+"/64")
	n.isp.plug("eth0", ispV4+"/24", ispV6+"/64")
	n.isp.plug("eth1", "203.0.113.1/24", "2001:db8:9::1/64")
	n.far.plug("eth0", farV4+"/24", farV6+"/64")
	n.beside.plug("eth0", besideV4+"/24", besideV6+"/64")
	n.client.ip("route add default via 192.0.2.1", "route add default via 2001:db8:1::1")
	n.far.ip("route add default via 203.0.113.1", "route add default via 2001:db8:9::1")
	n.beside.ip("route add default via 198.18.0.1", "route add default via 2001:db8:3::1")
	n.sysctl(settings...)
	n.apply(networkConfig)
	// Neighbours that never need to be asked again: no packet goes to the kernel to refresh them.
	for i, lines := range [][]string{{"lan", clientV4, clientV6}, {"wan", ispV4, ispV6}, {"dmz", besideV4, besideV6}} {
		for _, address := range lines[1:] {
			n.ip(fmt.Sprintf("neighbour replace %s lladdr %s dev %s nud permanent", address, hostMAC(i), lines[0]))
		}
	}
	n.everyICMPError()
	n.awaitFastPath("lan", "wan", "dmz")
	for _, address := range []string{farV4, farV6, besideV4, besideV6} {
		eventually(t, address+" refuses the client", func() bool { // IPv6 is there a second after its link
			return errors.Is(n.client.try(func() error {
				c, err := net.DialTimeout("tcp", net.JoinHostPort(address, "9"), time.Second)
				if err == nil {
					c.Close()
				}
				return err
			}), unix.ECONNREFUSED)
		})
	}
	return n
}

func hostMAC(i int) packet.MAC { return packet.MAC{2, 0, 0, 0, 3, byte(i)} }

// plug makes a host's link work as a cable does: a veth passes on checksums not yet
// computed, which XDP would see. GRO makes it take frames that XDP redirects to it.
func (ns *namespace) plug(link string, addresses ...string) {
	ns.t.Helper()
	ns.run("", "ethtool", "-K", link, "tx", "off", "gro", "on")
	for _, a := range addresses {
		ns.ip(fmt.Sprintf("address add %s dev %s", a, link) + map[bool]string{true: " nodad"}[strings.Contains(a, ":")])
	}
	ns.ip("link set " + link + " up")
}

// dial opens a connection from a host.
func (ns *namespace) dial(network, address string) net.Conn {
	ns.t.Helper()
	var c net.Conn
	ns.do(func() (err error) {
		c, err = net.DialTimeout(network, address, 10*time.Second)
		return err
	})
	ns.t.Cleanup(func() { c.Close() })
	return c
}

// listen takes connections on a host.
func (ns *namespace) listen(address string) net.Listener {
	ns.t.Helper()
	var l net.Listener
	ns.do(func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	ns.t.Cleanup(func() { l.Close() })
	return l
}

// packets takes datagrams on a host.
func (ns *namespace) packets(address string) *net.UDPConn {
	ns.t.Helper()
	var c net.PacketConn
	ns.do(func() (err error) {
		c, err = net.ListenPacket("udp", address)
		return err
	})
	ns.t.Cleanup(func() { c.Close() })
	u := c.(*net.UDPConn)
	must(ns.t, u.SetReadBuffer(4<<20))
	return u
}
