// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"minne/internal/base/ethtool"
	"minne/internal/model/packet"
)

const leftToHardware = Reason(routerReasonREASON_CHECKSUM_OFFLOAD)

// host moves the far end of a port into a namespace of its own, with all that hardware is said to do there
// left on, as a container has it.
func (b *bench) host(far netlink.Link, mac net.HardwareAddr, commands ...string) netns.NsHandle {
	b.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	must(b.t, err)
	defer here.Close()
	host, err := netns.New()
	must(b.t, err)
	must(b.t, netns.Set(here))
	b.t.Cleanup(func() { host.Close() })
	must(b.t, netlink.LinkSetNsFd(far, int(host)))
	name := far.Attrs().Name
	inside(b.t, host, func() {
		c := exec.Command("ip", "-batch", "-")
		c.Stdin = strings.NewReader("link set dev lo up\nlink set dev " + name + " address " + mac.String() + "\nlink set dev " + name + " up\n" +
			strings.Join(commands, "\n") + "\n")
		if out, err := c.CombinedOutput(); err != nil {
			b.t.Errorf("host behind %s: %v\n%s", name, err, out)
		}
		receiveRedirects(b.t, name)
	})
	return host
}

// inside runs do with its thread in a namespace.
func inside(t testing.TB, ns netns.NsHandle, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	must(t, err)
	defer here.Close()
	must(t, netns.Set(ns))
	defer func() { must(t, netns.Set(here)) }()
	do()
}

// transfer sends bytes from one host to another and back over TCP, and wants them to be what they were.
func transfer(t *testing.T, from, to netns.NsHandle, address string) {
	t.Helper()
	text := make([]byte, 300_000)
	for i := range text {
		text[i] = byte(rand.Uint32())
	}
	var l net.Listener
	inside(t, to, func() {
		var err error
		l, err = net.Listen("tcp", address)
		must(t, err)
	})
	defer l.Close()
	deadline := time.Now().Add(30 * time.Second)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(deadline)
		_, _ = io.CopyN(c, c, int64(len(text)))
	}()
	var c net.Conn
	inside(t, from, func() {
		var err error
		c, err = net.DialTimeout("tcp", address, 30*time.Second)
		must(t, err)
	})
	defer c.Close()
	must(t, c.SetDeadline(deadline))
	go func() { _, _ = c.Write(text) }()
	back := make([]byte, len(text))
	if n, err := io.ReadFull(c, back); err != nil || !bytes.Equal(back, text) {
		t.Errorf("to %s: %d of %d bytes came back, %v", address, n, len(text), err)
	}
}

// TestContainersLeaveChecksums: hosts behind veths that leave checksums and segmentation to hardware talk through the
// router, with translation and without.
func TestContainersLeaveChecksums(t *testing.T) {
	for _, c := range []struct {
		name  string
		bench func(t *testing.T) *bench
	}{
		{"routed", func(t *testing.T) *bench { return newBench(t) }},
		{"masqueraded", func(t *testing.T) *bench {
			return newFlowBench(t, masquerading, stateful(true)).bench
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.bench(t)
			from := b.host(b.a, macA, "addr add 192.0.2.2/24 dev a", "route add default via 192.0.2.1")
			to := b.host(b.b, macB, "addr add 198.51.100.2/24 dev b", "route add default via 198.51.100.1")
			for _, h := range []struct {
				ns         netns.NsHandle
				name       string
				address, g string
			}{{from, "a", "2001:db8:a::2/64", "2001:db8:a::1"}, {to, "b", "2001:db8:b::2/64", "2001:db8:b::1"}} {
				inside(t, h.ns, func() {
					sysctl(t, "ipv6/conf/"+h.name+"/disable_ipv6", "0")
					ip(t, "addr", "add", h.address, "dev", h.name, "nodad")
					ip(t, "-6", "route", "add", "default", "via", h.g)
				})
			}
			before := b.countOf(leftToHardware)
			transfer(t, from, to, "198.51.100.2:7000")
			transfer(t, from, to, "[2001:db8:b::2]:7001")
			if b.countOf(leftToHardware) == before {
				t.Errorf("no packet is counted as %s", leftToHardware)
			}
			for host, name := range map[netns.NsHandle]string{from: "a", to: "b"} {
				inside(t, host, func() {
					turn(t, name, ethtool.TransmitChecksum, false)
				})
			}
			sent, port := b.fastPackets(b.out), 7001
			eventually(t, fmt.Sprintf("no packet is counted as %s, as the hosts complete them", leftToHardware), func() bool {
				before := b.countOf(leftToHardware) // the connections before may still send their last packets
				transfer(t, from, to, fmt.Sprintf("198.51.100.2:%d", port+1))
				transfer(t, from, to, fmt.Sprintf("[2001:db8:b::2]:%d", port+2))
				port += 2
				return b.countOf(leftToHardware) == before
			})
			if b.fastPackets(b.out) == sent {
				t.Error("the fast path forwards nothing when the hosts complete their checksums")
			}
		})
	}
}

