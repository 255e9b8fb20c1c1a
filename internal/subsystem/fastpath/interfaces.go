// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"iter"
	"math"
	"net/netip"

	"minne/internal/model/rib"
)

// Interfaces: which port and VLAN tags belong together, which of them take part in
// the fast path, and what the kernel would do with packets there.

// Flags of an interface, as in bpf/maps.h.
const (
	ifKnown      = 1
	ifForward4   = 2
	ifForward6   = 4
	ifStrict4    = 8
	ifLoose4     = 16
	ifStrict6    = 32
	ifLoose6     = 64
	ifRedirects4 = 128
	ifUnsummed   = 256
	ifSession    = 512

	maxIfindex = 65536
	maxSlots   = 4096
	maxTags    = 2
	maxMTU     = math.MaxUint16
)

// device is a network device as the kernel tells of it, and what is set for it.
type device struct {
	rib.Link
	settings settings
	round    uint8
	vlan     *routerVlanKey // its place in the map of VLANs, while it has one
	session  *session       // of PPPoE that it is, on the link below
	below    int            // index of that link
}

// vlanTag is a tag as it is pushed.
type vlanTag struct {
	proto uint16 // 0x8100 or 0x88a8
	id    uint16
}

// egress is how packets leave by an interface.
type egress struct {
	port int
	tags []vlanTag // outermost first
	mac  [6]byte
	mtu4 uint16
	mtu6 uint16

	session  *session // that they leave in, or nil
	scatters bool     // the port sends frames in several buffers
}

// slotOf is an interface's place in the traffic counters.
func slotOf(ifindex int) uint32 {
	if ifindex < maxSlots {
		return uint32(ifindex)
	}
	return 0
}

// tagWord is the tags as they stand in a frame: protocol, TCI, protocol, TCI.
func (w egress) tagWord() uint64 {
	var b [8]byte
	for i, t := range w.tags {
		binary.BigEndian.PutUint16(b[4*i:], t.proto)
		binary.BigEndian.PutUint16(b[4*i+2:], t.id)
	}
	return binary.NativeEndian.Uint64(b[:])
}

// down goes from an interface to the port at its bottom, over the session and the tags between.
func (t *tables) down(ifindex int) iter.Seq[*device] {
	return func(yield func(*device) bool) {
		for l := t.links[ifindex]; l != nil && yield(l); {
			switch {
			case l.session != nil:
				l = t.links[l.below]
			case l.VLANID != 0:
				l = t.links[l.Parent]
			default:
				return
			}
		}
	}
}

// base follows sessions and VLANs down to the port. ok is false where the fast path can't follow: more than two
// tags, a bridge or bond above the port, a link that is down or unknown.
func (t *tables) base(ifindex int) (port *device, tags []vlanTag, ok bool) {
	for l := range t.down(ifindex) {
		if !l.Up || l.Master != 0 && t.vrfOf(l) == nil || l.Index >= maxIfindex {
			return nil, nil, false
		}
		if l.session != nil {
			continue
		}
		if l.VLANID == 0 {
			return l, tags, true
		}
		if len(tags) == maxTags {
			return nil, nil, false
		}
		tags = append([]vlanTag{{l.VLANProto, l.VLANID}}, tags...)
	}
	return nil, nil, false
}

// egressTo is how packets leave by an interface to a neighbour's MAC, if they do by the fast path. Otherwise held
// is why the kernel sends them; Forwarded when that is the port's matter.
func (t *tables) egressTo(ifindex int, to [6]byte) (w egress, held Reason, ok bool) {
	if held = t.heldAtEgress(ifindex); held != Forwarded {
		return egress{}, held, false
	}
	bottom, tags, ok := t.base(ifindex)
	if !ok {
		return egress{}, Forwarded, false
	}
	l := t.links[ifindex]
	if b := t.bridging.state.Bridges[bottom.Index]; b != nil {
		if l.session != nil {
			return egress{}, Forwarded, false
		}
		if to == ([6]byte{}) {
			return egress{}, Reason(routerReasonREASON_NO_NEIGHBOUR), false
		}
		return t.bridgeEgress(l, b, tags, to)
	}
	mac, ok := t.ethernetOf(l)
	if !ok || !t.transmits[bottom.Index] {
		return egress{}, Forwarded, false
	}
	return t.egressBy(l, bottom.Index, tags, mac), Forwarded, true
}

// ethernetOf is the MAC address by which an interface sends and receives: that of a session is its parent's.
func (t *tables) ethernetOf(l *device) (mac [6]byte, ok bool) {
	if l.session != nil {
		l = t.links[l.below]
	}
	if l == nil {
		return mac, false
	}
	return macOf(l.MAC)
}

// egressBy is the way by a port with tags, and with what holds of the interface.
func (t *tables) egressBy(l *device, port int, tags []vlanTag, mac [6]byte) egress {
	mtu4, mtu6 := min(l.MTU, maxMTU), min(l.MTU, maxMTU)
	if set := l.settings.mtu6; set != 0 {
		mtu6 = min(mtu6, set)
	}
	return egress{port: port, tags: tags, mac: mac, mtu4: uint16(mtu4), mtu6: uint16(mtu6), session: l.session, scatters: t.scatters[port]}
}

// alive says whether the kernel uses hops through an interface. Routes with hops of their own
// lose a hop when its link goes down, and with ignore_routes_with_linkdown when its carrier goes;
// next-hop objects go with the carrier.
func (t *tables) alive(ifindex int, object bool) bool {
	l := t.links[ifindex]
	if l == nil || !l.Up {
		return false
	}
	return l.Running || !object && !l.settings.ignoreLinkDown
}

