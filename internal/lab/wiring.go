// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/lab/traffic"
)

// cable makes a veth pair between two nodes, each end born in its own namespace.
func (l *Lab) cable(c Link) error {
	a, b := l.nodes[c.A.Node], l.nodes[c.B.Node]
	err := a.Do(func() error {
		peer, err := unix.Open(namespaceDir+"/"+b.Namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(peer)
		attrs := netlink.NewLinkAttrs()
		attrs.Name = c.A.Name
		queues := max(1, c.Queues)
		attrs.NumTxQueues, attrs.NumRxQueues = queues, queues
		attrs.MTU = c.MTU
		attrs.MTU = cmp.Or(attrs.MTU, 1500)
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs, PeerName: c.B.Name, PeerNamespace: netlink.NsFd(peer),
			PeerNumTxQueues: uint32(queues), PeerNumRxQueues: uint32(queues), PeerMTU: uint32(attrs.MTU),
		})
	})
	if err != nil {
		return fmt.Errorf("cable %s.%s to %s.%s: %w", c.A.Node, c.A.Name, c.B.Node, c.B.Name, err)
	}
	for _, p := range []Port{c.A, c.B} {
		n := l.nodes[p.Node]
		if n.kind != Namespace {
			p.Addresses, p.Silent = nil, true // those are the machine's
		}
		if err := n.plug(p); err != nil {
			return fmt.Errorf("port %s.%s: %w", p.Node, p.Name, err)
		}
	}
	return nil
}

// plug gives a port its addresses and brings it up.
//
// Packets leave it with their checksums complete, as on a real cable. A veth
// would leave them to be computed by hardware that isn't there, which an XDP
// program that redirects the packet can't know: it would arrive broken.
func (n *Running) plug(p Port) error {
	if _, err := n.Run(context.Background(), "ethtool", "-K", p.Name, "tx", "off"); err != nil {
		return err
	}
	return n.Do(func() error { return setPort(p) })
}

// setPort does so in the calling thread's namespace.
func setPort(p Port) error {
	if p.Silent {
		if err := sysctl("net/ipv6/conf/"+p.Name+"/disable_ipv6", "1"); err != nil {
			return err
		}
	}
	if err := sysctl("net/ipv6/conf/"+p.Name+"/accept_dad", "0"); err != nil {
		return err
	}
	port, err := netlink.LinkByName(p.Name)
	if err != nil {
		return err
	}
	for _, a := range p.Addresses {
		if err := addAddress(port, a); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(port)
}

func addAddress(port netlink.Link, a netip.Prefix) error {
	n := &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}
	address := &netlink.Addr{IPNet: n}
	if a.Addr().Is6() {
		address.Flags = unix.IFA_F_NODAD
	}
	if err := netlink.AddrAdd(port, address); err != nil {
		return fmt.Errorf("address %s: %w", a, err)
	}
	return nil
}

// configure does what concerns the node as a whole, after its ports are plugged in, in the calling thread's namespace.
func configure(c Node) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	for _, a := range c.Loopback {
		if err := addAddress(lo, a); err != nil {
			return err
		}
	}
	if c.Bridge {
		if err := joinPorts(); err != nil {
			return err
		}
	}
	if c.Forwards {
		if err := errors.Join(sysctl("net/ipv4/ip_forward", "1"), sysctl("net/ipv6/conf/all/forwarding", "1")); err != nil {
			return err
		}
	}
	for _, r := range c.Routes {
		if err := netlink.RouteAdd(&netlink.Route{Dst: ipNet(r.To), Gw: r.Via.AsSlice()}); err != nil {
			return fmt.Errorf("route %s via %s: %w", r.To, r.Via, err)
		}
	}
	// After the routes, whose next hops would else seem to be local addresses.
	if len(c.EverywhereBut) > 0 {
		return answerEverywhere(lo, c.EverywhereBut)
	}
	return nil
}

// joinPorts makes all ports of the calling thread's namespace those of one bridge. It has no address.
func joinPorts() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "br0"
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := netlink.LinkAdd(bridge); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	if err := sysctl("net/ipv6/conf/br0/disable_ipv6", "1"); err != nil {
		return err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, l := range links {
		if t := l.Type(); t == "veth" || t == "device" && l.Attrs().Flags&net.FlagLoopback == 0 {
			if err := netlink.LinkSetMaster(l, bridge); err != nil {
				return fmt.Errorf("port %s of the bridge: %w", l.Attrs().Name, err)
			}
		}
	}
	return netlink.LinkSetUp(bridge)
}

// answerEverywhere makes every address a local one (the kernel's "AnyIP"): a
// local default route. It must stand in the local table, where the kernel looks
// whether it may send from an address; the exceptions are thrown on to the
// other tables. The node's own addresses are longer routes in the same table.
func answerEverywhere(lo netlink.Link, but []netip.Prefix) error {
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		r := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: ipNet(netip.MustParsePrefix(all)), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("local route %s: %w", all, err)
		}
	}
	for _, p := range append([]netip.Prefix{netip.MustParsePrefix("fe80::/10")}, but...) {
		if err := netlink.RouteAdd(&netlink.Route{Dst: ipNet(p), Type: unix.RTN_THROW, Table: unix.RT_TABLE_LOCAL}); err != nil {
			return fmt.Errorf("exception %s: %w", p, err)
		}
	}
	// As long as there is no rule of one's own, the kernel keeps the IPv4 tables local
	// and main as one, and a thrown packet has no other table to go to.
	rule := netlink.NewRule()
	rule.Family, rule.Table, rule.Priority = unix.AF_INET, unix.RT_TABLE_MAIN, 32765
	if err := netlink.RuleAdd(rule); err != nil {
		return fmt.Errorf("rule for the main table: %w", err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// sysctl writes a kernel setting of the calling thread's namespace.
func sysctl(key, value string) error {
	return os.WriteFile("/proc/sys/"+strings.ReplaceAll(key, ".", "/"), []byte(value), 0)
}

// Port returns a port of the node as the kernel has it.
func (n *Running) Port(name string) (index int, mac net.HardwareAddr, err error) {
	err = n.Do(func() error {
		p, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("port %s.%s: %w", n.Name, name, err)
		}
		index, mac = p.Attrs().Index, p.Attrs().HardwareAddr
		return nil
	})
	return index, mac, err
}

// SetPort brings a port up or takes it down.
func (n *Running) SetPort(name string, up bool) error {
	return n.Do(func() error {
		p, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("port %s.%s: %w", n.Name, name, err)
		}
		if up {
			return netlink.LinkSetUp(p)
		}
		return netlink.LinkSetDown(p)
	})
}

// AcceptRedirects prepares ports of the node for frames that an XDP program at
// the other end of the cable redirects: without a program here a veth drops them.
func (n *Running) AcceptRedirects(ports ...string) error {
	for _, name := range ports {
		index, _, err := n.Port(name)
		if err != nil {
			return err
		}
		err = n.Do(func() error {
			off, err := traffic.Accepting(index)
			if err == nil {
				n.lab.OnClose(func() error { off(); return nil })
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return nil
}
