// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"net/netip"

	"minne/internal/model/packet"
	"minne/internal/model/rib"
)

// Decide evaluates one frame that arrived on the port. Where several next hops are
// equally good there is one verdict per next hop, and a router may follow any of
// them as long as it keeps to it for a flow; in all other cases there is one.
func (r *Router) Decide(ingress int, frame []byte) []Verdict {
	if len(frame) < packet.EthernetLen {
		return punt(EtherType)
	}
	port, etherType, at := r.ports[ingress], binary.BigEndian.Uint16(frame[12:]), packet.EthernetLen
	for etherType == packet.TypeVLAN || etherType == packet.TypeQinQ {
		if len(frame) < at+packet.TagLen {
			return punt(EtherType)
		}
		port = r.tagged(port, packet.Tag{Type: etherType, TCI: binary.BigEndian.Uint16(frame[at:])})
		etherType = binary.BigEndian.Uint16(frame[at+2:])
		at += packet.TagLen
		if at == packet.EthernetLen+2*packet.TagLen {
			break // a third tag is nobody's
		}
	}
	switch dst := packet.MAC(frame[:6]); {
	case port == nil || port.SlowPath:
		return punt(UnknownPort)
	case dst.Group():
		return punt(GroupMAC)
	case dst != port.MAC:
		return punt(OtherMAC)
	case etherType == packet.TypeIPv4:
		return r.decide4(port, frame[at:])
	case etherType == packet.TypeIPv6:
		return r.decide6(port, frame[at:])
	}
	return punt(EtherType)
}

// tagged finds the port that a tag on a parent's frame belongs to, by type and
// VLAN id (IEEE 802.1Q 9.6); the priority bits don't matter.
func (r *Router) tagged(parent *Port, tag packet.Tag) *Port {
	for _, p := range r.ports {
		if parent != nil && p.Parent == parent.Index && p.Tag.Type == tag.Type && p.Tag.TCI == tag.TCI&0xfff {
			return p
		}
	}
	return nil
}

// limitedBroadcast is the broadcast address of every network (RFC 919).
var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// decide4 follows RFC 1812 5.2: header validity, addresses, TTL, route.
func (r *Router) decide4(in *Port, b []byte) []Verdict {
	if len(b) < packet.IPv4Len {
		return drop(Truncated)
	}
	header := int(b[0]&0xf) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	switch {
	case b[0]>>4 != 4, header < packet.IPv4Len:
		return drop(BadVersion)
	case header > packet.IPv4Len:
		return punt(HasOptions)
	case packet.Checksum(b[:header]) != 0:
		return drop(BadChecksum)
	case total < header, len(b) < total:
		return drop(BadLength)
	}
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	switch {
	case binary.BigEndian.Uint16(b[6:])&(packet.MoreFragments|packet.OffsetMask) != 0:
		return punt(IsFragment)
	case dst.IsMulticast():
		return punt(MulticastDest)
	case dst == limitedBroadcast, src.IsUnspecified() && dst.IsUnspecified():
		return punt(BroadcastDest)
	case src.IsMulticast(), src == limitedBroadcast, src.IsUnspecified():
		return drop(MartianSource)
	case dst.IsUnspecified():
		return drop(MartianDest)
	case src.IsLoopback(), dst.IsLoopback():
		return punt(LoopbackAddress)
	case b[8] <= 1:
		return punt(TTLExpired)
	}
	route, stop := r.find(&r.v4, dst)
	if stop != nil {
		return stop
	}
	if why := r.checkSource4(in, src); why != nil {
		return why
	}
	return r.forward(in, route, dst, b[:total], func(out []byte) {
		out[8]--
		binary.BigEndian.PutUint16(out[10:], 0)
		binary.BigEndian.PutUint16(out[10:], packet.Checksum(out[:packet.IPv4Len]))
	})
}

// decide6 follows RFC 8200 3 and 4, RFC 4291 2.5 to 2.7.
func (r *Router) decide6(in *Port, b []byte) []Verdict {
	if len(b) < packet.IPv6Len {
		return drop(Truncated)
	}
	if b[0]>>4 != 6 {
		return drop(BadVersion)
	}
	length := packet.IPv6Len + int(binary.BigEndian.Uint16(b[4:]))
	if len(b) < length {
		return drop(BadLength)
	}
	src, dst := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	switch {
	case multicast6(src), src == netip.IPv6Loopback():
		return drop(MartianSource)
	case src.IsUnspecified():
		return punt(UnspecifiedEnd)
	case dst == netip.IPv6Loopback():
		return drop(MartianDest)
	case dst.IsUnspecified():
		return punt(UnspecifiedEnd)
	case multicast6(dst):
		return punt(MulticastDest)
	case linkLocal6(src), linkLocal6(dst):
		return punt(LinkLocal)
	case b[6] == packet.ProtoHopByHop:
		return punt(HopByHop)
	case b[7] <= 1:
		return punt(TTLExpired)
	}
	route, stop := r.find(&r.v6, dst)
	if stop != nil {
		return stop
	}
	if !r.sourceAllowed(in, &r.v6, src) || r.manyWays(in, src) {
		return punt(SourceCheckFailed)
	}
	if hops, _, _ := r.nextHops(route); len(hops) > 1 && hidesPorts(b[6]) {
		return punt(ExtensionHeader)
	}
	return r.forward(in, route, dst, b[:length], func(out []byte) { out[7]-- })
}

