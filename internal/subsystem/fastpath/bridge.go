// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"maps"
	"net"
	"slices"

	"minne/internal/subsystem/bypass"
	"minne/internal/subsystem/fastpath/bridges"
	"minne/internal/subsystem/fastpath/mapped"
)

// Bridges: the program runs on their ports. What comes in by a port for the bridge's MAC is routed as if it had come in
// by the bridge interface, or by a VLAN interface on it; what leaves by one of these goes to the port that the bridge's
// table of stations names (bpf/bridge.h). The kernel bridges everything else.

// Flags of a port in bridge_ports, as in bpf/bridge.h.
const (
	bridgePort    = 1
	bridgeFilters = 2
	bridgeLearns  = 4
)

// Entries of maps where a bridge has the fast path, and where none has.
const (
	bridgedVLANs = 32768 // each VLAN interface once for each port of its bridge
	maxStations  = 65536
	none         = 1
)

// bridging is what is known of bridges, and what the program has been told of it.
type bridging struct {
	state    bridges.State
	stations map[stationKey]bridges.Station
	listed   map[routerStation]bool   // in the program's map
	vlans    map[routerVlanKey]uint32 // likewise: tags on ports of bridges
	full     bool                     // said so already
}

// stationKey is a MAC address in a VLAN of a bridge.
type stationKey struct {
	bridge int
	vlan   uint16
	mac    [6]byte
}

func newBridging() bridging {
	b := bridging{stations: map[stationKey]bridges.Station{}}
	b.forgetProgram()
	return b
}

// forgetProgram is for a program that has been told nothing yet.
func (b *bridging) forgetProgram() {
	b.listed, b.vlans = map[routerStation]bool{}, map[routerVlanKey]uint32{}
}

// entries are the sizes of maps that hang on whether a bridge has the fast path.
func (s shape) bridgeEntries() map[string]uint32 {
	if s.bridges {
		return map[string]uint32{routerMapVlans: bridgedVLANs}
	}
	return map[string]uint32{routerMapBridgePorts: none, routerMapStations: none}
}

// followBridges reads the bridges of the namespace and follows them.
func (f *FastPath) followBridges() (state bridges.State, stations []bridges.Station, err error) {
	f.bridges, state, stations, err = bridges.Follow(f.log, bridges.Listener{
		Bridges: func(s bridges.State) { f.locked(func() { f.takeBridges(s) }) },
		Stations: func(changes []bridges.Station, whole bool) {
			f.locked(func() { f.tables.takeStations(changes, whole) })
		},
	})
	return state, stations, err
}

// takeBridges takes in bridges, their ports and VLANs. A commit reads them itself meanwhile: what was read before it is
// older than what is known.
func (f *FastPath) takeBridges(s bridges.State) {
	if s.Began.Before(f.tables.bridging.state.Began) {
		return
	}
	f.tables.bridging.state = s
	f.tables.renderLinks()
	if !f.tables.telling {
		f.reconcileLogged()
	}
	f.reportHeld()
}

// needsBridges says whether a port of a bridge should have the program.
func (f *FastPath) needsBridges(s bridges.State) bool {
	for _, p := range s.Ports {
		if f.desired.Interfaces[p.Name].FastPath {
			return true
		}
	}
	return false
}

// growBridges loads a program that knows of bridges, once one is to have the fast path.
func (f *FastPath) growBridges() error {
	if f.prog.shape.bridges || !f.needsBridges(f.tables.bridging.state) {
		return nil
	}
	s := f.prog.shape
	s.bridges = true
	return f.rebuild(s)
}

// bridgeBelow is the bridge at the bottom of an interface; nil when there is a port.
func (t *tables) bridgeBelow(ifindex int) *bridges.Bridge {
	var bottom *device
	for bottom = range t.down(ifindex) {
	}
	if bottom == nil {
		return nil
	}
	return t.bridging.state.Bridges[bottom.Index]
}

// portsOf are the ports of a bridge that are there, in the order of their indexes.
func (t *tables) portsOf(b *bridges.Bridge) (ports []*bridges.Port) {
	for _, p := range t.bridging.state.Ports {
		if l := t.links[p.Index]; p.Bridge == b.Index && l != nil && l.Master == b.Index {
			ports = append(ports, p)
		}
	}
	slices.SortFunc(ports, func(a, b *bridges.Port) int { return a.Index - b.Index })
	return ports
}

