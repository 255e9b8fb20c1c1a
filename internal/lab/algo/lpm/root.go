// SPDX-License-Identifier: Apache-2.0

package lpm

import "minne/internal/subsystem/fastpath/tableimage"

// What both structures share: bpf/algo/lpm.h.
const (
	headFamily  = tableimage.HeadOwn
	headRoutes  = tableimage.HeadOwn + 1
	headNodes   = tableimage.HeadOwn + 2
	headEnds    = tableimage.HeadOwn + 3
	headResults = tableimage.HeadOwn + 4
	headWide    = tableimage.HeadOwn + 5

	rootAt   = tableimage.HeadEnd
	rootBits = 13
	isWide   = 1 << 31
)

// describe fills in the words of the header that both structures know.
func describe(m *tableimage.Image, f Family, all []entry) {
	m.Words[headFamily], m.Words[headRoutes] = uint32(f), uint32(len(all))
	if wide(all) {
		m.Words[headWide] = 1
	}
}

// rootOf makes the words of the root. node is asked for those with prefixes at or below the root's last bit, and
// told the best next hop above; leaf is asked for the others.
func rootOf(all []entry, node func(rest []entry, inherited uint32) uint32, leaf func(hop uint32) uint32) []uint32 {
	root := make([]uint32, 1<<rootBits)
	best := make([]uint32, len(root)) // next hop of the short prefixes
	made := make([]bool, len(root))
	for len(all) > 0 {
		e := all[0]
		at := e.bitsAt(0, rootBits)
		if e.bits < rootBits {
			for i := range uint32(1) << (rootBits - e.bits) {
				best[at+i] = e.hop
			}
			all = all[1:]
			continue
		}
		n := group(all, 0, rootBits)
		root[at], made[at] = node(all[:n], best[at]), true
		all = all[n:]
	}
	for i := range root {
		if !made[i] {
			root[i] = leaf(best[i])
		}
	}
	return root
}

// group returns how many of the first entries share the n bits at a depth.
func group(rest []entry, depth, n int) int {
	first := rest[0].bitsAt(depth, n)
	i := 1
	for i < len(rest) && int(rest[i].bits) >= depth+n && rest[i].bitsAt(depth, n) == first {
		i++
	}
	return i
}

// placeResults writes next hops, two to a word, the first in the lower half, or one when they are wide. It returns
// the number of the first one, counted in next hops from the beginning of the image.
func placeResults(m *tableimage.Image, hops []uint32, wide bool) uint32 {
	if wide {
		at := m.Place(len(hops), 1)
		copy(m.Words[at:], hops)
		return uint32(at) | isWide
	}
	at := m.Place((len(hops)+1)/2, 1)
	for i, hop := range hops {
		m.Words[at+i/2] |= hop << (16 * (i & 1))
	}
	return uint32(2 * at)
}
