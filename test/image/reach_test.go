// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/model/packet"
	"minne/internal/testing/testimage"
)

// guarded is a home router: logins from the LAN, nothing from the WAN.
const guarded = `version: 1
system:
  hostname: edge
  admin: {ssh-keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DMROe4n8DRQ2eWrsuoqFhVoUyYGIPRB pat@laptop"]}
interfaces:
  wan: {match: {mac: "52:54:00:00:00:01"}, addresses: [198.51.100.2/24], zone: wan}
  lan: {match: {mac: "52:54:00:00:00:02"}, addresses: [192.0.2.1/24], zone: lan}
firewall:
  policies:
    - {from: lan, to: wan, default: permit}
services:
  ssh: {interfaces: [lan]}
  dns: {interfaces: [lan], upstream: [198.51.100.1]}
  dhcp:
    lan: {pool: 192.0.2.100-192.0.2.199}
  ntp: {servers: [198.51.100.1], interfaces: [lan]}
`

// TestClosed knocks at every TCP port from the WAN and finds none open; from the LAN
// it finds the ones that are meant to be.
func TestClosed(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: testimage.Copy(t), Ports: 2})
	shell(m)
	configure(m, guarded)
	m.Run("until ss -lnt | grep -q 192.0.2.1:22; do sleep 1; done")
	t.Log(m.Run("ss -lntup"))
	wan := host{t: t, port: m.Ports[0], name: "wan", mac: hostMAC(0)}
	lan := host{t: t, port: m.Ports[1], name: "lan", mac: hostMAC(1)}
	every := make([]int, 0, 65535)
	for p := 1; p < 65536; p++ {
		every = append(every, p)
	}
	if answered := knock(t, lan, "192.0.2.77", "192.0.2.1", testimage.PortMAC(1), []int{22, 23, 53, 80, 443}); !slices.Equal(answered, []int{22, 53}) {
		t.Errorf("open from the LAN: %v, want 22 and 53", answered)
	}
	if answered := knock(t, wan, "198.51.100.9", "198.51.100.2", testimage.PortMAC(0), every); len(answered) > 0 {
		t.Errorf("open from the WAN: %v", answered)
	}
	if answered := knock(t, wan, "198.51.100.9", "192.0.2.1", testimage.PortMAC(0), []int{22, 53, 80}); len(answered) > 0 {
		t.Errorf("open from the WAN at the LAN's address: %v", answered)
	}
}

