// SPDX-License-Identifier: Apache-2.0

package fib

// Stats tells how full a table is.
type Stats struct {
	Routes     int // main and local
	ImageBytes int // size of the image
	UsedBytes  int // of it in use: root, direct stages and leaves
	TableBytes int // of that this table's, where several share an image; not with DIR-24-8
	FreeBytes  int // free at once
	// RetiredBytes wait for lookups under way to end.
	RetiredBytes int
	// LargestFree is the longest free run in bytes: much less than FreeBytes when fragmented.
	LargestFree int
	Stages      int // direct stages below the root
	Leaves      int
	Ranges      int // entries in leaves
	Depth       int // most direct stages that a lookup passes, the root counted
}

func (t *table) stats() Stats {
	const unitBytes = unitWords * 4
	s := Stats{
		Routes:       t.routes,
		ImageBytes:   len(t.img) * 4,
		UsedBytes:    int(t.mem.first+t.mem.used()) * unitBytes,
		FreeBytes:    int(t.mem.free) * unitBytes,
		RetiredBytes: int(t.mem.retiredUnits+t.mem.waitingUnits) * unitBytes,
		LargestFree:  int(t.mem.largest()) * unitBytes,
	}
	if t.direct24 {
		s.Depth = 2
		return s
	}
	t.addStage(&s, t.root, 1)
	for _, h := range t.halves {
		if h.top.next != nil {
			s.Stages++
			t.addStage(&s, h.top.next, 1)
		} else {
			s.addLeaf(h.desc)
		}
	}
	return s
}

func (t *table) addStage(s *Stats, n *node, depth int) {
	s.Depth = max(s.Depth, depth)
	s.TableBytes += 4 << n.stride
	for i := range n.blocks {
		if next := n.blocks[i].next; next != nil {
			s.Stages++
			t.addStage(s, next, depth+1)
		} else {
			s.addLeaf(t.img.load(n.word + uint32(i)))
		}
	}
}

func (s *Stats) addLeaf(desc uint32) {
	if leaf, ok := leafSpan(desc); ok {
		s.TableBytes += int(leaf.units) * unitWords * 4
		s.Leaves++
		s.Ranges += entries(desc)
	}
}
