// SPDX-License-Identifier: Apache-2.0

// Package failover lets an uplink of a Minne router die in several ways, while packets flow to many destinations and
// back, and says for how long each of them could not be reached.
//
//	              ┌── isp-a ──┐
//	desk ── border            world
//	              └── isp-b ──┘
//
// border is the Minne router, with `uplinks` to isp-a (preferred) and isp-b. All others are network namespaces; isp-a,
// isp-b and world run BIRD, with BFD: both ISPs tell border the same table. What goes to desk depends on world, which is
// no Minne router: it is shown beside what goes to the world.
package failover

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"minne/internal/base/ipnet"
	"minne/internal/lab"
	"minne/internal/subsystem/uplinks"
)

// AS numbers of the documentation range (RFC 5398).
const (
	borderAS = 64496
	ispAAS   = 64501
	ispBAS   = 64502
	worldAS  = 64510
)

// The sizes of the table that can be asked for.
const (
	LeastPrefixes   = 100
	DefaultPrefixes = 20_000
	MostPrefixes    = 1_000_000
)

const (
	hosts    = 20 // destinations in each direction, half of them IPv4
	rate     = hosts * 100
	underway = time.Second     // that a packet may take
	steady   = time.Second     // without a loss: traffic flows
	patience = 2 * time.Minute // for what has to happen
)

const config = `version: 1
system: {hostname: border, router-id: 203.0.113.1}
interfaces:
  lan: {addresses: [203.0.113.129/25, "2001:db8:113::1/64"]}
  isp-a: {addresses: [198.51.100.2/30, "2001:db8:a::2/64"]}
  isp-b: {addresses: [198.51.100.6/30, "2001:db8:b::2/64"]}
uplinks:
  isp-a: {priority: 1}
  isp-b: {priority: 2}
routing:
  bgp:
    asn: 64496
    bogons: accept # the lab's AS numbers and addresses are documentation ones
    announce: [203.0.113.0/24, "2001:db8:113::/48"]
    peers:
      isp-a-ipv4: {address: 198.51.100.1, asn: 64501, bfd: on, import: {preference: 200}}
      isp-a-ipv6: {address: "2001:db8:a::1", asn: 64501, bfd: on, import: {preference: 200}}
      isp-b-ipv4: {address: 198.51.100.5, asn: 64502, bfd: on, import: {preference: 100}}
      isp-b-ipv6: {address: "2001:db8:b::1", asn: 64502, bfd: on, import: {preference: 100}}
`

// table makes n prefixes, three of four IPv4: /24 from 20.0.0.0 on, /48 from 2a00:: on.
func table(n int) (list []netip.Prefix) {
	for i := range n {
		if i%4 == 3 {
			a := [16]byte{0: 0x2a}
			binary.BigEndian.PutUint32(a[2:], uint32(i))
			list = append(list, netip.PrefixFrom(netip.AddrFrom16(a), 48))
			continue
		}
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 20<<24+uint32(i)<<8)
		list = append(list, netip.PrefixFrom(netip.AddrFrom4(a), 24))
	}
	return list
}

// spread returns the destinations in world: hosts of prefixes all over the table, half of each family.
func spread(table []netip.Prefix) (list []netip.Addr) {
	for i := range hosts {
		at := i * (len(table) - 4) / (hosts - 1) / 4 * 4
		if i%2 == 1 {
			at += 3
		}
		list = append(list, table[at].Addr().Next())
	}
	return list
}

// desks returns the addresses of desk, as many as there are destinations.
func desks() (list []netip.Prefix) {
	v4, v6 := netip.MustParseAddr("203.0.113.130"), netip.MustParseAddr("2001:db8:113::2")
	for range hosts / 2 {
		list = append(list, netip.PrefixFrom(v4, 25), netip.PrefixFrom(v6, 64))
		v4, v6 = v4.Next(), v6.Next()
	}
	return list
}

func port(node, name string, addresses ...string) lab.Port {
	return lab.Port{Node: node, Name: name, Addresses: ipnet.Must(addresses...)}
}

