// SPDX-License-Identifier: Apache-2.0

// Package reach asks whether others answer: a neighbour on the link, a DNS server, a host at the end of a path. It
// uses one interface alone, the routing table where that leads elsewhere is not asked. Each question is a few packets and
// ends within seconds.
package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrSilent is returned when nobody answered.
var ErrSilent = errors.New("no answer")

const (
	neighbourLimit = 6 * time.Second // the kernel asks three times, a second apart, and then gives up
	neighbourLook  = 50 * time.Millisecond
)

// Neighbour has the kernel ask for an address on a link (ARP, ND), even where it knows an answer from before, and
// returns the MAC address of who answers. It sends no packet of its own: what the kernel finds is what forwarding uses.
func Neighbour(ctx context.Context, link int, a netip.Addr) (net.HardwareAddr, error) {
	ctx, cancel := context.WithTimeout(ctx, neighbourLimit)
	defer cancel()
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	for asked := false; ; {
		known, err := netlink.NeighList(link, family)
		if err != nil {
			return nil, fmt.Errorf("read the neighbours: %w", err)
		}
		entry := netlink.Neigh{LinkIndex: link, Family: family, IP: a.AsSlice()}
		for _, n := range known {
			if n.IP.Equal(entry.IP) {
				entry.State, entry.HardwareAddr = n.State, n.HardwareAddr
			}
		}
		const fixed = netlink.NUD_PERMANENT | netlink.NUD_NOARP
		switch {
		case entry.State&fixed != 0, asked && entry.State == netlink.NUD_REACHABLE:
			return entry.HardwareAddr, nil
		case asked && entry.State == netlink.NUD_FAILED:
			return nil, ErrSilent
		case !asked:
			asked = true
			if len(entry.HardwareAddr) > 0 && entry.State != netlink.NUD_FAILED {
				entry.State = netlink.NUD_PROBE // asks the known one at once
			} else {
				entry.State, entry.HardwareAddr, entry.Flags = netlink.NUD_NONE, nil, netlink.NTF_USE // asks the link, as a packet would
			}
			if err := netlink.NeighSet(&entry); err != nil {
				return nil, fmt.Errorf("have the kernel ask for %s: %w", a, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, ErrSilent
		case <-time.After(neighbourLook):
		}
	}
}

// Egress is the index of the link that packets to an address leave by.
func Egress(a netip.Addr) (link int, err error) {
	routes, err := netlink.RouteGet(a.AsSlice())
	if err != nil {
		return 0, fmt.Errorf("ask the kernel for the route to %s: %w", a, err)
	}
	if len(routes) == 0 {
		return 0, fmt.Errorf("no route to %s", a)
	}
	return routes[0].LinkIndex, nil
}

// onDevice binds a socket to an interface.
func onDevice(device string) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = unix.BindToDevice(int(fd), device) }); err != nil {
			return err
		}
		return failed
	}
}
