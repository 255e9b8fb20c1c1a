// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"net/netip"

	"minne/internal/packet"
	"minne/internal/rib"
)

// Decide judges one frame that arrived on the port. Where several next hops are
// equally good there is one verdict per next hop, and a router may follow any of
// them as long as it keeps to it for a flow; in all other cases there is one.
func (r *Router) Decide(ingress int, frame []byte) []Verdict {
	port := r.ports[ingress]
	if port == nil || port.SlowPath {
		return punt(PortNotOurs)
	}
	if len(frame) < packet.EthernetLen {
		return drop(Malformed)
	}
	dst := packet.MAC(frame[:6])
	if dst.Group() {
		return punt(GroupMAC)
	}
	if dst != port.MAC {
		return drop(NotForUs)
	}
	at, etherType := packet.EthernetLen, binary.BigEndian.Uint16(frame[12:])
	for etherType == packet.TypeVLAN || etherType == packet.TypeQinQ {
		if len(frame) < at+packet.TagLen {
			return drop(Malformed)
		}
		port = r.tagged(port.Index, packet.Tag{Type: etherType, TCI: binary.BigEndian.Uint16(frame[at:])})
		if port == nil || port.SlowPath {
			return punt(VLANUnknown)
		}
		etherType = binary.BigEndian.Uint16(frame[at+2:])
		at += packet.TagLen
	}
	switch etherType {
	case packet.TypeIPv4:
		return r.decide4(port, frame[at:])
	case packet.TypeIPv6:
		return r.decide6(port, frame[at:])
	}
	return punt(EtherType)
}

// tagged finds the port that a tag on a parent's frame belongs to, by type and
// VLAN id (IEEE 802.1Q 9.6); the priority bits don't matter.
func (r *Router) tagged(parent int, tag packet.Tag) *Port {
	for _, p := range r.ports {
		if p.Parent == parent && p.Tag.Type == tag.Type && p.Tag.TCI == tag.TCI&0xfff {
			return p
		}
	}
	return nil
}

// decide4 follows RFC 1812 5.2: header validity, addresses, TTL, route.
func (r *Router) decide4(in *Port, b []byte) []Verdict {
	if len(b) < packet.IPv4Len {
		return drop(Malformed)
	}
	header := int(b[0]&0xf) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	switch {
	case b[0]>>4 != 4, header < packet.IPv4Len, len(b) < header, total < header, len(b) < total:
		return drop(Malformed)
	case packet.Checksum(b[:header]) != 0:
		return drop(BadChecksum)
	}
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	limited := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	fragment := binary.BigEndian.Uint16(b[6:])
	switch {
	case dst.IsMulticast():
		return punt(MulticastDest)
	case dst == limited:
		return punt(BroadcastDest)
	case dst.IsUnspecified(), dst.IsLoopback():
		return drop(MartianDest)
	case src.IsUnspecified(), src.IsLoopback(), src.IsMulticast(), src == limited, r.own[src]:
		return drop(MartianSource)
	case header > packet.IPv4Len:
		return punt(HasOptions)
	case fragment&(packet.MoreFragments|packet.OffsetMask) != 0:
		return punt(IsFragment)
	case b[8] <= 1:
		return punt(TTLExpired)
	case !r.sourceAllowed(in, &r.v4, src):
		return drop(Spoofed)
	}
	return r.route(&r.v4, dst, b[:total], func(out []byte) {
		out[8]--
		binary.BigEndian.PutUint16(out[10:], 0)
		binary.BigEndian.PutUint16(out[10:], packet.Checksum(out[:packet.IPv4Len]))
	})
}

