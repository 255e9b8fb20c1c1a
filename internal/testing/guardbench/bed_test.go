// SPDX-License-Identifier: Apache-2.0

package guardbench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/guard"
	"minne/internal/subsystem/fastpath/mapped"
)

// port is the link that frames arrive by: the loopback, which every namespace has. Those with a tag of VLAN
// lanID come in by another interface on it.
const (
	port  = 1
	lan   = 2
	lanID = 7
)

// The stations of the bed.
var (
	routerMAC = packet.MAC{2, 0, 0, 0, 0, 1}
	peerMAC   = packet.MAC{2, 0, 0, 0, 0, 2}
)

// ask mirrors struct inquiry of bpf/guardbench.bpf.c; what nobody sets here has no name.
type ask struct {
	now                       uint64
	reason, spread, _, ignore uint32
}

// objects are the program and the maps that tests fill and read; its others come along.
type objects struct {
	Guarded     *ebpf.Program `ebpf:"guarded"`
	Inquiry     *ebpf.Map     `ebpf:"inquiry"`
	Control     *ebpf.Map     `ebpf:"guard_control"`
	Budgets     *ebpf.Map     `ebpf:"guard_budgets"`
	Counts      *ebpf.Map     `ebpf:"guard_counts"`
	Peers       *ebpf.Map     `ebpf:"guard_peers"`
	Interfaces  *ebpf.Map     `ebpf:"interfaces"`
	Own4        *ebpf.Map     `ebpf:"own4"`
	Fib6Image   *ebpf.Map     `ebpf:"fib6_image"`
	NextHops    *ebpf.Map     `ebpf:"nexthops"`
	Adjacencies *ebpf.Map     `ebpf:"adjacencies"`
	Vlans       *ebpf.Map     `ebpf:"vlans"`
	Neighbours4 *ebpf.Map     `ebpf:"neighbours4"`
	Neighbours6 *ebpf.Map     `ebpf:"neighbours6"`
}

// bed is one load of the program with the memory it shares.
type bed struct {
	objects
	memory [][]byte
	ask    *ask
	guard  *guard.Shared
}

// newBed loads the program for a router whose port has routerMAC, and no other station is known.
func newBed() (*bed, error) {
	spec, err := loadGuardbench()
	if err != nil {
		return nil, err
	}
	for _, l := range []fib.Layout{fib.Layout4(fib.Range16, fib.Small), fib.Layout6(fib.Small)} {
		spec.Maps[l.MapName()].ValueSize = l.ImageBytes()
		for name, v := range l.Constants() {
			if err := spec.Variables[name].Set(v); err != nil {
				return nil, fmt.Errorf("set %s: %w", name, err)
			}
		}
	}
	b := &bed{}
	if err := spec.LoadAndAssign(&b.objects, nil); err != nil {
		return nil, fmt.Errorf("load the guard (root is needed): %w", err)
	}
	var memory [3][]byte
	for i, m := range []*ebpf.Map{b.Inquiry, b.Control, b.Budgets} {
		if memory[i], err = mapped.Memory(m); err != nil {
			b.close()
			return nil, err
		}
		b.memory = append(b.memory, memory[i])
	}
	b.ask = &mapped.View[ask](memory[0])[0]
	if b.guard, err = guard.Open(memory[1], memory[2]); err != nil {
		b.close()
		return nil, err
	}
	known := guardbenchInterface{Flags: 7} // IF_KNOWN | IF_FORWARD4 | IF_FORWARD6
	known.Mac = halves(routerMAC)
	tag := guardbenchVlanKey{Port: port, OuterProtocol: network16(packet.TypeVLAN), OuterId: lanID}
	err = errors.Join(put(b.Interfaces, uint32(port), known), put(b.Interfaces, uint32(lan), known), put(b.Vlans, tag, uint32(lan)))
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bed) close() {
	for _, m := range b.memory {
		_ = unix.Munmap(m)
	}
	b.Guarded.Close()
	for _, m := range []*ebpf.Map{b.Inquiry, b.Control, b.Budgets, b.Counts, b.Peers, b.Interfaces, b.Own4, b.Fib6Image,
		b.NextHops, b.Adjacencies, b.Vlans, b.Neighbours4, b.Neighbours6} {
		m.Close()
	}
}