// wantedBridgePorts adds the ports of a bridge that should have the program: those that the configuration names.
func (f *FastPath) wantedBridgePorts(b *bridges.Bridge, wanted map[int]string) {
	if !f.prog.shape.bridges || b == nil || f.tables.links[b.Index] == nil || f.tables.links[b.Index].Master != 0 {
		return
	}
	for _, p := range f.tables.portsOf(b) {
		l, d := f.tables.links[p.Index], f.desired.Interfaces[p.Name]
		if _, ethernet := macOf(l.MAC); d.FastPath && ethernet && l.VLANID == 0 && l.Index < maxIfindex {
			wanted[l.Index] = l.Name
		}
	}
}

// byPorts says whether a link is a bridge that has the fast path by its ports.
func (f *FastPath) byPorts(name string) bool {
	b := f.tables.bridging.state.Bridges[f.tables.indexOf(name)]
	if b == nil || !f.desired.Interfaces[name].FastPath {
		return false
	}
	wanted := map[int]string{}
	f.wantedBridgePorts(b, wanted)
	return len(wanted) > 0
}

// attachedBelow says whether the program runs where packets of a bridge arrive, and whether their senders may leave
// checksums to hardware.
func (t *tables) attachedBelow(b *bridges.Bridge) (attached, unsummed bool) {
	for _, p := range t.portsOf(b) {
		attached, unsummed = attached || t.attached[p.Index], unsummed || t.unsummed[p.Index]
	}
	return attached, unsummed
}

// bridgeThings are what only the kernel can do with packets that pass a bridge.
func (t *tables) bridgeThings(b *bridges.Bridge) []bypass.Thing {
	things := slices.Clone(t.bypassed.Bridges)
	if b.Kernel != "" {
		things = append(things, bypass.Thing{Cause: bypass.Other, Text: b.Kernel})
	}
	for _, p := range t.portsOf(b) {
		if p.Kernel != "" {
			things = append(things, bypass.Thing{Cause: bypass.Other, Text: p.Name + ": " + p.Kernel})
		}
	}
	return things
}

// renderBridges writes what frames mean that arrive on ports of bridges, and which stations are known there.
func (t *tables) renderBridges() {
	if !t.prog.shape.bridges {
		return
	}
	words, keys := map[int]uint64{}, map[routerVlanKey]uint32{}
	for _, p := range t.bridging.state.Ports {
		if l := t.links[p.Index]; l != nil && l.Master == p.Bridge && t.attached[p.Index] {
			words[p.Index] = bridgePort << 48
		}
	}
	for _, l := range t.links {
		bottom, tags, ok := t.base(l.Index)
		if !ok || t.bridging.state.Bridges[bottom.Index] == nil {
			continue
		}
		b := t.bridging.state.Bridges[bottom.Index]
		for _, p := range t.portsOf(b) {
			if words[p.Index] != 0 && p.Forwards && t.links[p.Index].Up && len(t.bypassed.Ingress[p.Index]) == 0 {
				t.arrivals(l, b, p, tags, words, keys)
			}
		}
	}
	for index, l := range t.links {
		if index < maxIfindex && l != nil {
			t.prog.bridgePorts.store(index, words[index])
		}
	}
	t.placeBridgedVLANs(keys)
	t.placeStations()
}

// arrivals adds how frames that arrive on a port of a bridge belong to an interface above the bridge, as br_handle_vlan and
// br_allowed_ingress of the kernel decide: by a tag that port and bridge know, or by none.
func (t *tables) arrivals(l *device, b *bridges.Bridge, p *bridges.Port, tags []vlanTag, words map[int]uint64, keys map[routerVlanKey]uint32) {
	mac, ok := macOf(l.MAC)
	learns := uint64(0)
	if p.Learns {
		learns = bridgeLearns << 48
	}
	if !b.Filters {
		if !ok || !t.isOwn(b, 0, mac) {
			return
		}
		if len(tags) == 0 {
			words[p.Index] |= uint64(uint32(l.Index)) | learns
		} else {
			words[p.Index] |= learns
			keys[tagKey(p.Index, tags)] = uint32(l.Index)
		}
		return
	}
	pvid := bridges.PVID(p.VLANs)
	for vid, own := range b.VLANs {
		member := p.VLANs[vid]
		if len(tags) == 0 != own.Untagged || len(tags) > 0 && tags[0] != (vlanTag{b.Protocol, vid}) {
			continue
		}
		if _, in := p.VLANs[vid]; !in || !own.Forwards || !member.Forwards || !ok || !t.isOwn(b, vid, mac) {
			continue
		}
		words[p.Index] |= learns | bridgeFilters<<48
		wire := tags
		if len(tags) == 0 {
			wire = []vlanTag{{b.Protocol, vid}}
		}
		keys[tagKey(p.Index, wire)] = uint32(l.Index)
		if vid == pvid && len(tags) <= 1 {
			words[p.Index] |= uint64(uint32(l.Index)) | uint64(pvid)<<32
		}
	}
}

