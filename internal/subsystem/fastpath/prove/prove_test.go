// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"errors"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/affinity"
	"minne/internal/base/ethtool"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// TestPort: a veth sends what is redirected to it while its far end has GRO, and not without; never while it is down.
func TestPort(t *testing.T) {
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "near"}, PeerName: "far"}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatal(err)
	}
	near, err := net.InterfaceByName("near")
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := affinity.Here.Online()
	if err != nil {
		t.Fatal(err)
	}
	prover, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer prover.Close()
	port := func() (*Failure, error) {
		err := prover.Port(near.Index, [6]byte(near.HardwareAddr), cpus)
		var f *Failure
		errors.As(err, &f)
		return f, err
	}
	if f, err := port(); f == nil || !f.All {
		t.Errorf("down: %v", err)
	}
	for _, name := range []string{"near", "far"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
	}
	tool, err := ethtool.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	turn := func(on bool) {
		t.Helper()
		if err := tool.Turn("far", ethtool.Receive, on); err != nil {
			t.Fatal(err)
		}
	}
	turn(false)
	if f, err := port(); f == nil || !f.All || len(f.CPUs) != len(cpus) {
		t.Errorf("a far end that takes nothing: %v", err)
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	far, err := net.InterfaceByName("far")
	if err != nil {
		t.Fatal(err)
	}
	const experiments = 0xb588 // 0x88b5 in network byte order
	if err := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: experiments, Ifindex: far.Index}); err != nil {
		t.Fatal(err)
	}
	turn(true)
	if _, err := port(); err != nil {
		t.Errorf("a far end that takes frames: %v", err)
	}
	arrived := 0
	for b := make([]byte, 100); ; arrived++ {
		n, _, err := unix.Recvfrom(socket, b, 0)
		if err != nil {
			break
		}
		if string(b[:n]) != string(Frame([6]byte(near.HardwareAddr))) {
			t.Errorf("arrived: %x", b[:n])
		}
	}
	if arrived != len(cpus) {
		t.Errorf("%d frames arrived from %d CPUs", arrived, len(cpus))
	}
}