// multicast6 is RFC 4291 2.7. An IPv4-mapped address is none, whatever is mapped:
// on the wire it is a unicast address like others. (Package netip looks inside.)
func multicast6(a netip.Addr) bool { return a.As16()[0] == 0xff }

// linkLocal6 is RFC 4291 2.5.6.
func linkLocal6(a netip.Addr) bool { return !a.Is4In6() && a.IsLinkLocalUnicast() }

// hidesPorts tells whether the ports of a flow stand behind this extension header.
func hidesPorts(next uint8) bool {
	return next == packet.ProtoRouting || next == packet.ProtoFragment || next == packet.ProtoDestOpts
}

// checkSource4 is the source check of IPv4: the router's own addresses come from
// nowhere else (RFC 1812 5.3.8), others are checked if the port says so. What Linux
// makes of a broadcast address of a connected network hangs on whether there ever
// was a rule of policy routing: it is asked.
func (r *Router) checkSource4(in *Port, src netip.Addr) []Verdict {
	if r.own[src] {
		return punt(OwnSource)
	}
	if route, ok := r.v4.lookup(src); ok && route.Type == rib.Broadcast {
		return punt(SourceCheckFailed)
	}
	if in.SourceCheck == SourceAny {
		return nil
	}
	if !r.sourceAllowed(in, &r.v4, src) {
		return drop(Spoofed)
	}
	return nil
}

// manyWays tells whether a strict check has to choose among several next hops: in
// IPv6 Linux looks at the one that the flow's hash picks.
func (r *Router) manyWays(in *Port, src netip.Addr) bool {
	if in.SourceCheck != SourceStrict {
		return false
	}
	route, _ := r.v6.lookup(src)
	hops, _, _ := r.nextHops(route)
	return len(hops) > 1
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

// find looks up the route to dst; stop is the verdict when it leads nowhere.
func (r *Router) find(t *table, dst netip.Addr) (route rib.Route, stop []Verdict) {
	route, ok := t.lookup(dst)
	if !ok {
		return route, punt(NoRoute)
	}
	switch route.Type {
	case rib.Unicast:
	case rib.Blackhole:
		return route, drop(BlackholeRoute)
	case rib.Unreachable:
		return route, punt(UnreachableRoute)
	case rib.Prohibit:
		return route, punt(ProhibitRoute)
	case rib.Local, rib.Anycast:
		return route, punt(LocalDest)
	case rib.Broadcast:
		return route, punt(BroadcastDest)
	default:
		return route, punt(SpecialRoute)
	}
	hops, blackhole, foreign := r.nextHops(route)
	switch {
	case blackhole:
		return route, drop(BlackholeRoute)
	case foreign:
		return route, punt(SpecialRoute)
	case len(hops) == 0:
		return route, punt(NoRoute)
	}
	return route, nil
}

// forward builds the frame of each next hop; age makes the network packet one hop older.
func (r *Router) forward(in *Port, route rib.Route, dst netip.Addr, network []byte, age func([]byte)) []Verdict {
	hops, _, _ := r.nextHops(route)
	var verdicts []Verdict
	for _, h := range hops {
		if h.Flags&(rib.HopDead|rib.HopLinkDown) == 0 {
			verdicts = append(verdicts, r.send(in, route, h, dst, network, age))
		}
	}
	if len(verdicts) == 0 {
		return punt(NoRoute)
	}
	return verdicts
}

// send builds the frame that leaves through one next hop.
func (r *Router) send(in *Port, route rib.Route, hop rib.Hop, dst netip.Addr, network []byte, age func([]byte)) Verdict {
	gateway := hop.Gateway
	if !gateway.IsValid() {
		gateway = dst
	}
	mac, ok := r.neighbours[neighbourKey{hop.Interface, gateway}]
	if !ok {
		return Verdict{Action: Punt, Reason: NoNeighbour}
	}
	out := r.ports[hop.Interface]
	if out == nil || out.SlowPath {
		return Verdict{Action: Punt, Reason: Egress}
	}
	mtu := out.MTU
	if route.MTU != 0 {
		mtu = min(mtu, int(route.MTU))
	}
	if len(network) > mtu {
		return Verdict{Action: Punt, Reason: TooBig}
	}
	// Where a packet leaves by the link it came from, its sender has a better way. IPv6
	// routers tell it (RFC 4861 8.2); IPv4 redirects are off, so nothing is left to do.
	if dst.Is6() && out == in {
		return Verdict{Action: Punt, Reason: Redirected}
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