// hardware makes the ports be taken for ones of hardware: of the random packets of a test one in 65,536 looks unsummed.
func (b *bench) hardware() {
	b.t.Helper()
	must(b.t, b.fast.withTables(func() error {
		for ifindex, p := range b.fast.ports {
			p.unsummed = false
			delete(b.fast.tables.unsummed, ifindex)
		}
		b.fast.tables.renderLinks()
		return nil
	}))
}

// countOf is how many packets had a reason.
func (b *bench) countOf(r Reason) uint64 {
	b.t.Helper()
	o, err := b.fast.Observe(context.Background())
	must(b.t, err)
	for _, one := range o.Reasons {
		if one.Reason == r.String() {
			return one.Count
		}
	}
	return 0
}

// unfinished is a frame whose innermost checksum is left to hardware: at where it is summed from, and where the sum goes.
type unfinished struct {
	name      string
	frame     []byte
	from, sum int
}

// leave makes a frame one whose innermost segment or datagram is not summed yet: Linux then has the sum of the
// pseudo header in the field.
func leave(name string, frame []byte, inner, sum int, src, dst string, protocol uint8) unfinished {
	length := len(frame) - inner
	var total uint64
	for _, a := range []string{src, dst} {
		b := netip.MustParseAddr(a).AsSlice()
		for i := 0; i < len(b); i += 2 {
			total += uint64(binary.BigEndian.Uint16(b[i:]))
		}
	}
	total += uint64(length) + uint64(protocol)
	for total>>16 != 0 {
		total = total&0xffff + total>>16
	}
	binary.BigEndian.PutUint16(frame[inner+sum:], uint16(total))
	return unfinished{name, frame, inner, sum}
}

