// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/ethtool"
	"minne/internal/base/instance"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testns"
	"minne/internal/testing/testuml"
)

// onUML makes the tests run in User-Mode Linux, whose kernel 6.12 has neither a JIT nor BTF.
const onUML = "MINNE_TEST_UML"

func TestMain(m *testing.M) {
	if os.Getpid() == 1 || os.Getenv(onUML) != "" {
		testuml.Main(m, "veth", "ipv6")
	}
	testns.Main(m)
}

// bench is a router with two ports in the test's own namespace. The far ends of its veths have no
// addresses: the test speaks on them with raw frames.
//
//	host a 192.0.2.2, 2001:db8:a::2 ── in … router … out ── host b 198.51.100.2, 2001:db8:b::2
type bench struct {
	t       testing.TB
	fast    *FastPath
	inst    instance.Instance
	in, out netlink.Link // the router's ports
	a, b    netlink.Link // their far ends
	watch   context.CancelFunc
	watched chan struct{}

	firewall *filter.Policy // what the daemon tells the fast path when it starts
}

var (
	macIn  = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	macOut = net.HardwareAddr{2, 0, 0, 0, 0, 2}
	macA   = net.HardwareAddr{2, 0, 0, 0, 0, 0xa}
	macB   = net.HardwareAddr{2, 0, 0, 0, 0, 0xb}
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sysctl(t testing.TB, path, value string) {
	t.Helper()
	must(t, os.WriteFile("/proc/sys/net/"+path, []byte(value), 0))
}

// addVeth makes a port of the router. The far end's own MAC is none that frames are sent to: they
// are for somebody else, so the kernel, which is the same at both ends, leaves them to the test.
func addVeth(t testing.TB, name, peer string, mac net.HardwareAddr) (near, far netlink.Link) {
	t.Helper()
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: mac}, PeerName: peer}))
	near, err := netlink.LinkByName(name)
	must(t, err)
	t.Cleanup(func() { netlink.LinkDel(near) })
	far, err = netlink.LinkByName(peer)
	must(t, err)
	sysctl(t, "ipv6/conf/"+peer+"/disable_ipv6", "1")
	receiveRedirects(t, peer)
	must(t, netlink.LinkSetUp(far))
	must(t, netlink.LinkSetUp(near))
	return near, far
}

// receiveRedirects turns GRO on, without which a veth drops what XDP sends into it.
func receiveRedirects(t testing.TB, name string) {
	t.Helper()
	turn(t, name, ethtool.Receive, true)
}

// turn switches an offload of a link.
func turn(t testing.TB, name string, o ethtool.Offload, on bool) {
	t.Helper()
	tool, err := ethtool.Open()
	must(t, err)
	defer tool.Close()
	must(t, tool.Turn(name, o, on))
}

func addAddress(t testing.TB, l netlink.Link, address string) {
	t.Helper()
	a, err := netlink.ParseAddr(address)
	must(t, err)
	a.Flags = unix.IFA_F_NODAD
	must(t, netlink.AddrAdd(l, a))
}

func addNeighbour(t testing.TB, l netlink.Link, address string, mac net.HardwareAddr, state int) {
	t.Helper()
	must(t, netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: net.ParseIP(address), HardwareAddr: mac, State: state}))
}

func newBench(t testing.TB) *bench { return newBenchWith(t, nil) }

// newBenchWith is a bench whose daemon has a firewall from the beginning.
func newBenchWith(t testing.TB, firewall *filter.Policy) *bench {
	t.Helper()
	b := &bench{t: t, firewall: firewall, inst: instance.Instance{Name: "test", RunDir: t.TempDir(), BPFDir: filepath.Join("/sys/fs/bpf", t.Name())}}
	b.in, b.a = addVeth(t, "in", "a", macIn)
	b.out, b.b = addVeth(t, "out", "b", macOut)
	for _, name := range []string{"all", "in", "out"} {
		sysctl(t, "ipv4/conf/"+name+"/rp_filter", "0")
		sysctl(t, "ipv4/conf/"+name+"/send_redirects", "0")
	}
	sysctl(t, "ipv4/ip_forward", "1")
	sysctl(t, "ipv6/conf/all/forwarding", "1")
	addAddress(t, b.in, "192.0.2.1/24")
	addAddress(t, b.in, "2001:db8:a::1/64")
	addAddress(t, b.out, "198.51.100.1/24")
	addAddress(t, b.out, "2001:db8:b::1/64")
	addNeighbour(t, b.in, "192.0.2.2", macA, unix.NUD_PERMANENT)
	addNeighbour(t, b.in, "2001:db8:a::2", macA, unix.NUD_PERMANENT)
	addNeighbour(t, b.out, "198.51.100.2", macB, unix.NUD_PERMANENT)
	addNeighbour(t, b.out, "2001:db8:b::2", macB, unix.NUD_PERMANENT)
	b.start()
	t.Cleanup(func() {
		b.stop()
		must(t, Off(b.inst))
	})
	return b
}

