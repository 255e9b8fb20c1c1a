// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ICMP errors about translated connections reach the host inside, and are about
// the connection as it knows it.

// Every hop of a path through the router shows itself, by UDP and by TCP.
func TestTraceroute(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.far.listen(net.JoinHostPort(farV4, "80"))
	n.far.listen(net.JoinHostPort(farV6, "80"))
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-U", "-p", "33434", farV4}, []string{"192.0.2.1", ispV4, farV4}},
		{[]string{"-T", "-p", "80", farV4}, []string{"192.0.2.1", ispV4, farV4}},
		{[]string{"-I", farV4}, []string{"192.0.2.1", ispV4, farV4}},
		{[]string{"-6", "-U", "-p", "33434", farV6}, []string{"2001:db8:1::1", ispV6, farV6}},
		{[]string{"-6", "-T", "-p", "80", farV6}, []string{"2001:db8:1::1", ispV6, farV6}},
		{[]string{"-6", "-I", farV6}, []string{"2001:db8:1::1", ispV6, farV6}},
	} {
		out := n.client.run("", "traceroute", append([]string{"-n", "-q", "1", "-w", "2", "-N", "1", "-m", "5"}, c.args...)...)
		var hops []string
		for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
			hops = append(hops, strings.Fields(line)[1])
		}
		if !slices.Equal(hops, c.want) {
			t.Errorf("traceroute %v: hops %v, want %v\n%s", c.args, hops, c.want, out)
		}
	}
}

// A flow that the fast path carries is told of a hop limit that ran out, and of a
// small MTU behind the router: by errors about its own addresses, or the client's
// kernel would not give them to its socket.
func TestErrorsAboutFlows(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	const mtu = 1300
	n.isp.ip("link set eth1 mtu 1300")
	n.far.ip("link set eth0 mtu 1300")
	for _, f := range []struct{ address, isp, network string }{{farV4, ispV4, "udp4"}, {farV6, ispV6, "udp6"}} {
		e := newEchoed(n.client, n.far, net.JoinHostPort(f.address, "7000"))
		before, end := n.carried("lan"), make(chan struct{})
		go func() {
			defer close(end)
			for patience := time.Now().Add(time.Minute); n.carried("lan") < before+50 && time.Now().Before(patience); {
				time.Sleep(100 * time.Millisecond)
			}
		}()
		e.run(end)
		n.wantCarried("lan", before, 50)
		_ = e.client.SetReadDeadline(time.Time{})
		c := n.watched(e.client.(*net.UDPConn), f.network)

		c.set(unix.IP_TTL, unix.IPV6_UNICAST_HOPS, 2)
		if said := c.provoke([]byte("expires behind the router")); said.by != netip.MustParseAddr(f.isp) || said.kind != c.expired {
			t.Errorf("%s: %+v, want that the hop limit ran out at %s", f.network, said, f.isp)
		}
		c.set(unix.IP_TTL, unix.IPV6_UNICAST_HOPS, 64)
		c.set(unix.IP_MTU_DISCOVER, unix.IPV6_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		if said := c.provoke(make([]byte, 1400)); said.by != netip.MustParseAddr(f.isp) || said.mtu != mtu {
			t.Errorf("%s: %+v, want that %s tells of an MTU of %d", f.network, said, f.isp, mtu)
		}
		if got := c.mtu(); got != mtu {
			t.Errorf("%s: the client believes in a path MTU of %d, want %d", f.network, got, mtu)
		}
	}
	// TCP finds its way by the same errors.
	for _, address := range []string{farV4, farV6} {
		received := receive(n.far.listen(net.JoinHostPort(address, "7001")))
		end := make(chan struct{})
		close(end)
		sent, err := send(n.client.dial("tcp", net.JoinHostPort(address, "7001")).(*net.TCPConn), 1<<20, end)
		must(t, err)
		if got := <-received; got != sent {
			t.Errorf("%s: sent %v, received %v", address, sent, got)
		}
	}
}

// watched is a connected UDP socket whose ICMP errors are read.
type watched struct {
	t       *testing.T
	fd      int
	six     bool
	level   int
	expired uint8 // ICMP type of a hop limit that ran out
}

func (n *network) watched(c *net.UDPConn, network string) *watched {
	n.t.Helper()
	file, err := c.File()
	must(n.t, err)
	n.t.Cleanup(func() { file.Close() })
	w := &watched{t: n.t, fd: int(file.Fd()), level: unix.SOL_IP, expired: 11}
	if network == "udp6" {
		w.six, w.level, w.expired = true, unix.SOL_IPV6, 3
	}
	w.set(unix.IP_RECVERR, unix.IPV6_RECVERR, 1)
	return w
}

// set sets an option by its name for each family.
func (w *watched) set(four, six, value int) {
	w.t.Helper()
	option := four
	if w.six {
		option = six
	}
	must(w.t, unix.SetsockoptInt(w.fd, w.level, option, value))
}

func (w *watched) mtu() int {
	w.t.Helper()
	option := unix.IP_MTU
	if w.six {
		option = unix.IPV6_MTU
	}
	mtu, err := unix.GetsockoptInt(w.fd, w.level, option)
	must(w.t, err)
	return mtu
}

// said is what an ICMP error told the socket.
type said struct {
	by   netip.Addr
	kind uint8
	mtu  uint32
}

// provoke sends a datagram and waits for the error that comes of it.
func (w *watched) provoke(payload []byte) (s said) {
	w.t.Helper()
	if _, err := unix.Write(w.fd, payload); err != nil && !errors.Is(err, unix.EMSGSIZE) {
		w.t.Fatalf("send: %v", err)
	}
	for range 100 {
		control := make([]byte, 512)
		_, n, _, _, err := unix.Recvmsg(w.fd, make([]byte, 2048), control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		must(w.t, err)
		messages, err := unix.ParseSocketControlMessage(control[:n])
		must(w.t, err)
		for _, m := range messages {
			// struct sock_extended_err: errno, origin, type, code, pad, info, data; the offender's address follows.
			if len(m.Data) < 16+8 || m.Data[4] != unix.SO_EE_ORIGIN_ICMP && m.Data[4] != unix.SO_EE_ORIGIN_ICMP6 {
				continue
			}
			s.kind, s.mtu = m.Data[5], binary.NativeEndian.Uint32(m.Data[8:])
			if offender := m.Data[16:]; w.six && len(offender) >= 24 {
				s.by = netip.AddrFrom16([16]byte(offender[8:24]))
			} else if !w.six {
				s.by = netip.AddrFrom4([4]byte(offender[4:8]))
			}
			return s
		}
	}
	return s
}