// unfinishedFrames are such frames of all kinds that Linux sends, and beside each the same with its checksum complete.
func unfinishedFrames() (list []unfinished, complete [][]byte) {
	const a4, b4, a6, b6 = "192.0.2.2", "198.51.100.2", "2001:db8:a::2", "2001:db8:b::2"
	payload := []byte("a payload of odd length")
	src4, dst4, src6, dst6 := netip.MustParseAddr(a4), netip.MustParseAddr(b4), netip.MustParseAddr(a6), netip.MustParseAddr(b6)
	tcp4 := packet.TCP{SrcPort: 4000, DstPort: 80, Flags: packet.ACK}.Append(nil, src4, dst4, payload)
	tcp6 := packet.TCP{SrcPort: 4000, DstPort: 80, Flags: packet.ACK}.Append(nil, src6, dst6, payload)
	udp4 := packet.UDP{SrcPort: 4000, DstPort: 53}.Append(nil, src4, dst4, payload)
	udp6 := packet.UDP{SrcPort: 4000, DstPort: 53}.Append(nil, src6, dst6, payload)
	in4 := func(protocol uint8, upper []byte) []byte {
		return packet.IPv4{TTL: 64, Protocol: protocol, Src: src4, Dst: dst4}.Append(nil, upper)
	}
	in6 := func(protocol uint8, upper []byte) []byte {
		return packet.IPv6{NextHeader: protocol, HopLimit: 64, Src: src6, Dst: dst6}.Append(nil, upper)
	}
	ethernet := func(kind uint16, ip []byte) []byte {
		return packet.Ethernet{Dst: packet.MAC(macIn), Src: packet.MAC(macA), Type: kind}.Append(nil, ip)
	}
	four, six := func(ip []byte) []byte { return ethernet(packet.TypeIPv4, ip) }, func(ip []byte) []byte { return ethernet(packet.TypeIPv6, ip) }
	gre := func(flags byte, kind uint16, inner []byte) []byte {
		h := []byte{flags, 0, byte(kind >> 8), byte(kind)}
		for _, bit := range []byte{0x80, 0x20, 0x10} {
			if flags&bit != 0 {
				h = append(h, 0, 0, 0, 0)
			}
		}
		return append(h, inner...)
	}
	tunnel := func(port uint16, header, inner []byte) []byte {
		all := append(bytes.Clone(header), inner...)
		u := packet.UDP{SrcPort: 4000, DstPort: port}.Append(nil, src4, dst4, all)
		u[6], u[7] = 0, 0
		return u
	}
	vxlan := []byte{8, 0, 0, 0, 0, 0, 7, 0}
	geneve := []byte{1, 0, 0x65, 0x58, 0, 0, 7, 0, 0, 0, 0, 0}
	options := append([]byte{packet.ProtoTCP, 0, 1, 4, 0, 0, 0, 0}, tcp6...)
	for _, k := range []struct {
		name     string
		frame    []byte
		upper    int // length of the innermost TCP or UDP
		six, udp bool
	}{
		{"TCP", four(in4(packet.ProtoTCP, tcp4)), len(tcp4), false, false},
		{"UDP", four(in4(packet.ProtoUDP, udp4)), len(udp4), false, true},
		{"TCP over IPv6", six(in6(packet.ProtoTCP, tcp6)), len(tcp6), true, false},
		{"UDP over IPv6", six(in6(packet.ProtoUDP, udp6)), len(udp6), true, true},
		{"TCP behind destination options", six(in6(60, options)), len(tcp6), true, false},
		{"TCP in IP in IP", four(in4(4, in4(packet.ProtoTCP, tcp4))), len(tcp4), false, false},
		{"UDP over IPv6 in IP", four(in4(41, in6(packet.ProtoUDP, udp6))), len(udp6), true, true},
		{"TCP in GRE", four(in4(47, gre(0, packet.TypeIPv4, in4(packet.ProtoTCP, tcp4)))), len(tcp4), false, false},
		{"TCP in GRE with key and number, over IPv6", six(in6(47, gre(0x30, packet.TypeIPv6, in6(packet.ProtoTCP, tcp6)))), len(tcp6), true, false},
		{"TCP in Ethernet in GRE", four(in4(47, gre(0x20, 0x6558, four(in4(packet.ProtoTCP, tcp4))))), len(tcp4), false, false},
		{"TCP in VXLAN", four(in4(packet.ProtoUDP, tunnel(4789, vxlan, four(in4(packet.ProtoTCP, tcp4))))), len(tcp4), false, false},
		{"UDP in VXLAN by Linux's port", four(in4(packet.ProtoUDP, tunnel(8472, vxlan, six(in6(packet.ProtoUDP, udp6))))), len(udp6), true, true},
		{"TCP in Geneve with an option", four(in4(packet.ProtoUDP, tunnel(6081, geneve, four(in4(packet.ProtoTCP, tcp4))))), len(tcp4), false, false},
	} {
		if k.name == "TCP in Geneve with an option" {
			k.frame[14+20+8] = 1 // one word of options
		}
		complete = append(complete, bytes.Clone(k.frame))
		src, dst, protocol, sum := a4, b4, uint8(packet.ProtoTCP), 16
		if k.six {
			src, dst = a6, b6
		}
		if k.udp {
			protocol, sum = packet.ProtoUDP, 6
		}
		list = append(list, leave(k.name, bytes.Clone(k.frame), len(k.frame)-k.upper, sum, src, dst, protocol))
	}
	return list, complete
}

