// SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"strings"
	"testing"

	"minne/internal/lab/algo/lpm"
	"minne/internal/subsystem/fastpath/automaton"
)

func TestShares(t *testing.T) {
	for _, share := range []float64{0, 0.5, 1} {
		patterns, err := Regexes(400, PatternShape{Wild: share, Ranges: 1 - share}, 1)
		if err != nil {
			t.Fatal(err)
		}
		wild, ranges := 0, 0
		for _, p := range patterns {
			if strings.Contains(p.Text, ".*") {
				wild++
			}
			if strings.ContainsAny(p.Text, "[{") || strings.Contains(p.Text, `\s`) {
				ranges++
			}
		}
		for what, got := range map[string][2]float64{"wild": {float64(wild) / 400, share}, "ranges": {float64(ranges) / 400, 1 - share}} {
			if got[0] < got[1]-0.08 || got[0] > got[1]+0.08 {
				t.Errorf("%s: share %.2f, expected %.2f", what, got[0], got[1])
			}
		}
	}
}

// TestMatchRate: what is planted is found, by searching.
func TestMatchRate(t *testing.T) {
	literals, err := Literals(200, 1)
	if err != nil {
		t.Fatal(err)
	}
	a, err := automaton.Compile(literals, automaton.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rate := range []float64{0, 0.3, 1} {
		records := Payload(200*recordBytes, literals, rate, 2)
		matching, size := 0, 0
		for _, r := range records {
			if size += len(r); len(a.Match(r)) > 0 {
				matching++
			}
		}
		if got := float64(matching) / float64(len(records)); got < rate-0.1 || got > rate+0.15 {
			t.Errorf("%.2f of the records match, expected about %.2f", got, rate)
		}
		if size != 200*recordBytes {
			t.Errorf("%d bytes, expected %d", size, 200*recordBytes)
		}
	}
	if again := Payload(5000, literals, 0.5, 2); !bytes.Equal(again[1], Payload(5000, literals, 0.5, 2)[1]) {
		t.Error("the same seed gave other payload")
	}
}

func TestKeys(t *testing.T) {
	for _, f := range []lpm.Family{lpm.IPv4, lpm.IPv6} {
		routes, err := Routes(f, 500, 3)
		if err != nil {
			t.Fatal(err)
		}
		r, err := lpm.NewReference(f, routes)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range KeysInTable(routes, 2000, 1) {
			if r.Lookup(k) == 0 {
				t.Fatalf("IPv%d: %v is in no route", f, k.Address(f))
			}
		}
		for _, k := range RandomKeys(f, 2000, 1) {
			if !k.Address(f).IsGlobalUnicast() {
				t.Fatalf("IPv%d: %v is no public address", f, k.Address(f))
			}
		}
		if got := len(KeyBytes(f, RandomKeys(f, 1, 1))[0]); got != map[lpm.Family]int{4: 4, 6: 16}[f] {
			t.Errorf("IPv%d: keys of %d bytes", f, got)
		}
	}
	members, strangers := Members(50_000, 1)
	seen := map[string]bool{}
	for _, k := range append(members, strangers...) {
		if seen[string(k)] {
			t.Fatalf("%x is there twice", k)
		}
		seen[string(k)] = true
	}
}
