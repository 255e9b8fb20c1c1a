// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// How an attached program gets its frames.
const (
	native  = "XDP native"
	generic = "XDP generic"
)

// attached is a program on a port.
type attached struct {
	ifindex int
	link    link.Link
	mode    string
}

// attach puts a program on a port, in the driver where that can run programs, else
// behind it. Nothing is changed on a port that has a program already.
func attach(p *ebpf.Program, ifindex int) (*attached, error) {
	port, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return nil, fmt.Errorf("no port with index %d in this namespace: %w", ifindex, err)
	}
	name := port.Attrs().Name
	if x := port.Attrs().Xdp; x != nil && x.Attached {
		return nil, fmt.Errorf("port %s already has XDP program %d: take that off first, or use another port", name, x.ProgId)
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: ifindex, Flags: link.XDPDriverMode})
	if err == nil {
		return &attached{ifindex, l, native}, nil
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("port %s: %w", name, err)
	}
	l, again := link.AttachXDP(link.XDPOptions{Program: p, Interface: ifindex, Flags: link.XDPGenericMode})
	if again != nil {
		return nil, fmt.Errorf("port %s: neither its driver (%w) nor the kernel in its place (%w) takes the program", name, err, again)
	}
	return &attached{ifindex, l, generic}, nil
}