// isOwn says whether a bridge takes frames for a MAC in a VLAN as its own.
func (t *tables) isOwn(b *bridges.Bridge, vid uint16, mac [6]byte) bool {
	s, known := t.bridging.stations[stationKey{b.Index, vid, mac}]
	return known && s.Local
}

func tagKey(port int, tags []vlanTag) routerVlanKey {
	k := routerVlanKey{Port: uint32(port), OuterProtocol: network16(tags[0].proto), OuterId: tags[0].id}
	if len(tags) == maxTags {
		k.InnerProtocol, k.InnerId = network16(tags[1].proto), tags[1].id
	}
	return k
}

func (t *tables) placeBridgedVLANs(want map[routerVlanKey]uint32) {
	for k, on := range t.bridging.vlans {
		if want[k] == on {
			continue
		}
		if err := putOrDelete(t.prog.objects.Vlans, false, &k, 0); err != nil {
			t.log.Error("VLAN can't be taken out of the fast path", "port", t.nameOf(int(k.Port)), "error", err)
		}
		delete(t.bridging.vlans, k)
	}
	for k, on := range want {
		if t.bridging.vlans[k] == on {
			continue
		}
		if err := putOrDelete(t.prog.objects.Vlans, true, &k, on); err != nil {
			t.log.Warn("VLAN stays with the kernel", "interface", t.nameOf(int(on)), "port", t.nameOf(int(k.Port)), "error", err)
			continue
		}
		t.bridging.vlans[k] = on
	}
}

// placeStations brings the program's map of stations up to date.
func (t *tables) placeStations() {
	want := make(map[routerStation]bool, len(t.bridging.listed))
	for _, s := range t.bridging.stations {
		if k, in := t.stationOf(s); in {
			want[k] = true
		}
	}
	for k := range maps.Clone(t.bridging.listed) {
		if !want[k] {
			t.listStation(k, false)
		}
	}
	for k := range want {
		t.listStation(k, true)
	}
}

// stationOf is a station as the program knows it, if it is to know it.
func (t *tables) stationOf(s bridges.Station) (routerStation, bool) {
	k := routerStation{Port: uint32(s.Port), Vlan: s.VLAN}
	for i := range k.Mac {
		k.Mac[i] = network16(uint16(s.MAC[2*i])<<8 | uint16(s.MAC[2*i+1]))
	}
	return k, !s.Local && !s.Locked && s.Port != 0 && t.attached[s.Port]
}

func (t *tables) listStation(k routerStation, in bool) {
	if t.bridging.listed[k] == in {
		return
	}
	var err error
	if in {
		err = insert(t.prog.objects.Stations, &k, uint64(0))
	} else {
		err = putOrDelete(t.prog.objects.Stations, false, &k, 0)
	}
	switch {
	case err != nil && !t.bridging.full:
		t.bridging.full = true
		t.log.Warn("too many stations on bridges for the fast path: the kernel forwards what further ones send", "limit", maxStations, "error", err)
	case err != nil:
	case in:
		t.bridging.listed[k] = true
	default:
		delete(t.bridging.listed, k)
	}
}

// takeStations takes in what bridges have learned or forgotten.
func (t *tables) takeStations(changes []bridges.Station, whole bool) {
	b := &t.bridging
	if whole {
		b.stations = map[stationKey]bridges.Station{}
	}
	touched, own := map[[6]byte]bool{}, whole
	for _, s := range changes {
		k := stationKey{s.Bridge, s.VLAN, s.MAC}
		before, known := b.stations[k]
		own = own || s.Local || known && before.Local
		if known && t.prog.shape.bridges && !whole {
			if key, in := t.stationOf(before); in && (s.Deleted || s.Port != before.Port || s.Locked) {
				t.listStation(key, false)
			}
		}
		touched[s.MAC] = true
		if s.Deleted {
			delete(b.stations, k)
			continue
		}
		b.stations[k] = s
		if key, in := t.stationOf(s); in && t.prog.shape.bridges && !whole {
			t.listStation(key, true)
		}
	}
	if own { // an address of a bridge itself came or went
		if !t.telling {
			t.renderLinks()
		}
		return
	}
	t.adjs.refreshMACs(touched)
}

