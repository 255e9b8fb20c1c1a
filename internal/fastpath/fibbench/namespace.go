// SPDX-License-Identifier: Apache-2.0

package fibbench

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// enterNamespace moves the calling thread into a new network namespace with one interface that
// routes can lead through and that forwards; it returns its ifindex.
func enterNamespace() (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("make a network namespace (root is needed): %w", err)
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up"}, PeerName: "peer"}
	if err := netlink.LinkAdd(pair); err != nil {
		return 0, fmt.Errorf("add a pair of interfaces: %w", err)
	}
	for _, path := range []string{
		"/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/net/ipv6/conf/all/forwarding",
		"/proc/sys/net/ipv6/conf/up/forwarding",
	} {
		if err := os.WriteFile(path, []byte("1"), 0); err != nil {
			return 0, err
		}
	}
	var ifindex int
	for _, name := range []string{"peer", "up"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return 0, fmt.Errorf("find interface %s: %w", name, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return 0, fmt.Errorf("bring %s up: %w", name, err)
		}
		ifindex = link.Attrs().Index
	}
	link, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return 0, err
	}
	for _, address := range []string{"192.0.2.254/24", "fd00:200::ff/64"} {
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return 0, err
		}
		a.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, a); err != nil {
			return 0, fmt.Errorf("add %s: %w", address, err)
		}
	}
	return ifindex, nil
}
