// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"errors"
	"fmt"
	"slices"
)

// table is what both families share: routes in, image out.
type table struct {
	img      image
	mem      *memory
	root     *node
	halves   map[uint64]*half // by /64; IPv6 only
	wordBits uint8            // length of the longest prefix of a word: 32 or 64
	stages   uint8            // most direct stages below the root of a word, as in bpf/fib.h
	hopBits  uint8            // of a next hop in a leaf of 32-bit entries
	leafMax  int              // ranges; a block with more becomes a direct stage
	sparse   int              // log2 of the ranges per block of a new direct stage
	direct24 bool

	dirty      []spot
	failed     []spot
	tooDeep    []*node
	unlinked   []span
	goneHalves []*half
	sweeps     [2]sweep

	fallback uint16 // the default route's next hop
	routes   int
	edits    int // since the last publication
}

// Options of a table.
type Options struct {
	// Grace returns when every lookup that was under way when it was called has ended. It is
	// called from a goroutine of its own, never twice at a time. nil means that no lookup runs
	// while the table changes.
	Grace func()
}

// publishAfter bounds the edits between two publications: lists become stages only when they are
// published, and a long list makes edits dear.
const publishAfter = 1 << 13

// set applies one edit of a prefix, given by its first word. length is at most wordBits.
func (t *table) set(e edit) uint16 {
	if e.bits == 0 && !e.local {
		old := t.fallback
		t.fallback = e.hop
		t.img.store(t.fallbackWord(), t.fallbackValue())
		t.routes += e.count(old)
		return old
	}
	old := t.change(t.root, e)
	t.routes += e.count(old)
	t.edited()
	return old
}

// edited publishes now and then in a long batch.
func (t *table) edited() {
	if t.edits++; t.edits >= publishAfter {
		_ = t.publish() // what failed waits for the caller's Publish
	}
}

// setDeep applies an edit inside the second half of an IPv6 address.
func (t *table) setDeep(key uint64, e edit) uint16 {
	h := t.halves[key]
	if h == nil {
		if e.hop == 0 {
			return 0
		}
		h = &half{key: key}
		t.halves[key] = h
		t.markDeep(key, true)
	}
	h.stale = true
	var old uint16
	if next := h.top.next; next != nil {
		old = t.change(next, e)
		next.resize = next.resize || next.misfit()
	} else {
		h.top.list, old = editList(h.top.list, e)
	}
	d := e.count(old)
	h.routes += d
	t.routes += d
	if h.routes == 0 {
		delete(t.halves, key)
		t.goneHalves = append(t.goneHalves, h)
		t.markDeep(key, false)
	}
	n, i, _ := place(t.root, key, 64)
	t.mark(n, i)
	t.edited()
	return old
}

// markDeep notes in the first half's routes that longer prefixes live inside a /64, or no longer do.
func (t *table) markDeep(key uint64, deep bool) {
	n, i, _ := place(t.root, key, 64) // a /64 is always in a list
	b := &n.blocks[i]
	at, found := find(b.list, key, 64)
	if !found {
		b.list = slices.Insert(b.list, at, route{key: key, bits: 64})
	}
	r := &b.list[at]
	r.deep = deep
	d := 1
	if !deep {
		d = -1
		if r.hops == (hops{}) {
			b.list = slices.Delete(b.list, at, at+1)
		}
	}
	t.countRoutes(t.root, n, key, d)
}

// publish builds every marked block and retires the memory that they no longer need.
func (t *table) publish() error {
	t.edits = 0
	t.buildMarked()
	for range 2 { // a block without a stage left is built from the top, once
		if len(t.tooDeep) == 0 {
			break
		}
		for _, n := range t.tooDeep {
			t.resizeAbove(n)
		}
		t.tooDeep = t.tooDeep[:0]
		t.remarkFailed()
		t.buildMarked()
	}
	for _, h := range t.goneHalves {
		t.dropHalf(h)
	}
	t.goneHalves = t.goneHalves[:0]
	t.retireUnlinked()
	t.mem.collect()
	if len(t.failed) == 0 {
		return nil
	}
	n := len(t.failed)
	t.remarkFailed()
	return fmt.Errorf("%w (%d blocks of addresses left to the kernel, %d of %d KiB used)", ErrFull, n,
		t.mem.used()*unitWords*4>>10, (t.mem.end-t.mem.first)*unitWords*4>>10)
}

func (t *table) buildMarked() {
	for k := 0; k < len(t.dirty); k++ {
		s := t.dirty[k]
		s.n.marked[s.i>>6] &^= 1 << (s.i & 63)
		if s.n.gone {
			continue
		}
		t.build(s.n, s.i)
		t.retireUnlinked()
	}
	t.dirty = t.dirty[:0]
}

// remarkFailed puts blocks that could not be built back in line.
func (t *table) remarkFailed() {
	for _, s := range t.failed {
		if !s.n.gone {
			t.mark(s.n, s.i)
		}
	}
	t.failed = t.failed[:0]
}

// resizeAbove asks for a new build of everything below the root that n belongs to.
func (t *table) resizeAbove(n *node) {
	key := n.base
	if h := n.half; h != nil {
		key = h.key
		h.stale = true
		h.top.next.resize = true
		above, i, _ := place(t.root, key, 64)
		t.mark(above, i)
		return
	}
	i := t.root.index(key)
	t.root.blocks[i].next.resize = true
	t.mark(t.root, i)
}

func (t *table) dropHalf(h *half) {
	if h.top.next != nil {
		t.drop(h.top.next)
	} else if s, ok := leafSpan(h.desc); ok {
		t.unlinked = append(t.unlinked, s)
	}
}

func (t *table) retireUnlinked() {
	for _, s := range t.unlinked {
		t.mem.retire(s)
	}
	t.unlinked = t.unlinked[:0]
}

// fallbackWord is where the image holds the default route's next hop.
func (t *table) fallbackWord() uint32 {
	if t.direct24 {
		return direct24Default
	}
	return t.root.word + uint32(len(t.root.blocks))
}

// fallbackValue is what stands there.
func (t *table) fallbackValue() uint32 {
	if t.direct24 {
		return pairOf(t.fallback, 0)
	}
	return uint32(t.fallback)
}

// checkHop refuses next hops that the image can't hold.
func (t *table) checkHop(hop uint16) error {
	if hop == 0 {
		return errors.New("fib: next hop 0 means that there is no route; use Delete")
	}
	if t.direct24 && hop >= direct24Ask {
		return fmt.Errorf("fib: next hop %d: direct24 has room for next hops up to %d", hop, direct24Ask-1)
	}
	return nil
}