func (b *bench) desired() Desired {
	return Desired{Mode: "native", Interfaces: map[string]DesiredPort{"in": {FastPath: true}, "out": {FastPath: true}}}
}

// start is what a daemon does when it starts.
func (b *bench) start() {
	b.t.Helper()
	log := slog.New(slog.NewTextHandler(testWriter{b.t}, nil))
	b.fast = New(b.inst, log)
	if b.firewall != nil {
		must(b.t, b.fast.Firewall().Apply(context.Background(), b.firewall))
	}
	must(b.t, b.fast.Apply(context.Background(), b.desired()))
	ctx, cancel := context.WithCancel(context.Background())
	watcher := kernel.NewWatcher(log, b.fast)
	b.watch, b.watched = cancel, make(chan struct{})
	go func() {
		defer close(b.watched)
		if err := watcher.Run(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	go b.fast.Watch().Run(ctx)
	select {
	case <-watcher.Ready():
	case <-time.After(time.Minute):
		b.t.Fatal("the kernel's state was not told within 20 s")
	}
}

// stop is the end of a daemon, which leaves the fast path running.
func (b *bench) stop() {
	b.watch()
	<-b.watched
	b.fast.Close()
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(p)))
	return len(p), nil
}

// udp4 is a frame with a UDP packet, its header checksum right.
func udp4(dstMAC, srcMAC net.HardwareAddr, src, dst string, ttl byte, payload int) []byte {
	f := append(append(append([]byte{}, dstMAC...), srcMAC...), 0x08, 0x00)
	ip := make([]byte, 28+payload)
	ip[0] = 0x45
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	ip[8], ip[9] = ttl, 17
	copy(ip[12:], netip.MustParseAddr(src).AsSlice())
	copy(ip[16:], netip.MustParseAddr(dst).AsSlice())
	setChecksum4(ip)
	binary.BigEndian.PutUint16(ip[20:], 4000)
	binary.BigEndian.PutUint16(ip[22:], 5000)
	binary.BigEndian.PutUint16(ip[24:], uint16(8+payload))
	return append(f, ip...)
}

// setChecksum4 computes an IPv4 header checksum (RFC 1071).
func setChecksum4(ip []byte) {
	ip[10], ip[11] = 0, 0
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum))
}

func udp6(dstMAC, srcMAC net.HardwareAddr, src, dst string, hops byte, payload int) []byte {
	f := append(append(append([]byte{}, dstMAC...), srcMAC...), 0x86, 0xdd)
	ip := make([]byte, 48+payload)
	ip[0] = 0x60
	binary.BigEndian.PutUint16(ip[4:], uint16(8+payload))
	ip[6], ip[7] = 17, hops
	copy(ip[8:], netip.MustParseAddr(src).AsSlice())
	copy(ip[24:], netip.MustParseAddr(dst).AsSlice())
	binary.BigEndian.PutUint16(ip[40:], 4000)
	binary.BigEndian.PutUint16(ip[42:], 5000)
	binary.BigEndian.PutUint16(ip[44:], uint16(8+payload))
	return append(f, ip...)
}

// run asks the program about a frame that arrives on a port.
func (b *bench) run(frame []byte, on netlink.Link) Verdict {
	b.t.Helper()
	v, err := b.fast.Run(frame, on.Attrs().Index)
	must(b.t, err)
	return v
}

func (b *bench) expect(frame []byte, on netlink.Link, want Reason) Verdict {
	b.t.Helper()
	v := b.run(frame, on)
	if v.Reason != want {
		b.t.Errorf("%v, expected %v (next hop %d)", v.Reason, want, v.NextHop)
	}
	if v.Reason != Forwarded && !bytes.Equal(v.Packet, frame) {
		b.t.Errorf("%v, but the packet was changed", v.Reason)
	}
	return v
}

func TestForwardsBothFamilies(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct{ in, out []byte }{
		{udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18), udp4(macB, macOut, "192.0.2.2", "198.51.100.2", 63, 18)},
		{udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 2, 0), udp4(macB, macOut, "192.0.2.2", "198.51.100.2", 1, 0)},
		{udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, 0), udp6(macB, macOut, "2001:db8:a::2", "2001:db8:b::2", 63, 0)},
	} {
		v := b.expect(c.in, b.in, Forwarded)
		if v.Egress != b.out.Attrs().Index || !bytes.Equal(v.Packet, c.out) {
			t.Errorf("out of %d:\n%x\nexpected\n%x", v.Egress, v.Packet, c.out)
		}
		padded := b.expect(append(bytes.Clone(c.in), 1, 2, 3), b.in, Forwarded)
		if !bytes.Equal(padded.Packet, c.out) {
			t.Errorf("with padding:\n%x\nexpected\n%x", padded.Packet, c.out)
		}
	}
}
