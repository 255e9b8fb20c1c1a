// SPDX-License-Identifier: Apache-2.0

package fib

import "math/bits"

// How wide a new direct stage is. IPv4's follow the number of ranges. IPv6's are chosen by price,
// so that most ranges are reached by at most two stages below the root: the program follows
// those without a branch, and every further one costs it a mispredicted one.

const (
	maxStride   = 16 // bits; what the lookup of IPv6 can shift
	maxStride6  = 14 // of the second of two stages that are chosen together
	quickStages = 2  // stages that the IPv6 program follows without a branch

	// deepPrice is how many bytes of an empty image it is worth to reach one more range by
	// quickStages stages. The fuller the image, the less.
	deepPrice = 320
)

// strideFor picks how many bits a stage uses for what lies in a block; n is the number of
// intervals, or what stands for it when a list is long. A stage that more must follow is wide
// enough that the stages left get to the last bit when a leaf could not hold the ranges.
func (t *table) strideFor(v []interval, n int, at site) uint8 {
	stagesLeft := int(t.stages) - int(at.level)
	bitsLeft := int(t.limit(at.half)) - int(at.depth)
	stride := bits.Len(uint(n)) - 1 - t.sparse
	if t.quick(at) && len(v) > 1 {
		p := prices{
			leafMax:   t.leafMax,
			startBits: 32 - int(t.hopBits),
			end:       int(t.limit(at.half)),
			deep:      int(deepPrice * uint64(t.mem.free) / uint64(t.mem.end-t.mem.first)),
		}
		stride, _ = p.stage(v, int(at.depth), quickStages-int(at.level))
	}
	if n > maxLeaf/2 {
		stride = max(stride, (bitsLeft+stagesLeft-1)/stagesLeft)
	}
	return uint8(min(max(stride, 2), maxStride, bitsLeft))
}

// quick tells whether a stage at a site would be among those without a branch.
func (t *table) quick(at site) bool {
	return t.wordBits == 64 && at.half == nil && at.level < quickStages
}

// far tells whether the starts of a block are too long for a leaf of 32-bit entries, while a quick
// stage can bring them nearer.
func (t *table) far(v []interval, at site) bool {
	return t.quick(at) && len(v) > 1 && lastBit(v[1:]) > int(at.depth)+32-int(t.hopBits)
}

// lastBit is how many bits the longest start has.
func lastBit(v []interval) int {
	all := uint64(0)
	for i := range v {
		all |= v[i].start
	}
	return 64 - bits.TrailingZeros64(all)
}

// prices is what prices depend on, all of them in bytes.
type prices struct {
	leafMax   int // ranges
	startBits int // of a start in a leaf of 32-bit entries
	end       int // bit up to which stages may reach
	deep      int // of a range that is not reached in time
}

// stage returns the best stride of a stage at depth, the first of so many quick ones, and what it and
// all below cost.
func (p *prices) stage(v []interval, depth, quick int) (stride, price int) {
	ranges := bits.Len(uint(len(v)))
	most := min(ranges+5, maxStride)
	if quick == 1 {
		most = min(ranges+9, maxStride6)
	}
	price = -1
	for s := max(ranges-4, 1); s <= most && depth+s < p.end; s++ {
		sum := 4 << s
		for i := 0; i < len(v) && (price < 0 || sum < price); {
			block := v[i].start << depth >> (64 - s)
			j := i + 1
			for j < len(v) && v[j].start<<depth>>(64-s) == block {
				j++
			}
			sum += p.block(v[i:j], depth+s, quick-1)
			i = j
		}
		if price < 0 || sum < price {
			stride, price = s, sum
		}
	}
	return stride, max(price, 0)
}

// block is the price of the intervals that begin in one block, which so many quick stages may divide.
func (p *prices) block(v []interval, depth, quick int) int {
	n := len(v)
	if v[0].start<<depth != 0 {
		n++ // the one that began before
	}
	switch {
	case n == 1:
		return 0
	case n <= p.leafMax && lastBit(v) <= depth+p.startBits:
		return (n + 3) / 4 * unitWords * 4
	case quick == 0 || depth+1 >= p.end:
		return n * (4 + p.deep)
	}
	_, price := p.stage(v, depth, quick)
	return price
}
