// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"minne/internal/model/packet"
)

// inVRFs are services on interfaces of two VRFs that have the same addresses. The ports have names of their own: those of a test
// stay in the guest until it ends.
var inVRFs = strings.NewReplacer("vs", "ws", "vb", "wb").Replace(twinVRFs) + `
services:
  dhcp-relay:
    ws0: {servers: [10.0.81.2], option-82: {}}
    wb0: {servers: [10.0.81.2], option-82: {}}
  irdp:
    wb0: {preference: 3}
`

var everybodyMAC = packet.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// discover is a request of a DHCP client with a MAC address, as its cable carries it.
func discover(mac packet.MAC) []byte {
	b := make([]byte, 240)
	b[0], b[1], b[2] = 1, 1, 6 // request, Ethernet
	copy(b[28:], mac[:])
	copy(b[236:], []byte{99, 130, 83, 99})
	b = append(b, 53, 1, 1, 255)
	from, to := netip.IPv4Unspecified(), netip.AddrFrom4([4]byte{255, 255, 255, 255})
	datagram := packet.UDP{SrcPort: 68, DstPort: 67}.Append(nil, from, to, b)
	ip := packet.IPv4{Src: from, Dst: to, TTL: 64, Protocol: packet.ProtoUDP}.Append(nil, datagram)
	return packet.Ethernet{Src: mac, Dst: everybodyMAC, Type: packet.TypeIPv4}.Append(nil, ip)
}

// TestServicesInVRFs has hosts of two VRFs with the same addresses get an answer of their own VRF's DHCP server, and one find its
// router by ICMP.
func TestServicesInVRFs(t *testing.T) {
	type network struct {
		host   wire
		mac    packet.MAC
		server *net.UDPConn
	}
	networks := map[string]*network{}
	for i, vrf := range []string{"ws", "wb"} {
		left, right := newHost(t, vrf+"0", vrf+"l"), newHost(t, vrf+"1", vrf+"r")
		n := &network{host: left.wire(t), mac: packet.MAC{2, 0, 0, 0, 7, byte(i)}}
		right.do(t, func() {
			addAddress(t, vrf+"r", "10.0.81.2/24")
			addRoute(t, "10.0.80.0/24", "10.0.81.1")
			var err error
			if n.server, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 67}); err != nil {
				t.Fatal(err)
			}
		})
		t.Cleanup(func() { n.server.Close() })
		networks[vrf] = n
	}
	r := startRouter(t)
	r.apply(t, inVRFs)
	for _, vrf := range []string{"ws", "wb", "ws"} {
		n := networks[vrf]
		n.host.send(t, discover(n.mac))
		must(t, n.server.SetReadDeadline(time.Now().Add(time.Minute)))
		b := make([]byte, 1500)
		length, from, err := n.server.ReadFromUDPAddrPort(b)
		if err != nil {
			t.Fatalf("%s: %v", vrf, err)
		}
		b = b[:length]
		if from != netip.MustParseAddrPort("10.0.80.1:67") || [6]byte(b[28:]) != n.mac || !bytes.Contains(b, []byte("\x52\x0c\x01\x03"+vrf+"0\x02\x05stick\xff")) {
			t.Fatalf("%s: the server got from %v %x", vrf, from, b)
		}
		b[0] = 2 // an answer
		copy(b[16:], []byte{10, 0, 80, 50})
		if _, err := n.server.WriteToUDPAddrPort(b, from); err != nil {
			t.Fatal(err)
		}
		const link, header = 14, 28 // bytes
		if heard := n.host.receive(t, func(f []byte) bool {
			return [6]byte(f) == n.mac && len(f) > link+header+240 && binary.BigEndian.Uint16(f[link+22:]) == 68
		}); heard == nil || !bytes.Equal(heard[link+16:link+20], []byte{10, 0, 80, 50}) || bytes.Contains(heard, []byte("stick")) {
			t.Errorf("%s: the host heard %x", vrf, heard)
		}
	}
	r.says(t, "show dhcp-relay", "wb0", "ws0")

	from, to := netip.MustParseAddr("10.0.80.2"), netip.MustParseAddr("224.0.0.2")
	ask := packet.IPv4{Src: from, Dst: to, TTL: 1, Protocol: 1}.Append(nil, []byte{10, 0, 0xf5, 0xff, 0, 0, 0, 0})
	asks := func(n *network) {
		n.host.send(t, packet.Ethernet{Src: n.mac, Dst: packet.MAC{1, 0, 0x5e, 0, 0, 2}, Type: packet.TypeIPv4}.Append(nil, ask))
	}
	advertised := func(f []byte) bool {
		return bytes.Contains(f, []byte("\x0a\x00\x50\x01\x00\x00\x00\x03")) && f[23] == 1
	}
	heard := 0
	until(t, "four advertisements, three of them by itself", func() bool {
		asks(networks["wb"])
		asks(networks["ws"])
		if networks["wb"].host.receive(t, advertised) != nil {
			heard++
		}
		return heard == 4
	})
	if f := networks["ws"].host.receive(t, advertised); f != nil {
		t.Errorf("the other VRF heard %x", f)
	}
	r.apply(t, strings.Split(inVRFs, "services:")[0])
}
