// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// resolveTime is how long a gateway may take to answer.
const resolveTime = 3 * time.Second

// addAddress gives a port an address without a route, so that the kernel answers
// for it and does nothing else with it. The returned function takes it away again.
func addAddress(index int, text string) (func() error, error) {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return nil, err
	}
	address, err := netlink.ParseAddr(text)
	if err != nil {
		return nil, fmt.Errorf("address %q: expected one with its prefix length, such as 198.18.0.2/24", text)
	}
	address.Flags = unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE
	err = netlink.AddrAdd(link, address)
	if errors.Is(err, os.ErrExist) {
		return func() error { return nil }, nil // the operator's own
	}
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", text, err)
	}
	return func() error { return netlink.AddrDel(link, address) }, nil
}

// resolve returns the MAC of a gateway that is given as one, or as an address to be asked for.
func resolve(ctx context.Context, s side, gateway string) (net.HardwareAddr, error) {
	if mac, err := net.ParseMAC(gateway); err == nil && len(mac) == 6 {
		return mac, nil
	}
	address, err := netip.ParseAddr(gateway)
	if err != nil {
		return nil, fmt.Errorf("gateway %q at port %s: expected a MAC address or an IP address", gateway, s.name)
	}
	// An incomplete neighbour that is asked for makes the kernel send its ARP or ND question.
	ask := &netlink.Neigh{LinkIndex: s.index, IP: address.AsSlice(), State: netlink.NUD_NONE, Flags: netlink.NTF_USE, Family: family(address)}
	for end := time.Now().Add(resolveTime); ; {
		if err := netlink.NeighSet(ask); err != nil {
			return nil, fmt.Errorf("ask for gateway %s at port %s: %w", gateway, s.name, err)
		}
		known, err := netlink.NeighList(s.index, family(address))
		if err != nil {
			return nil, fmt.Errorf("neighbours of port %s: %w", s.name, err)
		}
		for _, n := range known {
			if n.IP.Equal(address.AsSlice()) && len(n.HardwareAddr) == 6 && n.State&(netlink.NUD_REACHABLE|netlink.NUD_STALE|netlink.NUD_DELAY|netlink.NUD_PROBE|netlink.NUD_PERMANENT) != 0 {
				return n.HardwareAddr, nil
			}
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("gateway %s did not answer at port %s: is it the device's address on that side, and has the port an address of the same network (--tx-address, --rx-address)?", gateway, s.name)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func family(a netip.Addr) int {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
