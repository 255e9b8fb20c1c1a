// SPDX-License-Identifier: Apache-2.0

// Package kernelfib is the kernel's own routing table in a network namespace of its
// own, for benchmarks that ask it beside other structures (bpf_fib_lookup).
//
// The namespace belongs to one thread and ends with it. BPF_PROG_TEST_RUN runs programs in the
// namespace of the thread that asks for it, so whatever is about this table goes
// through Namespace.Do.
package kernelfib

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/thread"
	"minne/internal/model/rib"
)

// MostHops is the greatest number of a next hop that the kernel's answer can tell: its gateway has 24 bits for it.
const MostHops = 1<<24 - 1

// Install puts routes into the kernel's tables of the calling thread's network namespace, as kernel.BulkRoutes does.
type Install func(context.Context, []rib.Route) error

// Namespace is a network namespace with one interface that routes lead through and that forwards.
type Namespace struct {
	Interface int // ifindex
	work      chan func()
	ended     chan struct{}
}

// New makes a namespace. Root is needed. The caller closes it.
func New() (*Namespace, error) {
	n := &Namespace{work: make(chan func()), ended: make(chan struct{})}
	made := make(chan error)
	go thread.Alone(func() {
		defer close(n.ended)
		var err error
		n.Interface, err = enter()
		made <- err
		for do := range n.work {
			do()
		}
	})
	if err := <-made; err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Do runs something on the thread that is in the namespace, and returns its error.
func (n *Namespace) Do(do func() error) error {
	done := make(chan error, 1)
	n.work <- func() { done <- do() }
	return <-done
}

// Close ends the namespace with all that is in it.
func (n *Namespace) Close() {
	close(n.work)
	<-n.ended
}

// Install puts routes into the namespace.
func (n *Namespace) Install(ctx context.Context, install Install, routes []rib.Route) error {
	return n.Do(func() error {
		if err := install(ctx, routes); err != nil {
			return fmt.Errorf("install the table in the kernel: %w", err)
		}
		return nil
	})
}

// Route is a route by the interface to a next hop of a number, 1 to MostHops, of which its gateway has the number in its last 24 bits.
// Every gateway is on the link: no network but the routes' is reachable.
func (n *Namespace) Route(p netip.Prefix, hop uint32) rib.Route {
	b := [3]byte{byte(hop >> 16), byte(hop >> 8), byte(hop)}
	gateway := netip.AddrFrom4([4]byte{10, b[0], b[1], b[2]})
	if p.Addr().Is6() {
		gateway = netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 13: b[0], 14: b[1], 15: b[2]})
	}
	return rib.Route{
		Prefix: p, Table: rib.TableMain, Type: rib.Unicast, Protocol: unix.RTPROT_STATIC,
		Hops: []rib.Hop{{Gateway: gateway, Interface: n.Interface, Weight: 1, Flags: rib.HopOnLink}},
	}
}

// enter moves the calling thread into a new network namespace and returns the ifindex of its interface.
func enter() (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("make a network namespace (root is needed): %w", err)
	}
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up"}, PeerName: "peer"}
	if err := netlink.LinkAdd(pair); err != nil {
		return 0, fmt.Errorf("add a pair of interfaces: %w", err)
	}
	var failed []error
	for _, path := range []string{
		"/proc/sys/net/ipv4/ip_forward",
		"/proc/sys/net/ipv6/conf/all/forwarding",
		"/proc/sys/net/ipv6/conf/up/forwarding",
	} {
		// The thread's own: /proc/sys/net is of the namespace of who opens it.
		failed = append(failed, os.WriteFile(path, []byte("1"), 0))
	}
	if err := errors.Join(failed...); err != nil {
		return 0, err
	}
	var up netlink.Link
	for _, name := range []string{"peer", "up"} {
		var err error
		if up, err = netlink.LinkByName(name); err == nil {
			err = netlink.LinkSetUp(up)
		}
		if err != nil {
			return 0, fmt.Errorf("bring interface %s up: %w", name, err)
		}
	}
	// Without any local address, the kernel takes no gateway for one.
	if err := netlink.AddrAdd(up, &netlink.Addr{IPNet: netlink.NewIPNet(net.IPv4(255, 255, 255, 254))}); err != nil {
		return 0, fmt.Errorf("add an address: %w", err)
	}
	return up.Attrs().Index, nil
}
