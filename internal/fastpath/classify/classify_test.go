// SPDX-License-Identifier: Apache-2.0

package classify_test

import (
	"fmt"
	"testing"

	"minne/internal/fastpath/classify"
	"minne/internal/fastpath/classify/rulegen"
)

// TestShapesAgree compares the tables with the plain way on policies of every shape and size.
func TestShapesAgree(t *testing.T) {
	for _, shape := range rulegen.Shapes {
		for _, n := range []int{1, 100, 600, 1000} {
			for _, ipv6 := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/ipv6=%v", shape, n, ipv6), func(t *testing.T) {
					rules := rulegen.Rules(shape, n, ipv6, 7)
					tables, err := classify.Compile(rules, classify.Options{None: 99})
					if err != nil {
						t.Fatal(err)
					}
					t.Logf("%+v", tables.Stats())
					for _, aim := range []rulegen.Aim{rulegen.Hits, rulegen.Edges, rulegen.Stray} {
						for _, k := range rulegen.Keys(rules, 500, ipv6, aim, 3) {
							if got, want := tables.Lookup(&k), classify.Match(rules, &k, 99); got != want {
								t.Fatalf("%+v: rule %d, want %d", k, got, want)
							}
						}
					}
				})
			}
		}
	}
}
