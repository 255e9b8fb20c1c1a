// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath"
	"minne/internal/testing/testframes"
)

// twins are two routers that differ in nothing but the fast path: one has it, in
// the other the kernel does everything. Both get the same frames, and what comes
// out of them must be the same, byte for byte.
//
// Behind each port is a wire, not a host: the test sends raw frames and reads all
// that comes out. All of it happens on one CPU, so a router has evaluated a frame and
// sent what it sends before it answers an ARP request that came behind the frame;
// after a second request on every port, everything has also been read.
type twins struct {
	t      *testing.T
	kernel *bed
	fast   *bed
	stamp  uint32 // the last one given
	flows  int    // how many were made
}

// bed is one of the routers with its wires.
type bed struct {
	*router
	far *namespace
	fd  int // packet socket on all wires
}

// The routers' ports. narrow has a small MTU.
const (
	lan = iota
	wan
	dmz
	narrow
	ports
)

var portNames = [ports]string{"lan", "wan", "dmz", "narrow"}

const firstFar = 100 // ifindex of the first wire

func portMAC(port int) packet.MAC { return packet.MAC{2, 0, 0, 0, 1, byte(port)} }

// A router's addresses on its ports.
var own4 = [ports]netip.Addr{addr("192.0.2.1"), addr("198.51.100.1"), addr("203.0.113.1"), addr("198.18.0.1")}
var own6 = [ports]netip.Addr{addr("2001:db8:1::1"), addr("2001:db8:2::1"), addr("2001:db8:3::1"), addr("2001:db8:4::1")}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// machine is what the wires pretend to have on them.
type machine struct {
	port   int
	mac    packet.MAC
	v4, v6 netip.Addr
}

func (m machine) addr(four bool) netip.Addr {
	if four {
		return m.v4
	}
	return m.v6
}

var (
	client   = machine{lan, packet.MAC{2, 0, 0, 0, 2, 1}, addr("192.0.2.10"), addr("2001:db8:1::10")}
	pooled   = machine{lan, packet.MAC{2, 0, 0, 0, 2, 2}, addr("192.0.2.130"), addr("2001:db8:1:0:8000::10")}
	server   = machine{lan, packet.MAC{2, 0, 0, 0, 2, 3}, addr("192.0.2.20"), addr("2001:db8:1::20")}
	outside  = machine{wan, packet.MAC{2, 0, 0, 0, 2, 4}, addr("198.51.100.9"), addr("2001:db8:2::9")}
	beside   = machine{dmz, packet.MAC{2, 0, 0, 0, 2, 5}, addr("203.0.113.9"), addr("2001:db8:3::9")}
	tight    = machine{narrow, packet.MAC{2, 0, 0, 0, 2, 6}, addr("198.18.0.9"), addr("2001:db8:4::9")}
	stranger = machine{wan, packet.MAC{2, 0, 0, 0, 2, 7}, addr("198.51.100.77"), addr("2001:db8:2::77")}
	machines = []machine{client, pooled, server, outside, beside, tight, stranger}
)

const (
	narrowMTU = 1280
	doorPort  = 8080 // of the router, leads to servicePort of server
	service   = 80
)

