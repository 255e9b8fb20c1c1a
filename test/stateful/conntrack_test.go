// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
)

// Conntrack stays true while the fast path carries its connections.

// entries are the connections to a port that conntrack knows.
func (n *network) entries(protocol uint8, port int) (found []*netlink.ConntrackFlow) {
	n.t.Helper()
	n.do(func() error {
		for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			all, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
			if err != nil {
				return err
			}
			for _, f := range all {
				if f.Forward.Protocol == protocol && int(f.Forward.DstPort) == port {
					found = append(found, f)
				}
			}
		}
		return nil
	})
	return found
}

// A connection that speaks seldom lives on in conntrack, though the kernel does
// not see its packets; it ends when it is silent.
func TestTimeoutsAreRefreshed(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, "net/netfilter/nf_conntrack_udp_timeout", "6", "net/netfilter/nf_conntrack_udp_timeout_stream", "6")
	e := newEchoed(n.client, n.isp, net.JoinHostPort(ispV4, "5001"))
	answer := func() bool {
		_, _ = e.client.Write([]byte("one"))
		buffer := make([]byte, 10)
		_ = e.server.SetReadDeadline(time.Now().Add(2 * time.Second))
		k, from, err := e.server.ReadFrom(buffer)
		if err != nil {
			return false
		}
		_, _ = e.server.WriteTo(buffer[:k], from)
		_ = e.client.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, err = e.client.Read(buffer)
		return err == nil
	}
	for range 8 { // more than two seconds
		if !answer() {
			t.Fatal("no answer")
		}
		time.Sleep(300 * time.Millisecond)
	}
	before, kernelBefore := n.carried("lan"), n.packetsOf(t)
	for second := range 20 {
		if !answer() {
			t.Fatalf("no answer after %d half seconds", second)
		}
		time.Sleep(500 * time.Millisecond)
	}
	n.wantCarried("lan", before, 20)
	if seen := n.packetsOf(t) - kernelBefore; fastPathEvaluates && seen != 0 {
		t.Errorf("the kernel saw %d packets of a connection that the fast path carries", seen)
	}
	eventually(t, "the silent connection ends", func() bool { return len(n.entries(packet.ProtoUDP, 5001)) == 0 })
}

// packetsOf is how many packets of the one connection to port 5001 the kernel counted.
func (n *network) packetsOf(t *testing.T) uint64 {
	t.Helper()
	found := n.entries(packet.ProtoUDP, 5001)
	if len(found) != 1 {
		t.Fatalf("conntrack has %d connections to port 5001, want one: %v", len(found), found)
	}
	return found[0].Forward.Packets + found[0].Reverse.Packets
}

// A connection that somebody deletes from conntrack ends in the fast path, too: the
// kernel evaluates its next packets anew.
func TestDeletedConnection(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	server := n.isp.packets(net.JoinHostPort(ispV4, "5001"))
	client := n.client.dial("udp", net.JoinHostPort(ispV4, "5001"))
	buffer := make([]byte, 10)
	var peer net.Addr
	for range 8 { // more than two seconds
		_, err := client.Write([]byte("out"))
		must(t, err)
		must(t, server.SetReadDeadline(time.Now().Add(2*time.Second)))
		_, peer, err = server.ReadFrom(buffer)
		must(t, err)
		_, err = server.WriteTo([]byte("back"), peer)
		must(t, err)
		time.Sleep(300 * time.Millisecond)
	}
	n.do(func() error {
		_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, to5001{})
		return err
	})
	deleted := time.Now()
	var late int
	ended := make(chan struct{})
	_ = client.SetReadDeadline(deleted.Add(7 * time.Second))
	go func() {
		defer close(ended)
		buffer := make([]byte, 10)
		for {
			if _, err := client.Read(buffer); err != nil {
				return
			}
			if time.Since(deleted) > 4*time.Second {
				late++
			}
		}
	}()
	for time.Since(deleted) < 6*time.Second { // only answers: nothing that could begin the connection again
		_, err := server.WriteTo([]byte("back"), peer)
		must(t, err)
		time.Sleep(50 * time.Millisecond)
	}
	<-ended
	if late > 0 {
		t.Errorf("%d packets arrived more than four seconds after conntrack forgot the connection", late)
	}
	if found := n.entries(packet.ProtoUDP, 5001); len(found) != 0 {
		t.Errorf("the connection is back without the client: %v", found)
	}
	_, err := client.Write([]byte("again"))
	must(t, err)
	must(t, server.SetReadDeadline(time.Now().Add(2*time.Second)))
	if _, _, err := server.ReadFrom(buffer); err != nil {
		t.Errorf("the client can't begin again: %v", err)
	}
	if found := n.entries(packet.ProtoUDP, 5001); len(found) != 1 {
		t.Errorf("conntrack has %d connections after the client began again", len(found))
	}
}

// to5001 finds connections to that port.
type to5001 struct{}

func (to5001) MatchConntrackFlow(f *netlink.ConntrackFlow) bool { return f.Forward.DstPort == 5001 }