// pointToPoint says whether a link has no Ethernet, so that its packets need no neighbour's MAC: tunnels, WireGuard, PPP.
func (t *tables) pointToPoint(ifindex int) bool {
	l := t.links[ifindex]
	if l == nil || l.Loopback {
		return false
	}
	_, ethernet := macOf(l.MAC)
	return !ethernet
}

// renderInterface writes an interface into the shared table and the map of VLANs.
func (t *tables) renderInterface(l *device) {
	if l.Index >= maxIfindex {
		return
	}
	port, tags, ok := t.base(l.Index)
	mac, hasMAC := t.ethernetOf(l)
	want, desired := t.desired.Interfaces[l.Name]
	attached, unsummed, bridged := false, false, false
	if ok {
		attached, unsummed = t.attached[port.Index], t.unsummed[port.Index]
		if b := t.bridging.state.Bridges[port.Index]; b != nil {
			bridged = true
			attached, unsummed = t.attachedBelow(b)
			attached = attached && l.session == nil // which crosses the bridge as any frame
		}
	}
	on := ok && hasMAC && desired && want.FastPath && attached
	t.placeVLAN(l, port, tags, on && l.VLANID != 0 && !bridged)
	flags := uint16(0)
	if on {
		flags = ifKnown | l.settings.flags(want, t.all4, t.all6)
		if unsummed {
			flags |= ifUnsummed
		}
		if l.session != nil {
			flags |= ifSession
		}
		if t.heldAtIngress(l.Index) != Forwarded {
			flags &^= ifForward4 | ifForward6
		}
		flags = t.vrfFlags(l, flags)
	}
	t.renderZones(l) // before the flags, which say that there is a reason
	t.prog.interfaces.store(2*l.Index, macWord(mac, flags))
}

// flags are what the kernel's settings and the configuration say of packets that come in.
func (s settings) flags(want DesiredPort, all4, all6 settings) uint16 {
	var f uint16
	if s.forwarding4 {
		f |= ifForward4
	}
	if all6.forwarding6 && !s.disabled6 {
		f |= ifForward6
	}
	switch max(s.rpFilter, all4.rpFilter) { // Documentation/networking/ip-sysctl: the maximum counts
	case 1:
		f |= ifStrict4
	case 2:
		f |= ifLoose4
	}
	switch want.AntiSpoof { // in the kernel a rule of nftables for both families
	case "strict":
		f |= ifStrict4 | ifStrict6
	case "loose":
		f |= ifLoose4 | ifLoose6
	}
	if s.redirects4 {
		f |= ifRedirects4
	}
	return f
}

// placeVLAN keeps the map of VLANs true for one interface.
func (t *tables) placeVLAN(l, port *device, tags []vlanTag, in bool) {
	var want *routerVlanKey
	if in {
		k := tagKey(port.Index, tags)
		want = &k
	}
	if l.vlan != nil && (want == nil || *want != *l.vlan) {
		if err := putOrDelete(t.prog.objects.Vlans, false, l.vlan, 0); err != nil {
			t.log.Error("cannot remove a VLAN from the fast path", "interface", l.Name, "error", err)
		}
		l.vlan = nil
	}
	if want == nil || l.vlan != nil {
		return
	}
	if err := putOrDelete(t.prog.objects.Vlans, true, want, uint32(l.Index)); err != nil {
		t.log.Warn("the kernel forwards this VLAN", "interface", l.Name, "error", err)
		return
	}
	l.vlan = want
}

// renderLinks brings everything up to date that hangs on links: a link, a port or a setting changed.
func (t *tables) renderLinks() {
	t.takeSessions()
	gone := t.openVRFs()
	for _, l := range t.links {
		t.renderInterface(l)
	}
	t.closeVRFs(gone)
	t.renderSessions()
	t.renderBonds()
	t.renderBridges()
	t.adjs.refreshAll()
	t.hops.renderAll()
}

// dropLink forgets a link.
func (t *tables) dropLink(l *device) {
	t.placeVLAN(l, nil, nil, false)
	delete(t.links, l.Index)
	if l.Index < maxIfindex {
		t.prog.interfaces.store(2*l.Index, 0)
		if t.prog.shape.bridges {
			t.prog.bridgePorts.store(l.Index, 0)
		}
		if t.prog.shape.sessions {
			t.prog.sessionsAt.store(2*l.Index+1, 0)
		}
		if t.prog.shape.bonds {
			t.prog.bondsAt.store(l.Index, 0)
		}
	}
}

// ownBit is the bit that stands for an IPv4 address of the router, as own_bit of bpf/spoof.h.
func ownBit(a netip.Addr) (word int, bit uint64) {
	b := a.As4()
	v := binary.BigEndian.Uint32(b[:])
	v = (v ^ v>>16) & 0xffff
	return int(v >> 6), 1 << (v & 63)
}

// renderOwn writes the filter of own addresses, and of broadcast addresses on connected networks.
func (t *tables) renderOwn() {
	filter := map[int]uint64{}
	add := func(a netip.Addr) {
		if a.Is4() {
			word, bit := ownBit(a)
			filter[word] |= bit
		}
	}
	for a := range t.addresses {
		add(a.address.Addr().Unmap())
	}
	for b := range t.broadcast {
		add(b.address)
	}
	for i := range 1024 {
		t.prog.own4.store(i, filter[i])
	}
}