// TestClosedUDP asks the router's DNS and time servers: from the LAN they answer, from the WAN
// they don't, nor does anything at the ports that routers are known to have open.
func TestClosedUDP(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: testimage.Copy(t), Ports: 2})
	shell(m)
	configure(m, guarded)
	m.Run("until ss -lnu | grep -q ':53 ' && ss -lnu | grep -q ':123 '; do sleep 1; done")
	query := append([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"), "\x04edge\x00\x00\x01\x00\x01"...) // a bare name, which it answers itself
	clock := append([]byte{0x23}, make([]byte, 47)...)                                                             // RFC 5905: version 4, client
	questions := map[uint16][]byte{53: query, 123: clock, 67: query, 69: query, 161: query, 500: query, 520: query, 1900: query, 4500: query, 5353: query, 51820: query}
	wan := host{t: t, port: m.Ports[0], name: "wan", mac: hostMAC(0)}
	lan := host{t: t, port: m.Ports[1], name: "lan", mac: hostMAC(1)}
	answered := func(from host, src, dst, gateway string) (ports []int) {
		source, target := netip.MustParseAddr(src), netip.MustParseAddr(dst)
		for range 8 {
			for port, question := range questions {
				from.datagram(parseMAC(gateway), source, target, 40000, port, question)
			}
			for {
				frame := from.await(src, time.Second)
				if frame == nil {
					break
				}
				ports = append(ports, int(binary.BigEndian.Uint16(frame[34:])))
			}
		}
		slices.Sort(ports)
		return slices.Compact(ports)
	}
	if got := answered(lan, "192.0.2.77", "192.0.2.1", testimage.PortMAC(1)); !slices.Contains(got, 53) || !slices.Contains(got, 123) {
		t.Errorf("answered to the LAN: %v, want 53 and 123", got)
	}
	for _, dst := range []string{"198.51.100.2", "192.0.2.1"} {
		if got := answered(wan, "198.51.100.9", dst, testimage.PortMAC(0)); len(got) > 0 {
			t.Errorf("answered to the WAN at %s: %v", dst, got)
		}
	}
}

// TestHelp has a configuration that nobody can read. The console says so and where to
// log in; that port takes a login and nothing else.
func TestHelp(t *testing.T) {
	m := testimage.Boot(t, testimage.Options{Disk: testimage.Copy(t), Ports: 2})
	shell(m)
	m.Run("mount -o remount,rw /config && echo 'version: [' >/etc/minne/minne.yaml && sync && mount -o remount,ro /config")
	m.Type("reboot\n")
	said := m.Expect(`(?s)no configuration could be used.*SSH as admin at (\S+)\s+on port (\S+), with the password (\w+)\s`)
	t.Logf("%q", said[0])
	router := host{t: t, port: m.Ports[0], name: said[2], mac: hostMAC(0)}
	if answered := knock(t, router, "192.168.77.9", said[1], testimage.PortMAC(0), []int{21, 22, 23, 53, 80, 179, 443, 2601}); !slices.Equal(answered, []int{22}) {
		t.Errorf("open on the port of help: %v, want 22", answered)
	}
	signIn(m, said[3])
	configure(m, plain)
	forwards(t, m)
	if out := m.Run("ip address; ss -lnt"); strings.Contains(out, "192.168.77.1") || strings.Contains(out, ":22 ") {
		t.Errorf("help goes on on a router that works:\n%s", out)
	}
}

// knock sends a TCP SYN to each port and returns those that answered with SYN and ACK.
func knock(t *testing.T, from host, src, dst, gateway string, ports []int) []int {
	t.Helper()
	var open []int
	source, target := netip.MustParseAddr(src), netip.MustParseAddr(dst)
	listen := func(wait time.Duration) {
		limit := time.Now().Add(wait)
		for {
			frame := from.port.Receive(time.Until(limit))
			if frame == nil {
				return
			}
			if from.neighbour(frame) || len(frame) < 54 || binary.BigEndian.Uint16(frame[12:]) != typeIPv4 || netip.AddrFrom4([4]byte(frame[26:30])) != target {
				continue
			}
			if frame[23] == 6 && frame[47]&0x12 == 0x12 {
				open = append(open, int(binary.BigEndian.Uint16(frame[34:])))
			}
		}
	}
	rounds := 1
	if len(ports) < 100 {
		rounds = 8 // a busy emulator may lose some
	}
	for range rounds {
		for batch := range slices.Chunk(ports, 64) {
			for _, port := range batch {
				from.send(packet.Ethernet{Dst: parseMAC(gateway), Src: from.mac, Type: typeIPv4}.Append(nil, syn(source, target, port)))
			}
			listen(20 * time.Millisecond)
		}
		listen(4 * time.Second)
	}
	slices.Sort(open)
	return slices.Compact(open)
}

// syn is a TCP SYN (RFC 9293).
func syn(src, dst netip.Addr, port int) []byte {
	tcp := make([]byte, 20)
	binary.BigEndian.PutUint16(tcp, 40000)
	binary.BigEndian.PutUint16(tcp[2:], uint16(port))
	binary.BigEndian.PutUint32(tcp[4:], 1)
	tcp[12], tcp[13] = 0x50, 0x02
	binary.BigEndian.PutUint16(tcp[14:], 65535)
	binary.BigEndian.PutUint16(tcp[16:], packet.UpperChecksum(src, dst, 6, tcp))
	return packet.IPv4{TTL: 64, Protocol: 6, Src: src, Dst: dst}.Append(nil, tcp)
}
