// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"errors"
)

// errTooDeep says that a leaf has more ranges than a leaf can hold, where no further stage may
// follow. A build from the top finds strides that reach.
var errTooDeep = errors.New("fib: no stage left")

// longLists is how many times more routes than a leaf has ranges a list may have; longer ones are
// split even if they make few ranges, so that an edit stays cheap.
const longLists = 8

// site is where a block lies.
type site struct {
	base  uint64
	depth uint8
	level uint8 // direct stages above, the root of an image not counted
	half  *half // nil in the first half of an address
}

func (s site) last() uint64 { return s.base | lowBits(s.depth) }

func (n *node) site(i uint32) site {
	return site{base: n.first(i), depth: n.end(), level: n.level, half: n.half}
}

// limit is the bit up to which direct stages may reach: an IPv6 /64 stays in a leaf, whose
// descriptors can refer to the second half of the address.
func (t *table) limit(h *half) uint8 {
	if t.wordBits == 64 && h == nil {
		return 63
	}
	return t.wordBits
}

// build brings the descriptor of block i of n up to date. A block that can't be built is left to
// the kernel and waits in t.failed.
func (t *table) build(n *node, i uint32) {
	if t.direct24 {
		t.buildDirect24(i)
		return
	}
	old := t.img.load(n.word + i)
	desc, err := t.describe(&n.blocks[i], n.site(i), n.worth(i), old)
	switch {
	case errors.Is(err, errTooDeep):
		t.tooDeep = append(t.tooDeep, n)
		t.failed = append(t.failed, spot{n, i})
		return
	case err != nil:
		t.failed = append(t.failed, spot{n, i})
		if s, ok := leafSpan(old); ok {
			t.unlinked = append(t.unlinked, s)
		}
		desc = askKernel
	}
	if desc != old {
		t.img.store(n.word+i, desc)
	}
}

// describe brings the image's description of block b up to date, for what covers it. old is the
// descriptor in force; the new one is returned and not yet stored. What it replaces is added to
// t.unlinked, to be retired once nothing refers to it.
func (t *table) describe(b *block, at site, cover hops, old uint32) (uint32, error) {
	if next := b.next; next != nil {
		if !next.resize {
			t.repaint(next, cover)
			return old, nil
		}
		b.list = b.routes()
		b.next = nil
		t.drop(next)
	}
	desc, err := t.describeList(b, at, cover, old)
	if err != nil {
		return 0, err
	}
	if s, ok := leafSpan(old); ok && desc != old {
		t.unlinked = append(t.unlinked, s)
	}
	return desc, nil
}

// repaint builds the blocks of a stage again when what covers it has changed.
func (t *table) repaint(n *node, cover hops) {
	if n.cover == cover {
		return
	}
	n.cover = cover
	for i := range uint32(len(n.blocks)) {
		t.build(n, i)
	}
}

// describeList describes a block that is a list of routes, which becomes a stage when it is large.
func (t *table) describeList(b *block, at site, cover hops, old uint32) (uint32, error) {
	s := &t.sweeps[0]
	if at.half != nil {
		s = &t.sweeps[1]
	}
	if err := s.run(at.base, at.last(), cover, b.list, t.describeHalf); err != nil {
		return 0, err
	}
	stagesLeft := int(t.stages) - int(at.level)
	bitsLeft := int(t.limit(at.half)) - int(at.depth)
	final := stagesLeft == 0 || bitsLeft == 0
	n := max(len(s.intervals), len(b.list)/longLists)
	switch {
	case !final && (n > t.leafMax || t.far(s.intervals, at)):
		return t.split(b, at, cover, t.strideFor(s.intervals, n, at))
	case len(s.intervals) > maxLeaf:
		return 0, errTooDeep
	case len(s.intervals) == 1 && kindOf(s.intervals[0].desc) == kindHop:
		return s.intervals[0].desc, nil
	}
	return t.leaf(s.intervals, at.depth, old)
}

// split turns a list into a stage with lists of its own. When memory runs out the block is left
// as it was.
func (t *table) split(b *block, at site, cover hops, stride uint8) (uint32, error) {
	n := newNode(at.base, at.depth, stride, at.level+1, at.half)
	n.cover = cover
	first, ok := t.mem.alloc(stageUnits(stride))
	if !ok {
		return 0, ErrFull
	}
	n.word = first * unitWords
	for _, r := range b.list {
		n.routes += r.count()
		if r.bits <= n.end() {
			n.short[n.shortAt(r.key, r.bits)] = r.hops
			continue
		}
		c := &n.blocks[n.index(r.key)]
		c.list = append(c.list, r)
	}
	for i := range uint32(len(n.blocks)) {
		desc, err := t.describe(&n.blocks[i], n.site(i), n.worth(i), 0)
		if err != nil {
			t.releaseStage(n, i)
			return 0, err
		}
		t.img.store(n.word+i, desc)
	}
	n.built = n.routes
	b.next, b.list = n, nil
	return descriptor(kindDirect, uint32(stride), n.word), nil
}

