// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/model/rib"
)

// Routes as RTM_NEWROUTE and RTM_DELROUTE messages: struct rtmsg, then RTA_
// attributes. Decoding reuses one routeMessage, encoding one builder, so neither
// allocates per route.

const (
	hopFlags = rib.HopDead | rib.HopOnLink | rib.HopLinkDown
	// RTM_F_CLONED in rtm_flags: a cached copy, not an entry of a table.
	clonedRoute = unix.RTM_F_CLONED
	// RTA_NH_ID, which golang.org/x/sys lacks: the id of a next-hop object.
	rtaNextHopID = 30

	rtMsgLen = unix.SizeofRtMsg // struct rtmsg
)

// routeMessage is a decoded route. Its Hops are overwritten by the next decode.
type routeMessage struct {
	Family uint8
	Cloned bool
	rib.Route
	hops []rib.Hop
}

// decode reads the body of a route message.
func (r *routeMessage) decode(body []byte) error {
	if len(body) < rtMsgLen {
		return nlmsg.ErrShort
	}
	family, dstLen, srcLen, tos := body[0], int(body[1]), int(body[2]), body[3]
	flags := native.Uint32(body[8:])
	hops := r.hops[:0]
	*r = routeMessage{Family: family, Cloned: flags&clonedRoute != 0, Route: rib.Route{
		TOS: tos, Table: uint32(body[4]), Protocol: body[5], Type: rib.RouteType(body[7]),
	}}
	var dst, src netip.Addr
	if family == unix.AF_INET6 {
		dst, src = netip.IPv6Unspecified(), netip.IPv6Unspecified()
	} else {
		dst, src = netip.IPv4Unspecified(), netip.IPv4Unspecified()
	}
	single := rib.Hop{Weight: 1, Flags: uint8(flags) & hopFlags}
	multipath := []byte(nil)
	for kind, value := range nlmsg.Attributes(body[rtMsgLen:]) {
		switch kind {
		case unix.RTA_DST:
			dst = addressOf(value)
		case unix.RTA_SRC:
			src = addressOf(value)
		case unix.RTA_TABLE:
			r.Table = uint32Of(value)
		case unix.RTA_PRIORITY:
			r.Metric = uint32Of(value)
		case rtaNextHopID:
			r.NextHopID = uint32Of(value)
		case unix.RTA_METRICS:
			r.MTU = routeMTU(value)
		case unix.RTA_MULTIPATH:
			multipath = value
		default:
			decodeHopAttr(kind, value, &single, &r.Encap)
		}
	}
	if !dst.IsValid() || !src.IsValid() {
		return nlmsg.ErrShort
	}
	r.Prefix = netip.PrefixFrom(dst, dstLen)
	if srcLen > 0 {
		r.Source = netip.PrefixFrom(src, srcLen)
	}
	if r.NextHopID == 0 {
		if multipath != nil {
			hops = decodeMultipath(multipath, hops, &r.Encap)
		} else if single.Interface != 0 && hasHops(r.Type) {
			hops = append(hops, single)
		}
		r.Hops = hops
	}
	r.hops = hops
	return nil
}

// hasHops says whether a route of that type leads anywhere. IPv6 shows rejecting
// routes with lo as their interface; that is not a next hop.
func hasHops(t rib.RouteType) bool {
	switch t {
	case rib.Blackhole, rib.Unreachable, rib.Prohibit, rib.Throw:
		return false
	}
	return true
}

// decodeHopAttr reads the attributes that a route and each of its hops may have.
func decodeHopAttr(kind uint16, value []byte, hop *rib.Hop, encap *bool) {
	switch kind {
	case unix.RTA_OIF:
		hop.Interface = int(uint32Of(value))
	case unix.RTA_GATEWAY:
		hop.Gateway = addressOf(value)
	case unix.RTA_VIA: // struct rtvia: family, address of the other family
		if len(value) > 2 {
			hop.Gateway = addressOf(value[2:])
		}
	case unix.RTA_ENCAP_TYPE:
		*encap = *encap || len(value) >= 2 && native.Uint16(value) != 0
	}
}

// decodeMultipath reads a list of struct rtnexthop, each with its attributes.
func decodeMultipath(b []byte, hops []rib.Hop, encap *bool) []rib.Hop {
	for len(b) >= unix.SizeofRtNexthop {
		length := int(native.Uint16(b))
		if length < unix.SizeofRtNexthop || length > len(b) {
			break
		}
		hop := rib.Hop{Flags: b[2] & hopFlags, Weight: uint16(b[3]) + 1, Interface: int(int32(native.Uint32(b[4:])))}
		for kind, value := range nlmsg.Attributes(b[unix.SizeofRtNexthop:length]) {
			decodeHopAttr(kind, value, &hop, encap)
		}
		hops = append(hops, hop)
		b = b[min(nlmsg.Align(length), len(b)):]
	}
	return hops
}