func put(m *ebpf.Map, key, value any) error {
	if err := m.Put(key, value); err != nil {
		return fmt.Errorf("fill %v: %w", m, err)
	}
	return nil
}

// network16 is a number as it stands in a frame.
func network16(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// halves is a MAC as three half words in the CPU's byte order, as they stand in a frame.
func halves(m packet.MAC) (h [3]uint16) {
	for i := range h {
		h[i] = binary.NativeEndian.Uint16(m[2*i:])
	}
	return h
}

// own makes an IPv4 address the router's, as far as its shorthand goes (bpf/spoof.h).
func (b *bed) own(a netip.Addr) error {
	four := a.As4()
	address := binary.BigEndian.Uint32(four[:])
	bit := (address ^ address>>16) & 0xffff
	return put(b.Own4, bit>>6, uint64(1)<<(bit&63))
}

// own6 makes all IPv6 addresses the router's, or none: the routing table is empty but for the default route.
func (b *bed) own6(reason guardbenchReason) error {
	image := b.Fib6Image
	memory, err := mapped.Memory(image)
	if err != nil {
		return err
	}
	defer unix.Munmap(memory) //nolint:errcheck // it was mapped above
	mapped.View[uint32](memory)[1<<16] = 1
	return put(b.NextHops, uint32(1), hopStop|uint64(reason)<<8)
}

// Kinds of next hops, HOP_ in bpf/maps.h.
const (
	hopStop = iota
	hopVia
	hopGroup
)

// route makes all addresses of both families be reached by a next hop.
func (b *bed) route(hop uint64) error {
	if err := b.own6(guardbenchReasonREASON_NO_ROUTE); err != nil {
		return err
	}
	return errors.Join(put(b.NextHops, uint32(0), hop), put(b.NextHops, uint32(1), hop))
}

// neighbour makes a station one whose MAC the kernel has resolved.
func (b *bed) neighbour(a netip.Addr, mac packet.MAC, adjacency uint32) error {
	err := put(b.Adjacencies, adjacency, guardbenchAdjacency{Dst: halves(mac), Flags: 1, Interface: port}) // ADJ_VALID
	if err != nil {
		return err
	}
	if a.Is4() {
		key := guardbenchNeighbour4{Interface: port}
		four := a.As4()
		key.Address = binary.NativeEndian.Uint32(four[:])
		return put(b.Neighbours4, key, adjacency)
	}
	key := guardbenchNeighbour6{Interface: port}
	for i := range key.Address {
		sixteen := a.As16()
		key.Address[i] = binary.NativeEndian.Uint32(sixteen[4*i:])
	}
	return put(b.Neighbours6, key, adjacency)
}

// peer makes a station one that the configuration names.
func (b *bed) peer(p guard.Peer, ifindex int) error {
	return put(b.Peers, p.Key(ifindex), p.Value())
}

// run gives the program a frame so many times and returns its last answer and the ns of one.
func (b *bed) run(frame []byte, reason guardbenchReason, repeat int) (action uint32, each time.Duration, err error) {
	b.ask.reason = uint32(reason)
	program := b.Guarded
	if repeat == 1 {
		action, err = program.Run(&ebpf.RunOptions{Data: frame})
	} else {
		action, each, err = repeatHeld(program, frame, repeat)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("run the guard on a frame of %d bytes: %w", len(frame), err)
	}
	return action, each, nil
}

// tally is what the guard has counted of a class.
func (b *bed) tally(c guard.Class) (guard.Tally, error) {
	var perCPU []guardbenchGuardTally
	if err := b.Counts.Lookup(uint32(c), &perCPU); err != nil {
		return guard.Tally{}, fmt.Errorf("read the tally of %v: %w", c, err)
	}
	var sum guard.Tally
	for _, t := range perCPU {
		sum.Passed += t.Packets[0]
		sum.OverSource += t.Packets[1]
		sum.OverClass += t.Packets[2]
	}
	return sum, nil
}
