// SPDX-License-Identifier: Apache-2.0

package simulated

// chance is the luck of one trial. It is a hash and no sequence, so that it does
// not depend on what was drawn before.
type chance struct {
	seed    uint64
	load    uint64 // whole frames per second
	ordinal uint64 // how many trials this load has had before
}

// draw returns a number in [0, 1) with 53 random bits for one use of chance.
func (c chance) draw(use uint64) float64 {
	h := mix(c.seed)
	for _, v := range []uint64{c.load, c.ordinal, use} {
		h = mix(h ^ v)
	}
	return float64(h>>11) / (1 << 53)
}

// mix is the output function of SplitMix64 (Steele, Lea, Flood 2014): every bit
// of the result depends on every bit of the argument.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