// decide6 follows RFC 8200 3 and RFC 4291 2.5, 2.7.
func (r *Router) decide6(in *Port, b []byte) []Verdict {
	if len(b) < packet.IPv6Len || b[0]>>4 != 6 {
		return drop(Malformed)
	}
	src, dst := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	payload := int(binary.BigEndian.Uint16(b[4:]))
	if len(b) < packet.IPv6Len+payload {
		return drop(Malformed)
	}
	switch {
	case src.IsMulticast(), src.IsLoopback():
		return drop(MartianSource)
	case dst.IsLoopback():
		return drop(MartianDest)
	case dst.IsMulticast():
		return punt(MulticastDest)
	case src.IsLinkLocalUnicast(), dst.IsLinkLocalUnicast():
		return punt(LinkLocal)
	case src.IsUnspecified():
		return punt(UnspecifiedSource)
	}
	switch b[6] {
	case packet.ProtoFragment:
		return punt(IsFragment)
	case packet.ProtoHopByHop, packet.ProtoRouting, packet.ProtoDestOpts, packet.ProtoAH:
		return punt(ExtensionHeader)
	}
	switch {
	case b[7] <= 1:
		return punt(TTLExpired)
	case !r.sourceAllowed(in, &r.v6, src):
		return drop(Spoofed)
	}
	return r.route(&r.v6, dst, b[:packet.IPv6Len+payload], func(out []byte) { out[7]-- })
}

// sourceAllowed is the reverse path check of RFC 3704: strict (2.2) wants a route
// to the source back through the port, loose (2.4) any route to it.
func (r *Router) sourceAllowed(in *Port, t *table, src netip.Addr) bool {
	if in.SourceCheck == SourceAny {
		return true
	}
	route, ok := t.lookup(src)
	if !ok || route.Type != rib.Unicast {
		return false
	}
	hops, blackhole, foreign := r.nextHops(route)
	if blackhole || foreign {
		return false
	}
	if in.SourceCheck == SourceLoose {
		return true
	}
	for _, h := range hops {
		if h.Interface == in.Index {
			return true
		}
	}
	return false
}

// route finds the way to dst and builds the frame of each next hop; age makes
// the network packet one hop older.
func (r *Router) route(t *table, dst netip.Addr, network []byte, age func([]byte)) []Verdict {
	route, ok := t.lookup(dst)
	if !ok {
		return punt(NoRoute)
	}
	switch route.Type {
	case rib.Unicast:
	case rib.Blackhole:
		return drop(BlackholeRoute)
	case rib.Unreachable:
		return punt(UnreachableRoute)
	case rib.Prohibit:
		return punt(ProhibitRoute)
	case rib.Local, rib.Broadcast, rib.Anycast:
		return punt(LocalDest)
	default:
		return punt(RouteNotOurs)
	}
	hops, blackhole, foreign := r.nextHops(route)
	if blackhole {
		return drop(BlackholeRoute)
	}
	if foreign {
		return punt(RouteNotOurs)
	}
	var verdicts []Verdict
	for _, h := range hops {
		if h.Flags&(rib.HopDead|rib.HopLinkDown) == 0 {
			verdicts = append(verdicts, r.send(route, h, dst, network, age))
		}
	}
	if len(verdicts) == 0 {
		return punt(NoRoute)
	}
	return verdicts
}

// send builds the frame that leaves through one next hop.
func (r *Router) send(route rib.Route, hop rib.Hop, dst netip.Addr, network []byte, age func([]byte)) Verdict {
	out := r.ports[hop.Interface]
	if out == nil || out.SlowPath {
		return Verdict{Action: Punt, Reason: PortNotOurs}
	}
	mtu := out.MTU
	if route.MTU != 0 {
		mtu = min(mtu, int(route.MTU))
	}
	if len(network) > mtu {
		return Verdict{Action: Punt, Reason: TooBig}
	}
	gateway := hop.Gateway
	if !gateway.IsValid() {
		gateway = dst
	}
	mac, ok := r.neighbours[neighbourKey{out.Index, gateway}]
	if !ok {
		return Verdict{Action: Punt, Reason: NoNeighbour}
	}
	link := packet.Ethernet{Dst: mac, Src: out.MAC, Type: packet.TypeIPv4}
	if dst.Is6() {
		link.Type = packet.TypeIPv6
	}
	for out.Parent != 0 {
		link.Tags = append([]packet.Tag{out.Tag}, link.Tags...)
		out = r.ports[out.Parent]
	}
	frame := link.Append(make([]byte, 0, packet.EthernetLen+2*packet.TagLen+len(network)), network)
	age(frame[len(frame)-len(network):])
	return Verdict{Action: Forward, Port: out.Index, Frame: frame}
}

func drop(reason Reason) []Verdict { return []Verdict{{Action: Drop, Reason: reason}} }

func punt(reason Reason) []Verdict { return []Verdict{{Action: Punt, Reason: reason}} }
