// SPDX-License-Identifier: Apache-2.0

package fib

// The answers of the routes themselves, to judge the image by.

// worthOf is what the prefixes that contain key, of at most `length` bits, make of it.
func (t *table) worthOf(n *node, key uint64, length uint8) hops {
	i := n.index(key)
	w := n.worthShort(i)
	b := &n.blocks[i]
	if b.next != nil {
		return t.worthOf(b.next, key, length).under(w)
	}
	return worthIn(b.list, key).under(w)
}

// worthShort is worth without what covers the stage.
func (n *node) worthShort(i uint32) hops {
	var h hops
	for at := 1<<n.stride | i; at > 0; at >>= 1 {
		h = h.under(n.short[at])
	}
	return h
}

// worthIn is the same for a list.
func worthIn(list []route, key uint64) hops {
	var h hops
	for _, r := range list { // a prefix comes before those inside it
		if (key^r.key)&^lowBits(r.bits) == 0 {
			h = r.hops.under(h)
		}
	}
	return h
}

func (h *half) worth(key uint64) hops {
	if n := h.top.next; n != nil {
		return (*table)(nil).worthOf(n, key, 64)
	}
	return worthIn(h.top.list, key)
}

func (t *table) answer(w hops) uint16 {
	if hop := w.chosen(); hop != 0 {
		return uint16(hop)
	}
	return t.fallback
}
