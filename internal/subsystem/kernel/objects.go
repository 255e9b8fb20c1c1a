// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/model/rib"
)

// Links, addresses, rules, neighbours and next-hop objects as messages.

const (
	ifInfoLen = unix.SizeofIfInfomsg // struct ifinfomsg
	ifAddrLen = unix.SizeofIfAddrmsg // struct ifaddrmsg
	ruleLen   = 12                   // struct fib_rule_hdr
	neighLen  = unix.SizeofNdMsg     // struct ndmsg
	nextHopLn = 8                    // struct nhmsg

	rtmNewNextHop = 104
	rtmDelNextHop = 105
	rtmGetNextHop = 106

	familyBridge = unix.AF_BRIDGE // of link and neighbour messages about bridge ports, not about the link itself
)

// decodeLink reads an RTM_NEWLINK or RTM_DELLINK body. ok is false for messages that are about
// something else of a link: a bridge port, a wireless event.
func decodeLink(m nlmsg.Message) (l rib.Link, ok bool) {
	b := m.Body
	if len(b) < ifInfoLen || b[0] == familyBridge {
		return rib.Link{}, false
	}
	flags := native.Uint32(b[8:])
	l = rib.Link{
		Index: int(int32(native.Uint32(b[4:]))),
		Up:    flags&unix.IFF_UP != 0, Running: flags&unix.IFF_LOWER_UP != 0, Loopback: flags&unix.IFF_LOOPBACK != 0,
		Deleted: m.Type == unix.RTM_DELLINK,
	}
	for kind, value := range nlmsg.Attributes(b[ifInfoLen:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.Name = unix.ByteSliceToString(value)
		case unix.IFLA_ADDRESS:
			if len(value) == 6 {
				l.MAC = append(net.HardwareAddr(nil), value...)
			}
		case unix.IFLA_MTU:
			l.MTU = int(uint32Of(value))
		case unix.IFLA_GROUP:
			l.Group = uint32Of(value)
		case unix.IFLA_MASTER:
			l.Master = int(uint32Of(value))
		case unix.IFLA_LINKINFO:
			l.Kind = infoKind(value)
			l.InUse = membershipOf(value).PortState == portInUse
		case unix.IFLA_XDP:
			l.XDPProgram = xdpProgram(value)
		}
	}
	if k, as := typed(l.Kind, b); k != nil && k.describe != nil {
		k.describe(as, &l)
	}
	if t, ok := treeOf(b); ok {
		l.Settings += t.settings()
	}
	return l, l.Name != "" && l.MTU != 0
}

func infoKind(b []byte) string {
	for kind, value := range nlmsg.Attributes(b) {
		if kind == unix.IFLA_INFO_KIND {
			return unix.ByteSliceToString(value)
		}
	}
	return ""
}

func xdpProgram(b []byte) uint32 {
	for kind, value := range nlmsg.Attributes(b) {
		if kind == unix.IFLA_XDP_PROG_ID {
			return uint32Of(value)
		}
	}
	return 0
}

// decodeAddress reads an RTM_NEWADDR or RTM_DELADDR body.
func decodeAddress(m nlmsg.Message) (a rib.LinkAddress, ok bool) {
	b := m.Body
	if len(b) < ifAddrLen {
		return rib.LinkAddress{}, false
	}
	var local, peer netip.Addr
	for kind, value := range nlmsg.Attributes(b[ifAddrLen:]) {
		switch kind {
		case unix.IFA_LOCAL:
			local = addressOf(value)
		case unix.IFA_ADDRESS:
			peer = addressOf(value)
		}
	}
	if !local.IsValid() {
		local = peer // IPv6 has IFA_LOCAL only with a peer
	}
	a = rib.LinkAddress{Address: netip.PrefixFrom(local, int(b[1])), Interface: int(native.Uint32(b[4:])),
		Deleted: m.Type == unix.RTM_DELADDR}
	return a, local.IsValid()
}