func topology() lab.Topology {
	via := func(v4, v6 string) []lab.Route {
		return []lab.Route{{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr(v4)}, {To: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr(v6)}}
	}
	return lab.Topology{
		Nodes: []lab.Node{
			{Name: "border"},
			{Name: "desk", Routes: via("203.0.113.129", "2001:db8:113::1")},
			{Name: "isp-a", Forwards: true, Routes: via("198.51.100.10", "2001:db8:a1::2")},
			{Name: "isp-b", Forwards: true, Routes: via("198.51.100.14", "2001:db8:b1::2")},
			{Name: "world", EverywhereBut: ipnet.Must("203.0.113.0/24", "198.51.100.0/24", "2001:db8::/32")},
		},
		Links: []lab.Link{
			{A: port("border", "lan"), B: lab.Port{Node: "desk", Name: "border", Addresses: desks()}},
			{A: port("border", "isp-a"), B: port("isp-a", "border", "198.51.100.1/30", "2001:db8:a::1/64")},
			{A: port("border", "isp-b"), B: port("isp-b", "border", "198.51.100.5/30", "2001:db8:b::1/64")},
			{A: port("isp-a", "world", "198.51.100.9/30", "2001:db8:a1::1/64"), B: port("world", "isp-a", "198.51.100.10/30", "2001:db8:a1::2/64")},
			{A: port("isp-b", "world", "198.51.100.13/30", "2001:db8:b1::1/64"), B: port("world", "isp-b", "198.51.100.14/30", "2001:db8:b1::2/64")},
		},
	}
}

// peers makes the two sessions, one per family, between this end and the other.
func peers(name string, own, other uint32, local4, remote4, local6, remote6 string, like lab.BIRDPeer) []lab.BIRDPeer {
	v4, v6 := like, like
	v4.Name, v6.Name, v4.LocalAS, v6.LocalAS, v4.PeerAS, v6.PeerAS = name+"4", name+"6", own, own, other, other
	v4.Local, v4.Remote = netip.MustParseAddr(local4), netip.MustParseAddr(remote4)
	v6.Local, v6.Remote = netip.MustParseAddr(local6), netip.MustParseAddr(remote6)
	return []lab.BIRDPeer{v4, v6}
}