// The end of a TCP connection is seen by conntrack, and what is said until both have
// ended it makes it no longer.
func TestTCPEnds(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	closed, reset := n.talk(n.isp, ispV4+":6001"), n.talk(n.isp, ispV4+":6002")
	for _, c := range []net.Conn{closed, reset} {
		for range 5 {
			must(t, saidAndHeard(c))
		}
	}
	for _, port := range []int{6001, 6002} {
		if found := n.entries(packet.ProtoTCP, port); len(found) != 1 || found[0].TimeOut <= 120 {
			t.Fatalf("conntrack has no established connection to port %d: %+v", port, found)
		}
	}
	half := n.halfOpen()
	must(t, closed.Close())
	must(t, reset.(*net.TCPConn).SetLinger(0))
	must(t, reset.Close())
	time.Sleep(5 * time.Second) // what later packets could wrongly refresh has been refreshed
	if _, err := half.Read(make([]byte, 1)); err != nil {
		t.Errorf("a connection that one side has ended: %v", err)
	}
	for port, most := range map[int]uint32{6001: 120, 6002: 10, 6003: 120} {
		for _, f := range n.entries(packet.ProtoTCP, port) {
			if f.TimeOut > most {
				t.Errorf("conntrack keeps the ended connection to port %d for %d s, at most %d are right", port, f.TimeOut, most)
			}
		}
	}
}

// halfOpen is a connection to a host that goes on to speak after the client has ended.
func (n *network) halfOpen() net.Conn {
	n.t.Helper()
	l := n.isp.listen(net.JoinHostPort(ispV4, "6003"))
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		for range 200 {
			if _, err := c.Write([]byte("still here")); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	c := n.client.dial("tcp", net.JoinHostPort(ispV4, "6003")).(*net.TCPConn)
	_, err := c.Read(make([]byte, 1))
	must(n.t, err)
	must(n.t, c.CloseWrite())
	return c
}

// A stranger who guesses addresses and ports, but no sequence number, ends nothing:
// the fast path has the connection again after a packet or two.
func TestSpoofedEnd(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	src, dst := netip.MustParseAddr(ispV4), netip.MustParseAddr(outsideV4) // as the connection looks from outside
	for i, flags := range []uint8{packet.RST, packet.RST | packet.ACK, packet.FIN | packet.ACK, packet.FIN, packet.SYN, packet.SYN | packet.ACK} {
		t.Run(fmt.Sprintf("flags %#02x", flags), func(t *testing.T) {
			port := 6001 + i
			c := n.talk(n.isp, net.JoinHostPort(ispV4, fmt.Sprint(port)))
			for range 5 {
				must(t, saidAndHeard(c))
			}
			found := n.entries(packet.ProtoTCP, port)
			if len(found) != 1 {
				t.Fatalf("conntrack has %d connections, want one", len(found))
			}
			for guess := range uint32(4) { // all of them wrong by half a GiB at least
				next := receives(t, c)
				segment := packet.TCP{SrcPort: uint16(port), DstPort: found[0].Reverse.DstPort, Seq: next + 1<<29 + guess<<30, Ack: 77, Flags: flags, Window: 100}
				n.inject(packet.IPv4{TTL: 64, Protocol: packet.ProtoTCP, Src: src, Dst: dst}.Append(nil, segment.Append(nil, src, dst, nil)))
				if err := saidAndHeard(c); err != nil {
					t.Fatalf("after a spoofed segment: %v", err)
				}
			}
			// Silence may follow: conntrack has to keep the connection as long as before.
			if found := n.entries(packet.ProtoTCP, port); len(found) != 1 || found[0].TimeOut <= 120 {
				t.Errorf("conntrack keeps it for a short time only: %s", n.run("", "conntrack", "-L", "-p", "tcp", "--dport", fmt.Sprint(port)))
			}
			before := n.carried("lan")
			for range 20 {
				must(t, saidAndHeard(c))
			}
			if fastPathEvaluates {
				if got := n.carried("lan") - before; got < 20 {
					t.Errorf("the fast path forwarded %d of the connection's packets afterwards, want at least 20", got)
				}
			}
		})
	}
}

// receives is the sequence number that a TCP connection wants to receive next (TCP_REPAIR of tcp(7)).
func receives(t *testing.T, c net.Conn) (sequence uint32) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	must(t, err)
	const queueReceived, withoutProbe = 1, -1 // TCP_RECV_QUEUE, TCP_REPAIR_OFF_NO_WP
	var failed error
	must(t, raw.Control(func(fd uintptr) {
		failed = errors.Join(
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, 1),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, queueReceived))
		n, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
		sequence = uint32(n)
		failed = errors.Join(failed, err, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, withoutProbe))
	}))
	must(t, failed)
	return sequence
}

// inject sends an IPv4 packet of anybody's from the isp to the router.
func (n *network) inject(ip []byte) {
	n.t.Helper()
	frame := packet.Ethernet{Dst: portMAC(wan), Src: hostMAC(1), Type: packet.TypeIPv4}.Append(nil, ip)
	n.isp.do(func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Protocol: binary.NativeEndian.Uint16([]byte{8, 0})})
	})
}