// bridgeEgress is how packets leave by an interface above a bridge to a neighbour's MAC. Without one, the reason is why the
// kernel has to send them.
func (t *tables) bridgeEgress(l *device, b *bridges.Bridge, tags []vlanTag, to [6]byte) (egress, Reason, bool) {
	floods := Reason(routerReasonREASON_BRIDGE_FLOODS)
	vid, inner := uint16(0), tags
	if b.Filters {
		switch {
		case len(tags) == 0:
			vid = bridges.PVID(b.VLANs)
		case tags[0].proto == b.Protocol:
			vid, inner = tags[0].id, tags[1:]
		}
		if !b.VLANs[vid].Forwards {
			return egress{}, floods, false
		}
	}
	s, known := t.bridging.stations[stationKey{b.Index, vid, to}]
	p := t.bridging.state.Ports[s.Port]
	if !known || s.Local || s.Locked || p == nil || p.Bridge != b.Index || !p.Forwards {
		return egress{}, floods, false
	}
	at := t.links[p.Index]
	if at == nil || !at.Up || !at.Running || at.Master != b.Index {
		return egress{}, floods, false
	}
	if b.Filters {
		member := p.VLANs[vid]
		if !member.Forwards {
			return egress{}, floods, false
		}
		if tags = inner; !member.Untagged {
			tags = append([]vlanTag{{b.Protocol, vid}}, inner...)
		}
	}
	if things := t.bypassed.Egress[p.Index]; len(things) > 0 {
		return egress{}, heldBy(things), false
	}
	mac, ok := macOf(l.MAC)
	if !ok || !t.transmits[p.Index] || len(tags) > maxTags {
		return egress{}, Forwarded, false
	}
	w := t.egressBy(l, p.Index, tags, mac)
	w.mtu4, w.mtu6 = min(w.mtu4, uint16(min(at.MTU, maxMTU))), min(w.mtu6, uint16(min(at.MTU, maxMTU)))
	return w, Forwarded, true
}

// refreshMACs writes the adjacencies of neighbours with these addresses behind bridges.
func (s *adjTable) refreshMACs(macs map[[6]byte]bool) {
	if len(s.t.bridging.state.Bridges) == 0 || len(macs) == 0 {
		return
	}
	var touched []*adjacency
	for _, a := range s.all {
		if macs[a.mac] && s.t.bridgeBelow(a.key.ifindex) != nil {
			touched = append(touched, a)
		}
	}
	s.write(touched...)
}

// moves says whether an adjacency leads to another port, or by other tags, than what packets may be using now.
func (s *adjTable) moves(a *adjacency, w egress) bool {
	was := s.t.prog.adjacencies[int(a.index)*adjacencyWords:]
	port, _ := splitPair(was.load(2))
	tagged := macWord([6]byte{}, uint16(len(w.tags)))
	return port != 0 && (int(port) != w.port || was.load(1)&macWord([6]byte{}, ^uint16(0)) != tagged || was.load(3) != w.tagWord() || was.load(6) != w.sessionWord())
}

// write puts adjacencies into the shared table. Where one moves, it is the kernel's until the last packet that
// may have read half of the old way and half of the new one has gone.
func (s *adjTable) write(all ...*adjacency) {
	var moved []*adjacency
	for _, a := range all {
		w, _, ok := s.t.egressTo(a.key.ifindex, a.mac)
		if ok && s.moves(a, w) {
			s.t.prog.adjacencies.store(int(a.index)*adjacencyWords, macWord(a.mac, adjNoPort|uint16(routerReasonREASON_BRIDGE_FLOODS)<<adjReasonShift))
			moved = append(moved, a)
			continue
		}
		s.fill(a)
	}
	if moved == nil {
		return
	}
	mapped.WaitForReaders()
	for _, a := range moved {
		s.fill(a)
	}
}

// arrivalOn is a port of a bridge, and the tags, by which frames come in to an interface above it.
func (t *tables) arrivalOn(ifindex int) (port int, tags []vlanTag, ok bool) {
	for index := range t.bridging.state.Ports {
		if (port == 0 || index < port) && t.attached[index] {
			if untagged, _ := splitPair(t.prog.bridgePorts.load(index)); int(untagged) == ifindex {
				port, tags = index, nil
			}
		}
	}
	if port != 0 {
		return port, nil, true
	}
	for k, on := range t.bridging.vlans {
		if int(on) == ifindex && (port == 0 || int(k.Port) < port) {
			port, tags = int(k.Port), []vlanTag{{network16(k.OuterProtocol), k.OuterId}}
			if k.InnerProtocol != 0 {
				tags = append(tags, vlanTag{network16(k.InnerProtocol), k.InnerId})
			}
		}
	}
	return port, tags, port != 0
}

// stationWords say where a bridge knows a MAC, for explain.
func (t *tables) stationWords(ifindex int, mac [6]byte) string {
	b := t.bridgeBelow(ifindex)
	if b == nil {
		return ""
	}
	for _, s := range t.bridging.stations {
		if s.Bridge == b.Index && s.MAC == mac && s.Port != 0 {
			return ", on port " + t.nameOf(s.Port) + " of " + b.Name
		}
	}
	return ", on no port that " + b.Name + " knows: " + net.HardwareAddr(mac[:]).String() + " has not sent for a while"
}