func birds(table []netip.Prefix) map[string]lab.BIRD {
	upstream, transit, preferred := lab.BIRDPeer{BFD: true, Full: true}, lab.BIRDPeer{BFD: true}, lab.BIRDPeer{BFD: true, Preference: 200}
	told := append([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, table...)
	return map[string]lab.BIRD{
		"isp-a": {RouterID: netip.MustParseAddr("198.51.100.1"), Announced: told, BGP: append(
			peers("border", ispAAS, borderAS, "198.51.100.1", "198.51.100.2", "2001:db8:a::1", "2001:db8:a::2", upstream),
			peers("world", ispAAS, worldAS, "198.51.100.9", "198.51.100.10", "2001:db8:a1::1", "2001:db8:a1::2", transit)...)},
		"isp-b": {RouterID: netip.MustParseAddr("198.51.100.5"), Announced: told, BGP: append(
			peers("border", ispBAS, borderAS, "198.51.100.5", "198.51.100.6", "2001:db8:b::1", "2001:db8:b::2", upstream),
			peers("world", ispBAS, worldAS, "198.51.100.13", "198.51.100.14", "2001:db8:b1::1", "2001:db8:b1::2", transit)...)},
		"world": {RouterID: netip.MustParseAddr("198.51.100.10"), BGP: append(
			peers("isp_a", worldAS, ispAAS, "198.51.100.10", "198.51.100.9", "2001:db8:a1::2", "2001:db8:a1::1", preferred),
			peers("isp_b", worldAS, ispBAS, "198.51.100.14", "198.51.100.13", "2001:db8:b1::2", "2001:db8:b1::1", transit)...)},
	}
}

// Bed is the network, with all routes where they belong.
type Bed struct {
	lab     *lab.Lab
	border  *lab.Minne
	table   []netip.Prefix
	bird    *lab.Process // of isp-a
	inside  []netip.Addr
	outside []netip.Addr
}

// New builds the network with a table of so many prefixes. binary is the minne command.
func New(ctx context.Context, binary string, prefixes int) (*Bed, error) {
	built, err := lab.Start(ctx, topology())
	if err != nil {
		return nil, err
	}
	b := &Bed{lab: built, table: table(prefixes)}
	b.outside = spread(b.table)
	for _, p := range desks() {
		b.inside = append(b.inside, p.Addr())
	}
	if err := b.start(ctx, binary); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close removes the network and all that runs in it.
func (b *Bed) Close() error { return b.lab.Close() }

func (b *Bed) start(ctx context.Context, binary string) (err error) {
	for _, node := range []string{"desk", "isp-a", "isp-b"} {
		if err := b.lab.Node(node).AcceptRedirects("border"); err != nil {
			return err
		}
	}
	// A port that comes up again has its addresses, as the kernel's IPv6 does not have it by itself.
	if _, err := b.lab.Node("isp-a").Run(ctx, "sysctl", "-qw", "net.ipv6.conf.border.keep_addr_on_down=1"); err != nil {
		return err
	}
	for node, c := range birds(b.table) {
		p, err := b.lab.Node(node).StartBIRD(ctx, c)
		if err != nil {
			return err
		}
		if node == "isp-a" {
			b.bird = p
		}
	}
	if b.border, err = b.lab.Node("border").Minne(binary, config, ""); err != nil {
		return err
	}
	if err := b.border.StartDaemon(ctx); err != nil {
		return err
	}
	if _, err := b.border.Command(ctx, "apply", b.border.Config); err != nil {
		return fmt.Errorf("%w\ndaemon: %s", err, b.border.Log(10))
	}
	if err := b.whole(ctx); err != nil {
		return err
	}
	_, err = b.during(ctx, func() error { return nil }) // all neighbours are known before anything is counted
	return err
}

// uplink returns how the router sees isp-a.
func (b *Bed) uplink(ctx context.Context) (u uplinks.Observed, err error) {
	var v struct {
		Uplinks []uplinks.Observed `json:"uplinks"`
	}
	if err := b.border.JSON(ctx, &v, "show", "uplinks"); err != nil {
		return u, err
	}
	for _, u := range v.Uplinks {
		if u.Name == "isp-a" {
			return u, nil
		}
	}
	return u, errors.New("the router has no uplink isp-a")
}

// whole waits until the whole table leads to isp-a again, and world leads to desk by isp-a.
func (b *Bed) whole(ctx context.Context) error {
	want := [2]int{1, 1} // the default routes
	for _, p := range b.table {
		if p.Addr().Is4() {
			want[0]++
		} else {
			want[1]++
		}
	}
	return b.until(ctx, "all routes to lead to ISP A", func() error {
		u, err := b.uplink(ctx)
		switch {
		case err != nil:
			return err
		case u.State != "up" || u.Passed:
			return fmt.Errorf("the uplink is %s (%s), passed over: %v", u.State, u.Reason, u.Passed)
		case u.Routes == nil || u.Routes[0] < want[0] || u.Routes[1] < want[1]:
			return fmt.Errorf("the router has routes %v by it, expected %v", u.Routes, want)
		}
		for family, to := range map[string]string{"-4": "203.0.113.0/24", "-6": "2001:db8:113::/48"} {
			out, err := b.lab.Node("world").Run(ctx, "ip", family, "route", "show", "exact", to)
			if err == nil && !strings.Contains(out, "dev isp-a") {
				err = fmt.Errorf("world's route to %s: %q", to, out)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *Bed) until(ctx context.Context, what string, ready func() error) error {
	if err := lab.Until(ctx, patience, what, ready); err != nil {
		return fmt.Errorf("%w\ndaemon: %s", err, b.border.Log(10))
	}
	return nil
}