// twinConfig permits only the machines above, so that no random packet begins a
// connection that shares its translated address with another: whose port the
// kernel then chooses at random.
const twinConfig = `version: 1
fast-path: {%s}
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24, "2001:db8:1::1/64"]}
  wan: {zone: wan, addresses: [198.51.100.1/24, "2001:db8:2::1/64"]}
  dmz: {zone: dmz, addresses: [203.0.113.1/25, "2001:db8:3::1/64"]}
  narrow: {zone: wan, mtu: 1280, addresses: [198.18.0.1/24, "2001:db8:4::1/64"]}
routing:
  static: # errors about a missing route are limited, by time
    - {prefix: 0.0.0.0/0, via: [198.51.100.9]}
    - {prefix: "::/0", via: ["2001:db8:2::9"]}
firewall:
  defaults: {log: off, within: deny}
  icmp-limit: 1000000
  sets:
    hosts: {addresses: [192.0.2.10, 192.0.2.130, "2001:db8:1::10", "2001:db8:1:0:8000::10"]}
    client: {addresses: [192.0.2.10, "2001:db8:1::10"]}
    outside: {addresses: [198.51.100.9, "2001:db8:2::9"]}
    server: {addresses: [192.0.2.20, "2001:db8:1::20"]}
  policies:
    - {from: lan, to: [wan, dmz], rules: [deny tcp/udp any any 666, permit any @hosts]}
    - {from: wan, to: lan, rules: [permit tcp/udp @outside @server 80]}
    - {from: lan, to: lan, rules: [permit tcp/udp @client @server 80]}
nat:
  - {from: lan, to: wan, source: [192.0.2.128/25, "2001:db8:1:0:8000::/65"], pool: [203.0.113.192/28, "2001:db8:f::/64"]}
  - {from: lan, to: wan, masquerade: true, families: [ipv4, ipv6]}
  - {from: [wan, lan], forward: {protocol: tcp, address: 198.51.100.1, port: 8080, target: 192.0.2.20, target-port: 80, hairpin: on}}
  - {from: [wan, lan], forward: {protocol: udp, address: 198.51.100.1, port: 8080, target: 192.0.2.20, target-port: 80, hairpin: on}}
  - {from: [wan, lan], forward: {protocol: tcp, address: "2001:db8:2::1", port: 8080, target: "2001:db8:1::20", target-port: 80, hairpin: on}}
  - {from: [wan, lan], forward: {protocol: udp, address: "2001:db8:2::1", port: 8080, target: "2001:db8:1::20", target-port: 80, hairpin: on}}
`

func newTwins(t *testing.T) *twins {
	t.Helper()
	return newTwinsWith(t, "mode: auto, guard: {mode: off}")
}

// newTwinsWith gives one of them a fast path with these settings.
func newTwinsWith(t *testing.T, fastPath string) *twins {
	t.Helper()
	onOneCPU(t)
	return &twins{t: t, kernel: newBed(t, "mode: off"), fast: newBed(t, fastPath)}
}

// onOneCPU keeps this goroutine on one CPU until the test ends.
func onOneCPU(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &before))
	for cpu := range 1024 {
		if before.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	must(t, unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() {
		_ = unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	})
}

func newBed(t *testing.T, fastPath string) *bed {
	t.Helper()
	b := &bed{router: newRouter(t), far: newNamespace(t)}
	b.far.sysctl("net/ipv6/conf/default/disable_ipv6", "1")
	for i, name := range portNames {
		b.ip(fmt.Sprintf("link add %s index %d address %s type veth peer name w%d index %d netns %s", name, i+10, portMAC(i), i, firstFar+i, b.far.path()))
		b.far.ip(fmt.Sprintf("link set w%d up", i))
	}
	// No connection ends by time in one of the routers and not yet in the other.
	for _, name := range []string{"udp_timeout", "udp_timeout_stream", "icmp_timeout", "icmpv6_timeout", "generic_timeout",
		"tcp_timeout_syn_sent", "tcp_timeout_syn_recv", "tcp_timeout_fin_wait", "tcp_timeout_close_wait", "tcp_timeout_last_ack",
		"tcp_timeout_time_wait", "tcp_timeout_close", "tcp_timeout_max_retrans", "tcp_timeout_unacknowledged"} {
		b.sysctl("net/netfilter/nf_conntrack_"+name, "3600")
	}
	b.passAll()
	b.apply(fmt.Sprintf(twinConfig, fastPath))
	for _, m := range machines {
		b.ip(fmt.Sprintf("neighbour replace %s lladdr %s dev %s nud permanent", m.v4, m.mac, portNames[m.port]),
			fmt.Sprintf("neighbour replace %s lladdr %s dev %s nud permanent", m.v6, m.mac, portNames[m.port]))
	}
	b.everyICMPError()
	if fastPath != "mode: off" {
		b.awaitFastPath(portNames[:]...)
	}
	for i, name := range portNames {
		// What comes in by XDP and goes up must not be merged into larger packets.
		b.run("", "ethtool", "-K", name, "gro", "off")
		b.far.run("", "ethtool", "-K", fmt.Sprintf("w%d", i), "gro", "off")
	}
	b.far.do(b.open)
	t.Cleanup(func() { unix.Close(b.fd) })
	return b
}

