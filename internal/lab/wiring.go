// SPDX-License-Identifier: Apache-2.0

package lab

import (
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
// Both ends have one queue in each direction: a redirect into a veth picks the
// queue by CPU modulo queues, and with one nothing can be out of order.
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
		attrs.NumTxQueues, attrs.NumRxQueues = 1, 1
		attrs.MTU = c.MTU
		if attrs.MTU == 0 {
			attrs.MTU = 1500
		}
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs, PeerName: c.B.Name, PeerNamespace: netlink.NsFd(peer),
			PeerNumTxQueues: 1, PeerNumRxQueues: 1, PeerMTU: uint32(attrs.MTU),
		})
	})
	if err != nil {
		return fmt.Errorf("cable %s.%s to %s.%s: %w", c.A.Node, c.A.Name, c.B.Node, c.B.Name, err)
	}
	for _, p := range []Port{c.A, c.B} {
		if err := l.nodes[p.Node].plug(p); err != nil {
			return fmt.Errorf("port %s.%s: %w", p.Node, p.Name, err)
		}
	}
	return nil
}

// plug gives a port its addresses and brings it up.
func (n *Running) plug(p Port) error {
	return n.Do(func() error {
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
	})
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

// configure does what concerns the node as a whole, after its ports are plugged in.
func (n *Running) configure(c Node) error {
	return n.Do(func() error {
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
		if c.Forwards {
			if err := errors.Join(sysctl("net/ipv4/ip_forward", "1"), sysctl("net/ipv6/conf/all/forwarding", "1")); err != nil {
				return err
			}
		}
		if c.Everywhere {
			if err := answerEverywhere(lo); err != nil {
				return err
			}
		}
		for _, r := range c.Routes {
			if err := netlink.RouteAdd(&netlink.Route{Dst: ipNet(r.To), Gw: r.Via.AsSlice()}); err != nil {
				return fmt.Errorf("route %s via %s: %w", r.To, r.Via, err)
			}
		}
		return nil
	})
}

// answerEverywhere makes every address without a longer route a local one (the
// kernel's "AnyIP"): a local default route in a table that is asked last.
func answerEverywhere(lo netlink.Link) error {
	const table = 1000
	for _, all := range []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")} {
		family := unix.AF_INET
		if all.Addr().Is6() {
			family = unix.AF_INET6
		}
		r := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: ipNet(all), Type: unix.RTN_LOCAL, Table: table, Scope: netlink.SCOPE_HOST}
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("local route %s: %w", all, err)
		}
		rule := netlink.NewRule()
		rule.Family, rule.Table, rule.Priority = family, table, 40000
		if err := netlink.RuleAdd(rule); err != nil {
			return fmt.Errorf("rule for %s: %w", all, err)
		}
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
