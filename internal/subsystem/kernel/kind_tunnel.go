// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// A tunnel, found by its name. Its ends and its TTL are changed in place; with another key it is another link, and so is
// VXLAN with anything else but its far ends, which are kept apart from the link (vxlan.go).
var tunnel = linkKind{
	name:    "tunnel",
	links:   []string{"gre", "ipip", "sit", "vxlan"},
	title:   "tunnel",
	lacking: "this kernel has no tunnels of this type, its module (ip_gre, ipip, sit or vxlan) is missing; for the reason run modprobe with its name",
	adopts:  true,

	want: func(i *config.Interface) netlink.Link {
		t := i.Tunnel
		local, remote, ttl := outer(t.Local), outer(t.Remote), uint8(t.TTL)
		switch t.Type {
		case "gre":
			key := uint32(t.Key)
			return &netlink.Gretun{Local: local, Remote: remote, Ttl: ttl, Tos: inheritTOS, PMtuDisc: 1, IKey: key, OKey: key}
		case "ipip":
			return &netlink.Iptun{Local: local, Remote: remote, Ttl: ttl, Tos: inheritTOS, PMtuDisc: 1, Proto: unix.IPPROTO_IPIP}
		case "6in4":
			return &netlink.Sittun{Local: local, Remote: remote, Ttl: ttl, Tos: inheritTOS, PMtuDisc: 1, Proto: unix.IPPROTO_IPV6}
		}
		v := &netlink.Vxlan{VxlanId: t.ID, Port: t.Port, TTL: t.TTL, TOS: inheritTOS, Learning: true, Age: vxlanAge}
		if t.Local.IsValid() {
			v.SrcAddr = t.Local.AsSlice()
		}
		return v
	},
	same: func(want, now netlink.Link) bool {
		if want.Attrs().Name != now.Attrs().Name || want.Type() != now.Type() {
			return false
		}
		switch w := want.(type) {
		case *netlink.Gretun:
			n := now.(*netlink.Gretun)
			return w.IKey == n.IKey && w.OKey == n.OKey
		case *netlink.Vxlan:
			n := now.(*netlink.Vxlan)
			return w.VxlanId == n.VxlanId && w.Port == n.Port && n.Group == nil && endsOf(w) == endsOf(n)
		}
		return true
	},
	change: func(want, now netlink.Link) string {
		if want.Type() == "vxlan" { // of which the kernel changes next to nothing
			return ""
		}
		w, n := endsOf(want), endsOf(now)
		switch {
		case w.local != n.local || w.remote != n.remote:
			return "ends"
		case w.ttl != n.ttl || w.tos != n.tos:
			return "TTL and TOS"
		case w.other != n.other:
			return "settings"
		}
		return ""
	},
	words: func(l netlink.Link) string {
		if v, ok := l.(*netlink.Vxlan); ok {
			return fmt.Sprintf("VXLAN %d on UDP port %d", v.VxlanId, v.Port)
		}
		e := endsOf(l)
		title := map[string]string{"gre": "GRE tunnel", "ip6gre": "GRE tunnel", "ipip": "IP-in-IP tunnel", "sit": "IPv6-in-IPv4 tunnel"}[l.Type()]
		if g, ok := l.(*netlink.Gretun); ok && g.OKey != 0 {
			title += fmt.Sprintf(" with key %d", g.OKey)
		}
		return title + " to " + e.remote.String()
	},
	describe: func(l netlink.Link, to *rib.Link) { to.Settings = fmt.Sprint(endsOf(l)) },
}

const (
	inheritTOS = 1   // the outer packet has the inner one's DSCP
	vxlanAge   = 300 // seconds until a MAC that is silent is forgotten, as a bridge has it
)

// outer is an end as netlink takes it: 0.0.0.0 for any.
func outer(a netip.Addr) net.IP {
	if !a.IsValid() {
		a = netip.IPv4Unspecified()
	}
	return a.AsSlice()
}

// ends are what a tunnel's packets have outside, and what else can be changed in place.
type ends struct {
	local, remote netip.Addr
	ttl, tos      int
	other         string
}

func endsOf(l netlink.Link) ends {
	end := func(a net.IP) netip.Addr {
		if found, ok := netip.AddrFromSlice(a); ok && !found.IsUnspecified() {
			return found.Unmap()
		}
		return netip.Addr{}
	}
	switch t := l.(type) {
	case *netlink.Gretun:
		return ends{end(t.Local), end(t.Remote), int(t.Ttl), int(t.Tos), fmt.Sprint(t.PMtuDisc, t.EncapType)}
	case *netlink.Iptun:
		return ends{end(t.Local), end(t.Remote), int(t.Ttl), int(t.Tos), fmt.Sprint(t.PMtuDisc, t.EncapType, t.Proto)}
	case *netlink.Sittun:
		return ends{end(t.Local), end(t.Remote), int(t.Ttl), int(t.Tos), fmt.Sprint(t.PMtuDisc, t.EncapType, t.Proto)}
	case *netlink.Vxlan:
		return ends{local: end(t.SrcAddr), ttl: t.TTL, tos: t.TOS, other: fmt.Sprint(t.Learning, t.Proxy, t.RSC, t.Age)}
	}
	return ends{}
}
