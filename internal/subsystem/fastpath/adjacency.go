// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
)

// Adjacencies: how to reach a neighbour. There is one for every gateway that a next
// hop needs, resolved or not, and one for every neighbour whose MAC the kernel
// knows, because on a connected network the destination itself is the neighbour.

// Flags in an adjacency's first word and its size, as in bpf/maps.h.
const (
	adjValid  = 1
	adjStale  = 2
	adjNoPort = 4

	adjReasonShift = 8

	adjacencyWords = 8
	maxAdjacencies = 32768
)

// Neighbour states in which the kernel sends to a neighbour (NUD_VALID).
const neighValid = rib.NeighReachable | rib.NeighStale | rib.NeighDelay | rib.NeighProbe | rib.NeighNoARP | rib.NeighPermanent

// adjKey is an address on an interface.
type adjKey struct {
	ifindex int
	addr    netip.Addr
}

// farEnd is the address of who is at the other end of a link without Ethernet, whatever a route names there: the kernel
// asks nobody for a MAC. No neighbour has it.
var farEnd netip.Addr

// adjacency is one entry of the adjacency table.
type adjacency struct {
	key    adjKey
	index  uint32
	refs   int // next hops that need it
	known  bool
	state  uint16
	mac    [6]byte
	round  uint8 // of the last account that told of the neighbour
	listed bool  // in the map of neighbours on connected networks
}

// adjTable is the adjacency table.
type adjTable struct {
	log     *slog.Logger
	t       *tables
	all     map[adjKey]*adjacency
	indexes *pool
	full    bool // said so already
}

func newAdjTable(t *tables) *adjTable {
	return &adjTable{log: t.log, t: t, all: map[adjKey]*adjacency{}, indexes: newPool(1, maxAdjacencies)}
}

// get returns the adjacency of an address, made if need be; nil when the table is full.
func (s *adjTable) get(k adjKey) *adjacency {
	if a := s.all[k]; a != nil {
		return a
	}
	index, ok := s.indexes.take(1)
	if !ok {
		if !s.full {
			s.log.Error("adjacency table full: the kernel forwards packets to further neighbours", "limit", maxAdjacencies)
			s.full = true
		}
		return nil
	}
	a := &adjacency{key: k, index: index}
	for word := range adjacencyWords { // of whoever had the place, which has rested
		s.t.prog.adjacencies.store(int(index)*adjacencyWords+word, 0)
	}
	s.all[k] = a
	s.write(a)
	return a
}

// change takes in what the kernel says of a neighbour.
func (s *adjTable) change(n rib.Neighbour, round uint8) {
	addr := n.Address.Unmap()
	if addr.IsMulticast() || addr.IsLoopback() {
		return
	}
	k := adjKey{n.Interface, addr}
	a := s.all[k]
	mac, resolved := macOf(n.MAC)
	if n.Deleted {
		if a != nil {
			s.forget(a)
		}
		return
	}
	if a == nil {
		if !resolved { // nobody needs it and nothing can be sent there
			return
		}
		if a = s.get(k); a == nil {
			return
		}
	}
	goodness := a.dead()
	a.known, a.state, a.round = true, n.State, round
	if resolved {
		a.mac = mac
	} else if a.mac == ([6]byte{}) {
		a.state &^= neighValid
	}
	s.refresh(a)
	if goodness != a.dead() && a.refs > 0 {
		s.t.hops.renderObjects()
	}
}

// forget takes in that the kernel does not know the neighbour any more.
func (s *adjTable) forget(a *adjacency) {
	dead := a.dead()
	a.known, a.state, a.mac = false, 0, [6]byte{}
	s.refresh(a)
	if dead && a.refs > 0 {
		s.t.hops.renderObjects()
	}
	s.dropUnused(a)
}

// refresh writes the adjacency and its place among the neighbours.
func (s *adjTable) refresh(a *adjacency) {
	s.write(a)
	s.list(a, a.known && a.state&neighValid != 0)
}

// refreshAll does so for all: a link changed.
func (s *adjTable) refreshAll() {
	s.write(slices.Collect(maps.Values(s.all))...)
}

// sweep forgets neighbours that the account of this round did not repeat.
func (s *adjTable) sweep(round uint8) {
	for _, a := range s.all {
		if a.known && a.round != round {
			s.forget(a)
		}
	}
}

