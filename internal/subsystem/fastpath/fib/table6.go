// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
)

// Table6 compiles IPv6 routes into an image.
//
// Lookup may be called at any time from any goroutine; everything else by one goroutine at a time.
type Table6 struct {
	t *table
}

// NewTable6 makes an empty table over the bytes of the eBPF array fib6_image, which it clears.
// Attach the program afterwards.
func NewTable6(region []byte, l Layout, o Options) (*Table6, error) {
	t, err := l.newTable(6, region, o)
	if err != nil {
		return nil, err
	}
	return &Table6{t}, nil
}

func halves6(a netip.Addr) (hi, lo uint64) {
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

func check6(p netip.Prefix) error {
	if !p.IsValid() || !p.Addr().Is6() {
		return fmt.Errorf("fib: %v is no IPv6 prefix", p)
	}
	return nil
}

func (f *Table6) edit(p netip.Prefix, hop uint16, local bool) (uint16, error) {
	if err := check6(p); err != nil {
		return 0, err
	}
	hi, lo := halves6(p.Masked().Addr())
	if p.Bits() > 64 {
		return f.t.setDeep(hi, edit{key: lo, bits: uint8(p.Bits() - 64), local: local, hop: hop}), nil
	}
	return f.t.set(edit{key: hi, bits: uint8(p.Bits()), local: local, hop: hop}), nil
}

// Set makes a prefix lead to a next hop (1…65535), from the next Publish on at the latest. The
// route that it replaces is gone.
func (f *Table6) Set(p netip.Prefix, hop uint16) error {
	return f.put(p, hop, false)
}

// SetLocal is Set for the local class, whose routes win over those of Set, even longer ones.
func (f *Table6) SetLocal(p netip.Prefix, hop uint16) error {
	return f.put(p, hop, true)
}

func (f *Table6) put(p netip.Prefix, hop uint16, local bool) error {
	if err := f.t.checkHop(hop); err != nil {
		return err
	}
	_, err := f.edit(p, hop, local)
	return err
}

// Delete takes away what Set put there; it tells whether there was a route.
func (f *Table6) Delete(p netip.Prefix) bool {
	old, err := f.edit(p, 0, false)
	return err == nil && old != 0
}

// DeleteLocal takes away what SetLocal put there.
func (f *Table6) DeleteLocal(p netip.Prefix) bool {
	old, err := f.edit(p, 0, true)
	return err == nil && old != 0
}

// Publish makes every change so far visible to lookups, each address changing at once from its
// old answer to its new one. On ErrFull the addresses that could not be built answer 0.
func (f *Table6) Publish() error { return f.t.publish() }

// Replace makes these the only routes, all at once and much faster than by single changes, and
// publishes them. Of equal prefixes of one class the last one counts.
func (f *Table6) Replace(routes iter.Seq[Route]) error {
	l := f.t.newLoad()
	for r := range routes {
		if err := check6(r.Prefix); err != nil {
			return err
		}
		if err := f.t.checkHop(r.NextHop); err != nil {
			return err
		}
		hi, lo := halves6(r.Prefix.Masked().Addr())
		if n := r.Prefix.Bits(); n > 64 {
			l.addDeep(hi, edit{key: lo, bits: uint8(n - 64), local: r.Local, hop: r.NextHop})
		} else {
			l.add(edit{key: hi, bits: uint8(n), local: r.Local, hop: r.NextHop})
		}
	}
	return f.t.replace(l)
}

// Reclaim waits until no memory waits for a grace period.
func (f *Table6) Reclaim() { f.t.mem.settle() }

// Stats tells how full the table is.
func (f *Table6) Stats() Stats { return f.t.stats() }

// Lookup answers from the image as the eBPF program does; 0 when the kernel decides.
func (f *Table6) Lookup(a netip.Addr) uint16 {
	hi, lo := halves6(a)
	img := f.t.img
	root := f.t.root.stride
	desc, key := img.walk(img.load(f.t.root.word+uint32(hi>>(64-root))), hi<<root)
	if kindOf(desc) == kindDeep {
		if desc, key = img.walk(img.findDeep(desc, key), lo); kindOf(desc) == kindDeep {
			desc = img.findDeep(desc, key)
		}
	}
	hop, found := img.hop(desc, key, f.t.hopBits)
	if !found {
		hop = img.load(f.t.fallbackWord())
	}
	return uint16(hop)
}

// LookupRoutes answers from the routes instead of the image: slow, and a second opinion.
func (f *Table6) LookupRoutes(a netip.Addr) uint16 {
	hi, lo := halves6(a)
	worth := f.t.worthOf(f.t.root, hi, 64)
	if h := f.t.halves[hi]; h != nil {
		worth = h.worth(lo).under(worth)
	}
	return f.t.answer(worth)
}