// decodeNeighbour reads an RTM_NEWNEIGH or RTM_DELNEIGH body; ok is false for proxy and bridge entries.
func decodeNeighbour(m nlmsg.Message) (n rib.Neighbour, ok bool) {
	b := m.Body
	if len(b) < neighLen || b[0] == familyBridge || b[10]&unix.NTF_PROXY != 0 {
		return rib.Neighbour{}, false
	}
	n = rib.Neighbour{Interface: int(int32(native.Uint32(b[4:]))), State: native.Uint16(b[8:]), Deleted: m.Type == unix.RTM_DELNEIGH}
	for kind, value := range nlmsg.Attributes(b[neighLen:]) {
		switch kind {
		case unix.NDA_DST:
			n.Address = addressOf(value)
		case unix.NDA_LLADDR:
			if len(value) == 6 {
				n.MAC = append(net.HardwareAddr(nil), value...)
			}
		}
	}
	return n, n.Address.IsValid()
}

// Attributes of rules (FRA_) that every rule has and that select nothing.
const (
	fraPriority          = 6
	fraSuppressIfGroup   = 13
	fraSuppressPrefixLen = 14
	fraTable             = 15
	fraL3MasterDevice    = 19
	fraProtocol          = 21
)

// decodeRule reads an RTM_NEWRULE body.
func decodeRule(m nlmsg.Message) (r rib.Rule, ok bool) {
	b := m.Body
	if len(b) < ruleLen || b[0] != unix.AF_INET && b[0] != unix.AF_INET6 {
		return rib.Rule{}, false
	}
	const toTable = 1 // FR_ACT_TO_TBL
	r = rib.Rule{Family: b[0]}
	own := false
	table, all := uint32(b[4]), b[1] == 0 && b[2] == 0 && b[3] == 0 && b[7] == toTable
	for kind, value := range nlmsg.Attributes(b[ruleLen:]) {
		switch kind {
		case fraPriority:
			r.Priority = uint32Of(value)
		case fraTable:
			table = uint32Of(value)
		case fraSuppressPrefixLen:
			all = all && uint32Of(value) == 1<<32-1
		case fraSuppressIfGroup:
			r.Pass = uint32Of(value)
			all = all && r.Pass != 0 // group 0 is that of all links that are in no other
		case fraL3MasterDevice:
			r.VRF = true
		case fraProtocol:
			const minne = 0x4d
			own = len(value) > 0 && value[0] == minne
		default:
			all = false
		}
	}
	const invert = 2 // FIB_RULE_INVERT
	if native.Uint32(b[8:])&invert != 0 {
		r.VRF, all = false, false
	}
	const first, last = 20000, 22000 // of the rules of policy routing (package uplinks)
	r.Policy = own && r.Priority >= first && r.Priority <= last
	r.Partial = r.VRF && (!all || r.Pass != 0)
	if all && !r.VRF && !r.Policy {
		r.Table = table
	} else {
		r.Pass = 0
	}
	return r, true
}

// Attributes of next-hop objects (NHA_).
const (
	nhaID        = 1
	nhaGroup     = 2
	nhaGroupType = 3
	nhaBlackhole = 4
	nhaOIF       = 5
	nhaGateway   = 6
	nhaEncapType = 7
	nhaFDB       = 11
)

// decodeNextHop reads an RTM_NEWNEXTHOP or RTM_DELNEXTHOP body.
func decodeNextHop(m nlmsg.Message) (g rib.NextHopGroup, ok bool) {
	b := m.Body
	if len(b) < nextHopLn {
		return rib.NextHopGroup{}, false
	}
	g.Deleted = m.Type == rtmDelNextHop
	hop := rib.Hop{Weight: 1, Flags: uint8(native.Uint32(b[4:])) & hopFlags}
	for kind, value := range nlmsg.Attributes(b[nextHopLn:]) {
		switch kind {
		case nhaID:
			g.ID = uint32Of(value)
		case nhaGroup:
			for ; len(value) >= 8; value = value[8:] { // struct nexthop_grp
				weight := uint16(value[4]) | uint16(value[5])<<8
				g.Members = append(g.Members, rib.NextHopMember{ID: native.Uint32(value), Weight: weight + 1})
			}
		case nhaGroupType:
			g.Encap = g.Encap || len(value) >= 2 && native.Uint16(value) != 0 // resilient
		case nhaBlackhole:
			g.Blackhole = true
		case nhaOIF:
			hop.Interface = int(uint32Of(value))
		case nhaGateway:
			hop.Gateway = addressOf(value)
		case nhaEncapType, nhaFDB:
			g.Encap = true
		}
	}
	if len(g.Members) == 0 && !g.Blackhole && hop.Interface != 0 {
		g.Hop = hop
	}
	return g, g.ID != 0
}