func routeMTU(b []byte) uint32 {
	for kind, value := range nlmsg.Attributes(b) {
		if kind == unix.RTAX_MTU {
			return uint32Of(value)
		}
	}
	return 0
}

func uint32Of(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return native.Uint32(b)
}

// addressOf reads an address of either family; the zero Addr when b is neither.
func addressOf(b []byte) netip.Addr {
	switch len(b) {
	case 4:
		return netip.AddrFrom4([4]byte(b))
	case 16:
		return netip.AddrFrom16([16]byte(b))
	}
	return netip.Addr{}
}

// encodeRoute appends a message that adds or removes a route. Hops of a removal
// are left out when there are none to compare.
func encodeRoute(w *builder, kind, flags uint16, seq uint32, r rib.Route) {
	body := w.begin(kind, flags, seq, rtMsgLen)
	is4 := r.Prefix.Addr().Is4()
	body[0] = unix.AF_INET6
	if is4 {
		body[0] = unix.AF_INET
	}
	body[1] = uint8(r.Prefix.Bits())
	body[3] = r.TOS
	if r.Table < 256 {
		body[4] = uint8(r.Table)
	}
	body[5] = r.Protocol
	body[6] = routeScope(r, is4)
	if kind == unix.RTM_DELROUTE {
		body[6] = unix.RT_SCOPE_NOWHERE // of whatever scope: without its hops, a route does not tell
	}
	body[7] = uint8(r.Type)
	if r.Source.IsValid() {
		body[2] = uint8(r.Source.Bits())
	}
	if len(r.Hops) == 1 {
		native.PutUint32(body[8:], uint32(r.Hops[0].Flags&rib.HopOnLink))
	}
	if r.Prefix.Bits() > 0 {
		w.address(unix.RTA_DST, r.Prefix.Addr())
	}
	if r.Source.IsValid() {
		w.address(unix.RTA_SRC, r.Source.Addr())
	}
	w.attr32(unix.RTA_TABLE, r.Table)
	if r.Metric != 0 {
		w.attr32(unix.RTA_PRIORITY, r.Metric)
	}
	if r.MTU != 0 {
		at := w.nest(unix.RTA_METRICS)
		w.attr32(unix.RTAX_MTU, r.MTU)
		w.unnest(at)
	}
	switch {
	case r.NextHopID != 0:
		w.attr32(rtaNextHopID, r.NextHopID)
	case len(r.Hops) == 1:
		encodeHop(w, r.Hops[0], is4)
		if r.Hops[0].Interface != 0 {
			w.attr32(unix.RTA_OIF, uint32(r.Hops[0].Interface))
		}
	case len(r.Hops) > 1:
		at := w.nest(unix.RTA_MULTIPATH)
		for _, hop := range r.Hops {
			begin := len(w.b)
			w.b = append(w.b, 0, 0, hop.Flags&rib.HopOnLink, uint8(max(hop.Weight, 1)-1))
			w.b = binary.NativeEndian.AppendUint32(w.b, uint32(hop.Interface))
			encodeHop(w, hop, is4)
			native.PutUint16(w.b[begin:], uint16(len(w.b)-begin))
		}
		w.unnest(at)
	}
	w.end()
}

// encodeHop appends the gateway of a hop: RTA_VIA when an IPv4 route has an IPv6 gateway (RFC 8950).
func encodeHop(w *builder, hop rib.Hop, is4 bool) {
	switch {
	case !hop.Gateway.IsValid():
	case is4 && hop.Gateway.Is6():
		via := native.AppendUint16(nil, unix.AF_INET6)
		w.attr(unix.RTA_VIA, append(via, hop.Gateway.AsSlice()...))
	default:
		w.address(unix.RTA_GATEWAY, hop.Gateway)
	}
}

// routeScope is the rtm_scope that the kernel wants of an IPv4 route: how far away its next hop may be.
func routeScope(r rib.Route, is4 bool) uint8 {
	if !is4 || r.NextHopID != 0 || len(r.Hops) == 0 {
		return unix.RT_SCOPE_UNIVERSE
	}
	if r.Type == rib.Local {
		return unix.RT_SCOPE_HOST
	}
	for _, hop := range r.Hops {
		if hop.Gateway.IsValid() {
			return unix.RT_SCOPE_UNIVERSE
		}
	}
	return unix.RT_SCOPE_LINK
}

// address appends an attribute that holds an address.
func (w *builder) address(kind uint16, a netip.Addr) {
	if a.Is4() {
		v := a.As4()
		w.attr(kind, v[:])
		return
	}
	v := a.As16()
	w.attr(kind, v[:])
}
