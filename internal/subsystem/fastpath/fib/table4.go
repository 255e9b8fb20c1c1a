// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
)

// Table4 compiles IPv4 routes into an image.
//
// Lookup may be called at any time from any goroutine; everything else by one goroutine at a time.
type Table4 struct {
	t *table
}

// NewTable4 makes an empty table over the bytes of the eBPF array fib4_image, which it clears.
// Attach the program afterwards.
func NewTable4(region []byte, l Layout, o Options) (*Table4, error) {
	t, err := l.newTable(4, region, o)
	if err != nil {
		return nil, err
	}
	return &Table4{t}, nil
}

func word4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func (f *Table4) edit(p netip.Prefix, hop uint16, local bool) (uint16, error) {
	if !p.IsValid() || !p.Addr().Is4() {
		return 0, fmt.Errorf("fib: %v is no IPv4 prefix", p)
	}
	return f.t.set(edit{key: uint64(word4(p.Masked().Addr())) << 32, bits: uint8(p.Bits()), local: local, hop: hop}), nil
}

// Set makes a prefix lead to a next hop (1…65535; Direct24: 1…32766), from the next Publish on at
// the latest. The route that it replaces is gone.
func (f *Table4) Set(p netip.Prefix, hop uint16) error {
	return f.put(p, hop, false)
}

// SetLocal is Set for the local class, whose routes win over those of Set, even longer ones.
func (f *Table4) SetLocal(p netip.Prefix, hop uint16) error {
	return f.put(p, hop, true)
}

func (f *Table4) put(p netip.Prefix, hop uint16, local bool) error {
	if err := f.t.checkHop(hop); err != nil {
		return err
	}
	_, err := f.edit(p, hop, local)
	return err
}

// Delete takes away what Set put there; it tells whether there was a route.
func (f *Table4) Delete(p netip.Prefix) bool {
	old, err := f.edit(p, 0, false)
	return err == nil && old != 0
}

// DeleteLocal takes away what SetLocal put there.
func (f *Table4) DeleteLocal(p netip.Prefix) bool {
	old, err := f.edit(p, 0, true)
	return err == nil && old != 0
}

// Publish makes every change so far visible to lookups, each address changing at once from its
// old answer to its new one. On ErrFull the addresses that could not be built answer 0.
func (f *Table4) Publish() error { return f.t.publish() }

// Replace makes these the only routes, all at once and much faster than by single changes, and
// publishes them. Of equal prefixes of one class the last one counts.
func (f *Table4) Replace(routes iter.Seq[Route]) error {
	l := f.t.newLoad()
	for r := range routes {
		if !r.Prefix.IsValid() || !r.Prefix.Addr().Is4() {
			return fmt.Errorf("fib: %v is no IPv4 prefix", r.Prefix)
		}
		if err := f.t.checkHop(r.NextHop); err != nil {
			return err
		}
		l.add(edit{key: uint64(word4(r.Prefix.Masked().Addr())) << 32, bits: uint8(r.Prefix.Bits()), local: r.Local, hop: r.NextHop})
	}
	return f.t.replace(l)
}

// Reclaim waits until no memory waits for a grace period.
func (f *Table4) Reclaim() { f.t.mem.settle() }

// Stats tells how full the table is.
func (f *Table4) Stats() Stats { return f.t.stats() }

// Lookup answers from the image as the eBPF program does; 0 when the kernel decides.
func (f *Table4) Lookup(a netip.Addr) uint16 { return f.lookup(word4(a)) }

func (f *Table4) lookup(dst uint32) uint16 {
	img := f.t.img
	if f.t.direct24 {
		return img.lookup24(dst)
	}
	root := f.t.root.stride
	desc, key := img.walk(img.load(f.t.root.word+dst>>(32-root)), uint64(dst)<<32<<root)
	hop, found := img.hop(desc, key, f.t.hopBits)
	if !found {
		hop = img.load(f.t.fallbackWord())
	}
	return uint16(hop)
}

// LookupRoutes answers from the routes instead of the image: slow, and a second opinion.
func (f *Table4) LookupRoutes(a netip.Addr) uint16 {
	key := uint64(word4(a)) << 32
	return f.t.answer(f.t.worthOf(f.t.root, key, 32))
}