// TestChecksumsLeftToHardware: frames whose sender leaves the checksum to hardware are the kernel's, which knows, and arrive
// with a checksum that is right. The same with their checksum complete are forwarded, and so is all from a port of hardware.
func TestChecksumsLeftToHardware(t *testing.T) {
	b := newBench(t)
	wireB := newWire(t, b.b)
	sender := newOffloading(t, b.a)
	turn(t, "out", ethtool.TransmitChecksum, false) // the kernel completes what it forwards
	list, complete := unfinishedFrames()
	b.awaitForwarding()
	for i, u := range list {
		b.expect(u.frame, b.in, leftToHardware)
		b.expect(complete[i], b.in, Forwarded)
		sender.send(u)
		got := wireB.next(10*time.Second, addressed(macB))
		want := b.expect(complete[i], b.in, Forwarded).Packet
		if !bytes.Equal(got, want) {
			t.Errorf("%s: arrives as\n%x, expected\n%x", u.name, got, want)
		}
	}
	sctp := parcel{from: "192.0.2.2:0", to: "198.51.100.2:0", protocol: 132}.toB()
	b.expect(sctp, b.in, Forwarded)
	copy(sctp[14+20+8:], []byte{0, 0, 0, 0}) // its CRC
	b.expect(sctp, b.in, leftToHardware)
	if got := b.countOf(leftToHardware); got != uint64(len(list)) {
		t.Errorf("%d packets are counted as %s, expected %d", got, leftToHardware, len(list))
	}
	b.hardware()
	for _, u := range list {
		b.expect(u.frame, b.in, Forwarded)
	}
}

// offloading sends frames whose checksum is left to hardware (struct virtio_net_hdr of a packet socket).
type offloading struct{ *wire }

func newOffloading(t testing.TB, l netlink.Link) offloading {
	w := newWire(t, l)
	must(t, unix.SetsockoptInt(w.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1))
	return offloading{w}
}

func (o offloading) send(u unfinished) {
	o.t.Helper()
	header := []byte{1 /* VIRTIO_NET_HDR_F_NEEDS_CSUM */, 0, 0, 0, 0, 0}
	header = binary.NativeEndian.AppendUint16(header, uint16(u.from))
	header = binary.NativeEndian.AppendUint16(header, uint16(u.sum))
	o.wire.send(append(header, u.frame...))
}

// TestWhoMayLeaveChecksums: drivers by what they may hand to XDP.
func TestWhoMayLeaveChecksums(t *testing.T) {
	for _, c := range []struct {
		driver, bus string
		want        bool
	}{
		{"veth", "", true}, {"tun", "tap", true}, {"virtio_net", "0000:00:03.0", true}, {"unknown", "", true},
		{"ixgbe", "0000:01:00.0", false}, {"r8152", "usb-0000:00:14.0-1", false}, {"mvneta", "f1070000.ethernet", false},
	} {
		if got := leavesSums(c.driver, c.bus); got != c.want {
			t.Errorf("%s at %q: %t, expected %t", c.driver, c.bus, got, c.want)
		}
	}
	b := newBench(t)
	if driver, bus := driverOf("in"), busOf("in"); driver != "veth" || bus != "" {
		t.Errorf("a veth is told as driver %q at %q", driver, bus)
	}
	must(t, b.fast.Apply(context.Background(), func() Desired { d := b.desired(); d.Mode = "generic"; return d }()))
	b.expect(func() []byte { l, _ := unfinishedFrames(); return l[0].frame }(), b.in, leftToHardware)
}