// passAll attaches a program that passes everything to the far ends: a veth sends
// redirected frames only to a peer that has one.
func (b *bed) passAll() {
	b.t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, fastpath.ActionPass), asm.Return()}})
	must(b.t, err)
	b.t.Cleanup(func() { prog.Close() })
	b.far.do(func() error {
		for i := range ports {
			l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: firstFar + i, Flags: link.XDPDriverMode})
			if err != nil {
				return err
			}
			b.t.Cleanup(func() { l.Close() })
		}
		return nil
	})
}

const allProtocols = 0x0300 // ETH_P_ALL in network byte order

func (b *bed) open() (err error) {
	b.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, allProtocols)
	return errors.Join(err, unix.SetsockoptInt(b.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
		unix.SetsockoptInt(b.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(b.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1))
}

// frame is one on the wire of a port.
type frame struct {
	port  int
	bytes []byte
	label string // what is sent, for messages
}

func (f frame) String() string { return fmt.Sprintf("%s %x", portNames[f.port], f.bytes) }

// window is how many frames go in before all that comes out is read: fewer than the queue of a veth takes.
const window = 64

// ask sends frames and returns what comes out.
func (b *bed) ask(in []frame) []frame {
	b.t.Helper()
	var out []frame
	for part := range slices.Chunk(in, window) {
		for _, f := range part {
			b.send(f)
		}
		out = b.barrier(b.barrier(out))
	}
	stats, err := unix.GetsockoptTpacketStats(b.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	must(b.t, err)
	if stats.Drops > 0 {
		b.t.Fatalf("the test's own socket lost %d frames", stats.Drops)
	}
	return out
}

func (b *bed) send(f frame) {
	for range 1000 {
		err := unix.Sendto(b.fd, f.bytes, 0, &unix.SockaddrLinklayer{Ifindex: firstFar + f.port})
		if err == nil || errors.Is(err, unix.EMSGSIZE) || f.port == narrow && len(f.bytes) > narrowMTU || len(f.bytes) < packet.EthernetLen {
			return // a frame too long for its wire, or without an end of its header, is lost in both
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
			b.t.Fatalf("sending %v: %v", f, err)
		}
		time.Sleep(time.Millisecond)
	}
	b.t.Fatalf("%s takes no frames", portNames[f.port])
}

// barrier asks on every port by ARP, and returns when all have answered, with what came out until then.
func (b *bed) barrier(out []frame) []frame {
	b.t.Helper()
	for port := range ports {
		m := machines[slices.IndexFunc(machines, func(m machine) bool { return m.port == port })]
		request := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, m.mac[:]...)
		request = append(append(request, m.v4.AsSlice()...), 0, 0, 0, 0, 0, 0)
		request = append(request, own4[port].AsSlice()...)
		b.send(frame{port: port, bytes: packet.Ethernet{Dst: packet.BroadcastMAC, Src: m.mac, Type: packet.TypeARP}.Append(nil, request)})
	}
	buffer := make([]byte, 4096)
	for answered, waits := 0, 0; answered < ports; {
		n, from, err := unix.Recvfrom(b.fd, buffer, 0)
		if err != nil {
			if waits++; waits > 5000 {
				b.t.Fatal("the router does not answer ARP")
			}
			time.Sleep(time.Millisecond)
			continue
		}
		f := frame{port: from.(*unix.SockaddrLinklayer).Ifindex - firstFar, bytes: bytes.Clone(buffer[:n])}
		if n >= 22 && binary.BigEndian.Uint16(f.bytes[12:]) == packet.TypeARP {
			if f.bytes[21] == 2 {
				answered++
			}
			continue
		}
		if normalise(&f) {
			out = append(out, f)
		}
	}
	return out
}

// both sends frames through both routers, and returns what comes out of the
// kernel's. It reports whether the two agree; if not, the test has failed.
func (tw *twins) both(what string, in []frame) (out []frame, agree bool) {
	tw.t.Helper()
	out = tw.kernel.ask(in)
	kernel, fast := sorted(out), sorted(tw.fast.ask(in))
	if slices.Equal(kernel, fast) {
		return out, true
	}
	more, less := without(fast, kernel), without(kernel, fast)
	tw.t.Errorf("%s: with the fast path something else comes out\nonly with it (%d):%s\nonly of the kernel (%d):%s",
		what, len(more), tell(more, in), len(less), tell(less, in))
	return out, false
}

// tell lists frames that came out with those that went in under the same stamp.
func tell(lines []string, in []frame) string {
	var b strings.Builder
	for _, l := range lines[:min(len(lines), 6)] {
		fmt.Fprintf(&b, "\n  %s", l)
		_, digits, _ := strings.Cut(l, " ")
		bytes, _ := hex.DecodeString(digits)
		stamp, _ := testframes.StampOf(bytes)
		for _, f := range in {
			if s, ok := testframes.StampOf(f.bytes); ok && s == stamp && stamp != 0 {
				fmt.Fprintf(&b, "\n    was %v (%s)", f, f.label)
			}
		}
	}
	return b.String()
}

func sorted(frames []frame) []string {
	var lines []string
	for _, f := range frames {
		lines = append(lines, f.String())
	}
	slices.Sort(lines)
	return lines
}

// without is what a has more of than b; both sorted.
func without(a, b []string) (more []string) {
	for _, line := range a {
		i, found := slices.BinarySearch(b, line)
		if !found {
			more = append(more, line)
			continue
		}
		b = slices.Delete(slices.Clone(b), i, i+1)
	}
	return more
}

// mark gives frames a number by which they are known when they come out, all the same one.
func (tw *twins) mark(frames ...frame) uint32 {
	tw.stamp = tw.stamp%0xfffe + 1
	for _, f := range frames {
		testframes.Stamp(f.bytes, tw.stamp)
	}
	return tw.stamp
}

// normalise makes a frame comparable: what a router's own packets have of chance
// is taken out. It reports false for those that come at any time.
func normalise(f *frame) bool {
	b := f.bytes
	at, kind, ok := packet.NetworkOffset(b)
	if !ok || kind == packet.TypeARP {
		return ok && kind != packet.TypeARP
	}
	ip := b[min(at, len(b)):]
	switch {
	case kind == packet.TypeIPv4 && len(ip) >= packet.IPv4Len+8:
		if ip[9] == 2 {
			return false // IGMP
		}
		// The kernel gives its errors a precedence of their own; their source may be translated.
		made := ip[1]&0xe0 == 0xc0 || slices.Contains(own4[:], netip.AddrFrom4([4]byte(ip[12:16])))
		header := int(ip[0]&0xf) * 4
		if ip[9] != packet.ProtoICMP || !made || len(ip) < header+2 {
			return true
		}
		switch ip[header] {
		case packet.ICMPUnreachable, packet.ICMPTimeExceeded, 12, packet.ICMPEchoReply:
			// A neighbour that does not answer, a fragment that does not come: known later.
			if ip[header+1] == 1 {
				return false
			}
			copy(ip[4:6], []byte{0, 0}) // identification
			copy(ip[10:12], []byte{0, 0})
		}
	case kind == packet.TypeIPv6 && len(ip) >= packet.IPv6Len+8:
		if ip[6] == packet.ProtoFragment { // fragmented anew
			copy(ip[44:48], []byte{0, 0, 0, 0})
			return true
		}
		made := slices.Contains(own6[:], netip.AddrFrom16([16]byte(ip[8:24])))
		linkLocal := ip[8] == 0xfe || ip[8] == 0
		if linkLocal || made && ip[6] == packet.ProtoICMPv6 && ip[40] >= 130 && ip[40] != packet.ICMPv6EchoReply {
			return false // neighbour discovery, multicast listeners
		}
		if made && ip[6] == packet.ProtoICMPv6 && ip[40] < 128 {
			if ip[40] == packet.ICMPv6Unreachable && ip[41] == 3 || ip[40] == packet.ICMPv6TimeExceeded && ip[41] == 1 {
				return false
			}
			copy(ip[1:4], []byte{ip[1] & 0xf0, 0, 0}) // flow label
		}
	}
	return true
}