// dropUnused gives up an adjacency that nobody needs and the kernel does not know.
func (s *adjTable) dropUnused(a *adjacency) {
	if a.refs > 0 || a.known || s.all[a.key] != a {
		return
	}
	s.list(a, false)
	delete(s.all, a.key)
	s.t.prog.adjacencies.store(int(a.index)*adjacencyWords, 0)
	s.indexes.give(a.index, 1)
}

// dead says that the kernel knows the neighbour and can't send to it.
func (a *adjacency) dead() bool { return a.known && a.state&neighValid == 0 }

// dead says so of a hop's gateway.
func (s *adjTable) dead(h rib.Hop) bool {
	a := s.all[adjKey{h.Interface, h.Gateway.Unmap()}]
	return a != nil && a.dead()
}

// fill puts the adjacency into the shared table. What a valid adjacency is made of changes word
// by word; the first word, which makes it valid, is written last.
func (s *adjTable) fill(a *adjacency) {
	w := s.t.prog.adjacencies[int(a.index)*adjacencyWords:]
	if a.key.addr == farEnd {
		a.state, a.mac = s.t.farEndOf(a.key.ifindex)
	}
	way, held, ok := s.t.egressTo(a.key.ifindex, a.mac)
	if !ok {
		w.store(0, macWord(a.mac, adjNoPort|uint16(held)<<adjReasonShift))
		if _, ifindex := splitPair(w.load(2)); ifindex != uint32(a.key.ifindex) {
			w.store(2, pair(0, uint32(a.key.ifindex))) // the source check asks where it would lead
		}
		return
	}
	w.store(1, macWord(way.mac, uint16(len(way.tags))))
	w.store(2, pair(uint32(way.port), uint32(a.key.ifindex)))
	w.store(3, way.tagWord())
	w.store(4, mtuWord(way.mtu4, way.mtu6, slotOf(a.key.ifindex)))
	w.store(6, way.sessionWord())
	flags := uint16(0)
	if (a.known || a.key.addr == farEnd) && a.state&neighValid != 0 {
		flags = adjValid
		if a.state&rib.NeighStale != 0 {
			flags |= adjStale
		}
	}
	if flags&adjStale == 0 {
		w.store(5, 0) // the next time it goes stale, the very next packet goes up
	}
	w.store(0, macWord(a.mac, flags))
}

func mtuWord(mtu4, mtu6 uint16, slot uint32) uint64 {
	var b [8]byte
	binary.NativeEndian.PutUint16(b[:], mtu4)
	binary.NativeEndian.PutUint16(b[2:], mtu6)
	binary.NativeEndian.PutUint32(b[4:], slot)
	return binary.NativeEndian.Uint64(b[:])
}

// list puts the adjacency into the map of neighbours on connected networks, or takes it out.
func (s *adjTable) list(a *adjacency, in bool) {
	if in == a.listed || a.key.addr == farEnd || a.key.addr.IsLinkLocalUnicast() && a.key.addr.Is6() {
		return
	}
	var err error
	if a.key.addr.Is4() {
		raw := a.key.addr.As4()
		key := routerNeighbour4{Interface: uint32(a.key.ifindex), Address: binary.NativeEndian.Uint32(raw[:])}
		err = putOrDelete(s.t.prog.objects.Neighbours4, in, &key, a.index)
	} else {
		raw := a.key.addr.As16()
		key := routerNeighbour6{Interface: uint32(a.key.ifindex)}
		for i := range key.Address {
			key.Address[i] = binary.NativeEndian.Uint32(raw[4*i:])
		}
		err = putOrDelete(s.t.prog.objects.Neighbours6, in, &key, a.index)
	}
	if err != nil {
		s.log.Warn("the kernel forwards packets to this neighbour", "address", a.key.addr, "interface", a.key.ifindex, "error", err)
		return
	}
	a.listed = in
}

// A map without memory of its own gets some in an interrupt, which may take until the kernel's next tick.
const (
	memoryTries = 5
	memoryPause = 10 * time.Millisecond
)

// insert puts an entry into a map, and waits for the map's memory where need be.
func insert(m *ebpf.Map, key, value any) (err error) {
	for range memoryTries {
		if err = m.Put(key, value); !errors.Is(err, unix.ENOMEM) {
			return err
		}
		time.Sleep(memoryPause)
	}
	return err
}

func putOrDelete(m *ebpf.Map, put bool, key any, value uint32) error {
	if put {
		return insert(m, key, value)
	}
	if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}