// releaseStage frees a stage that was never published, of which the first `done` blocks were built.
func (t *table) releaseStage(n *node, done uint32) {
	for i := range done {
		if next := n.blocks[i].next; next != nil {
			t.releaseStage(next, uint32(len(next.blocks)))
		} else if s, ok := leafSpan(t.img.load(n.word + i)); ok {
			t.mem.release(s)
		}
	}
	t.mem.release(n.span())
}

// stageUnits is the memory of a stage.
func stageUnits(stride uint8) uint32 {
	return max(uint32(1)<<stride/unitWords, 1)
}

func (n *node) span() span { return span{n.word / unitWords, stageUnits(n.stride)} }

// drop takes a stage and all below out of the tree; its memory is unlinked with the block that is
// being built.
func (t *table) drop(n *node) {
	n.gone = true
	for i := range n.blocks {
		if next := n.blocks[i].next; next != nil {
			t.drop(next)
		} else if s, ok := leafSpan(t.img.load(n.word + uint32(i))); ok {
			t.unlinked = append(t.unlinked, s)
		}
	}
	t.unlinked = append(t.unlinked, n.span())
}

// describeHalf gives the descriptor of what lies inside an IPv6 /64 with longer prefixes.
func (t *table) describeHalf(r route, worth hops) (uint32, error) {
	h := t.halves[r.key]
	if !h.stale && h.cover == worth {
		return h.desc, nil
	}
	h.stale = true // until it is built
	desc, err := t.describe(&h.top, site{half: h}, worth, h.desc)
	if err != nil {
		return 0, err
	}
	h.desc, h.cover, h.stale = desc, worth, false
	return desc, nil
}

// leaf describes intervals by a leaf of the smallest kind that can tell them apart. A leaf in
// force with the same starts is edited in place, one aligned store for each answer that changes.
func (t *table) leaf(v []interval, depth uint8, old uint32) (uint32, error) {
	kind, size := t.leafKind(v, depth)
	size--
	if kindOf(old) == kind && sizeOf(old) == size && t.sameStarts(v, depth, old) {
		t.fillLeaf(v, depth, old)
		return old, nil
	}
	need, _ := leafSpan(descriptor(kind, size, 0))
	at, ok := t.mem.alloc(need.units)
	if !ok {
		return 0, ErrFull
	}
	desc := descriptor(kind, size, at*unitWords)
	t.fillLeaf(v, depth, desc)
	return desc, nil
}

// leafKind picks the kind of leaf for intervals in a block of that depth, and its size in what a
// descriptor counts: units, groups of a deep leaf.
func (t *table) leafKind(v []interval, depth uint8) (kind, size uint32) {
	var used uint64 // bits of starts
	var largest uint32
	deep := false
	for i := range v {
		used |= v[i].start << depth
		deep = deep || kindOf(v[i].desc) != kindHop
		largest = max(largest, v[i].desc)
	}
	n := uint32(len(v))
	switch {
	case !deep && used<<(32-t.hopBits) == 0 && largest < 1<<t.hopBits:
		return kindLeaf32, (n + 3) / 4
	case !deep && used<<48 == 0:
		return kindLeaf64, (n + 1) / 2
	}
	return kindDeep, (n + 3) / 4
}

// padded returns interval i of a leaf, whose spare entries repeat the last one.
func padded(v []interval, i int) *interval { return &v[min(i, len(v)-1)] }

// entries is how many ranges the leaf of a descriptor has room for.
func entries(desc uint32) int {
	perUnit := 4
	if kindOf(desc) == kindLeaf64 {
		perUnit = 2
	}
	return int(sizeOf(desc)+1) * perUnit
}

func (t *table) sameStarts(v []interval, depth uint8, desc uint32) bool {
	word := wordOf(desc)
	for i := range entries(desc) {
		start := padded(v, i).start << depth
		same := false
		switch kindOf(desc) {
		case kindLeaf32:
			same = (t.img.load(word+uint32(i))^uint32(start>>32))>>t.hopBits == 0
		case kindLeaf64:
			same = t.img.load64(word+2*uint32(i))>>16 == start>>16
		case kindDeep:
			same = t.img.load64(word+2*uint32(i)) == start
		}
		if !same {
			return false
		}
	}
	return true
}

func (t *table) fillLeaf(v []interval, depth uint8, desc uint32) {
	word, n := wordOf(desc), entries(desc)
	for i := range n {
		p := padded(v, i)
		start, at := p.start<<depth, word+uint32(i)
		switch kindOf(desc) {
		case kindLeaf32:
			t.img.set(at, uint32(start>>32)|p.desc&0xffff)
		case kindLeaf64:
			t.img.set64(at+uint32(i), start|uint64(p.desc&0xffff))
		case kindDeep:
			t.img.set64(at+uint32(i), start)
			t.img.set(at+2*uint32(n), p.desc)
		}
	}
}
