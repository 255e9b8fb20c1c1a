// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
	"minne/internal/testing/policygen"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// bed is the kernel as a router in the namespace of this process. Its interfaces z0,
// z1, … are veths whose far ends n0, n1, … the test sends on and listens to.
type bed struct {
	t     *testing.T
	far   [policygen.Ports]int // packet sockets on the far ends
	index [policygen.Ports]int // of the far ends
	mac   [policygen.Ports]packet.MAC
	peer  [policygen.Ports]packet.MAC
}

func newBed(t *testing.T) *bed {
	b := &bed{t: t}
	// One CPU for all: a packet that is sent is evaluated before the next is.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	var before, one unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &before))
	for cpu := range 1024 {
		if before.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	must(t, unix.SchedSetaffinity(0, &one))
	t.Cleanup(func() { _ = unix.SchedSetaffinity(0, &before) })
	var lines []string
	for i := range policygen.Ports {
		z, n := policygen.PortName(i), fmt.Sprintf("n%d", i)
		lines = append(lines, fmt.Sprintf("link add %s type veth peer name %s", z, n), "link set "+z+" up", "link set "+n+" up")
	}
	ip(t, append(lines, "link set lo up"))
	t.Cleanup(func() {
		for i := range policygen.Ports {
			ip(t, []string{"link del " + policygen.PortName(i)})
		}
	})
	for i := range policygen.Ports {
		z, n := policygen.PortName(i), fmt.Sprintf("n%d", i)
		// The far ends are wires, not hosts.
		write(t, "net/ipv6/conf/"+n+"/disable_ipv6", "1")
		for name, mac := range map[string]*packet.MAC{z: &b.mac[i], n: &b.peer[i]} {
			l, err := netlink.LinkByName(name)
			must(t, err)
			copy(mac[:], l.Attrs().HardwareAddr)
			if name == n {
				b.index[i] = l.Attrs().Index
			}
		}
		gateway4, gateway6 := policygen.Own(i, true).Next(), policygen.Own(i, false).Next()
		ip(t, []string{
			fmt.Sprintf("addr add %s/24 dev %s", policygen.Own(i, true), z), fmt.Sprintf("addr add %s/64 dev %s nodad", policygen.Own(i, false), z),
			fmt.Sprintf("neigh add %s lladdr %s dev %s nud permanent", gateway4, b.peer[i], z),
			fmt.Sprintf("neigh add %s lladdr %s dev %s nud permanent", gateway6, b.peer[i], z),
			fmt.Sprintf("route add %s via %s dev %s", policygen.Network4(i), gateway4, z),
			fmt.Sprintf("route add %s via %s dev %s", policygen.Network6(i), gateway6, z),
		})
		b.far[i] = b.socket(b.index[i])
	}
	write(t, "net/ipv4/ip_forward", "1")
	write(t, "net/ipv6/conf/all/forwarding", "1")
	for _, name := range []string{"all", "default", "z0", "z1", "z2", "z3"} {
		write(t, "net/ipv4/conf/"+name+"/rp_filter", "0")
		write(t, "net/ipv4/conf/"+name+"/send_redirects", "0")
	}
	write(t, "net/ipv4/icmp_ratelimit", "0")
	// What passes the filter to the router is swallowed behind it: nobody answers.
	t.Cleanup(func() { nft(t, "delete table inet witness") })
	nft(t, `table inet witness { chain input { type filter hook input priority 100; meta l4proto != 58 drop; icmpv6 type != { 133, 134, 135, 136 } drop; }; }`)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ip(t *testing.T, lines []string) { run(t, strings.Join(lines, "\n")+"\n", "ip", "-batch", "-") }

func nft(t *testing.T, script string) { run(t, script, "nft", "-f", "-") }

func run(t *testing.T, input, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	c.Stdin = strings.NewReader(input)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

func write(t *testing.T, setting, value string) {
	t.Helper()
	must(t, os.WriteFile("/proc/sys/"+setting, []byte(value), 0))
}

const allProtocols = 0x0300 // ETH_P_ALL in network byte order

func (b *bed) socket(ifindex int) int {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, allProtocols)
	must(b.t, err)
	b.t.Cleanup(func() { unix.Close(fd) })
	must(b.t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20))
	must(b.t, unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1))
	must(b.t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: ifindex}))
	return fd
}

// send puts a frame on the wire of a port.
func (b *bed) send(port int, frame []byte) {
	for range 1000 {
		err := unix.Sendto(b.far[port], frame, 0, &unix.SockaddrLinklayer{Ifindex: b.index[port]})
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.ENOBUFS) {
			b.t.Fatalf("sending on port %d: %v", port, err)
		}
		time.Sleep(time.Millisecond)
	}
	b.t.Fatalf("port %d takes no frames", port)
}

// seen is what came out of the router.
type seen struct {
	port     map[stamped]int // where it left
	answered map[netip.Addr]map[string]bool
}

// stamped tells a packet: those that the router itself makes may have any stamp.
type stamped struct {
	id     uint32
	source netip.Addr
}

// barrier waits until everything sent so far was evaluated: the kernel answers an
// ARP request behind it, on the same CPU.
func (b *bed) barrier(s *seen) {
	arp := packet.Ethernet{Dst: packet.BroadcastMAC, Src: b.peer[0], Type: packet.TypeARP}
	body := binary.BigEndian.AppendUint16(nil, 1)
	body = append(body, 8, 0, 6, 4, 0, 1)
	body = append(body, b.peer[0][:]...)
	body = append(append(body, policygen.Own(0, true).Next().AsSlice()...), 0, 0, 0, 0, 0, 0)
	body = append(body, policygen.Own(0, true).AsSlice()...)
	b.send(0, arp.Append(nil, body))
	for range 5000 {
		answered := b.drain(s)
		if answered {
			b.drain(s)
			return
		}
		time.Sleep(time.Millisecond)
	}
	b.t.Fatal("the router does not answer ARP")
}

// drain reads what has come, and tells whether an ARP answer was among it.
func (b *bed) drain(s *seen) (answered bool) {
	buffer := make([]byte, 2048)
	for port, fd := range b.far {
		for {
			n, err := unix.Read(fd, buffer)
			if err != nil {
				break
			}
			frame := buffer[:n]
			if n >= 22 && binary.BigEndian.Uint16(frame[12:]) == packet.TypeARP {
				answered = answered || frame[21] == 2
				continue
			}
			s.note(port, frame)
		}
	}
	return answered
}
