// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// cable is two ports, each of which hears what the other sends.
type cable struct{ left, right end }

type end struct {
	name  string
	index int
	mac   net.HardwareAddr
}

var cables atomic.Int32

// plug makes a cable in the test's namespace, with nothing on it but what the test sends.
func plug(t testing.TB) cable {
	t.Helper()
	n := cables.Add(1)
	var c cable
	c.left.name, c.right.name = fmt.Sprintf("left%d", n), fmt.Sprintf("right%d", n)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = c.left.name, 1, 1
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: c.right.name, PeerNumTxQueues: 1, PeerNumRxQueues: 1}); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*end{&c.left, &c.right} {
		port, err := netlink.LinkByName(e.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+e.name+"/disable_ipv6", []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(port); err != nil {
			t.Fatal(err)
		}
		e.index, e.mac = port.Attrs().Index, port.Attrs().HardwareAddr
	}
	t.Cleanup(func() {
		if port, err := netlink.LinkByIndex(c.left.index); err == nil {
			netlink.LinkDel(port) //nolint:errcheck // the namespace goes anyway
		}
	})
	return c
}

// to is the route of a stream from one end of a cable to the other.
func (e end) to(other end) Route { return Route{Port: e.index, From: e.mac, To: other.mac} }

// received is how many frames the kernel counted at a port.
func (e end) received(t testing.TB) uint64 {
	t.Helper()
	port, err := netlink.LinkByIndex(e.index)
	if err != nil {
		t.Fatal(err)
	}
	return port.Attrs().Statistics.RxPackets
}

// capture takes copies of what arrives at a port, with a packet socket.
type capture struct {
	t  testing.TB
	fd int
}

func (e end) capture(t testing.TB) *capture {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	all := uint16(unix.ETH_P_ALL)
	address := &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: e.index}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, address); err != nil {
		t.Fatal(err)
	}
	return &capture{t, fd}
}

// next returns the next frame.
func (c *capture) next() []byte {
	c.t.Helper()
	b := make([]byte, 2048)
	n, _, err := unix.Recvfrom(c.fd, b, unix.MSG_TRUNC)
	if err != nil {
		c.t.Fatalf("no more frames were captured: %v", err)
	}
	return b[:n]
}

// quiet fails when another frame arrives.
func (c *capture) quiet() {
	c.t.Helper()
	if n, _, err := unix.Recvfrom(c.fd, make([]byte, 2048), unix.MSG_DONTWAIT); err == nil {
		c.t.Fatalf("a frame of %d bytes too many was captured", n)
	}
}

// newGenerator makes a generator with a lap.
func newGenerator(t testing.TB, l Lap) *Generator {
	t.Helper()
	g, err := NewGenerator()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	if err := g.SetLap(l); err != nil {
		t.Fatal(err)
	}
	return g
}

// newSink makes a sink on ports.
func newSink(t testing.TB, ports ...end) *Sink {
	t.Helper()
	s, err := NewSink()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, p := range ports {
		if err := s.Attach(p.index); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// onOneCPU keeps the test on the first CPU until back is called.
func onOneCPU(t testing.TB) (back func()) {
	t.Helper()
	runtime.LockOSThread()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	return func() {
		unix.SchedSetaffinity(0, &all) //nolint:errcheck // it was so before
		runtime.UnlockOSThread()
	}
}

// run carries out an order on the first CPU: so a sink has all in one CPU's counters.
func run(t testing.TB, g *Generator, o Order) Sent {
	t.Helper()
	defer onOneCPU(t)()
	sent, err := g.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// await reads a sink until so many frames of all streams have come.
func await(t testing.TB, s *Sink, frames uint64) map[uint8]Arrived {
	t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		arrived, err := s.Read()
		if err != nil {
			t.Fatal(err)
		}
		total := uint64(0)
		for _, a := range arrived {
			total += a.Received + a.Duplicated
		}
		if total >= frames {
			return arrived
		}
		if time.Now().After(limit) {
			t.Fatalf("only %d of %d frames arrived", total, frames)
		}
	}
}
