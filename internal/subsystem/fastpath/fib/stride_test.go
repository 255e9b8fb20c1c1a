// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"math/rand/v2"
	"testing"
)

// TestLargeNextHops mixes next hops that fit a leaf of 32-bit entries with those that do not, and
// exchanges them, so that leaves change their kind both ways.
func TestLargeNextHops(t *testing.T) {
	prefixes := prefixesOf(t, 6)[:20_000]
	rng := rand.New(rand.NewPCG(4096, 1))
	f, s := open6(t, Full, Options{}), &second{}
	for _, limit := range []int{4096, 65536, 4096} {
		for _, p := range prefixes {
			hop := uint16(max(1, limit-1-rng.IntN(200)))
			if err := f.Set(p, hop); err != nil {
				t.Fatal(err)
			}
			s.Insert(p, hop)
		}
		if err := f.Publish(); err != nil {
			t.Fatal(err)
		}
		agree(t, f, s, prefixes, rng, 50_000)
	}
}
