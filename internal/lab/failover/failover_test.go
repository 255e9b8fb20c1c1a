// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"strings"
	"testing"

	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// What an operator drains loses nothing, and an ISP that goes silent costs every destination packets, until all flow again.
func TestFailover(t *testing.T) {
	t.Parallel()
	r, err := Run(t.Context(), testbuild.Minne(t, t.TempDir()), LeastPrefixes, []Kind{Off, Silence}, func(text string) { t.Log(text) })
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	if len(r.Deaths) != 2 {
		t.Fatalf("%d deaths, expected 2", len(r.Deaths))
	}
	off, silent := r.Deaths[0], r.Deaths[1]
	for what, o := range map[string]Ways{"drained": off.Dies, "switched on again": off.Back} {
		if o.Out.Lost+o.In.Lost > 0 || o.Out.Sent == 0 || o.In.Sent == 0 {
			t.Errorf("%s: %+v, expected no loss", what, o)
		}
	}
	if !strings.HasPrefix(off.Seen, "off") || !strings.HasPrefix(silent.Seen, "down: BFD") {
		t.Errorf("the router said %q, then %q; expected that it is off, and that it is down by BFD", off.Seen, silent.Seen)
	}
	if o := silent.Dies.Out; o.Hit != hosts || o.Lost < hosts || o.Lost >= o.Sent || o.Longest <= 0 {
		t.Errorf("silence: %+v, expected that each of %d destinations lost packets, for a while", o, hosts)
	}
}

func TestParseKinds(t *testing.T) {
	if all, err := ParseKinds(nil); err != nil || len(all) != len(Kinds) {
		t.Errorf("no names: %v, %v, expected all kinds", all, err)
	}
	if one, err := ParseKinds([]string{"link"}); err != nil || len(one) != 1 || one[0] != Link {
		t.Errorf("link: %v, %v", one, err)
	}
	if _, err := ParseKinds([]string{"link", "fire"}); err == nil || !strings.Contains(err.Error(), "fire") {
		t.Errorf("an unknown kind: %v", err)
	}
}

// Destinations are different hosts of the table, half of them of each family.
func TestSpread(t *testing.T) {
	for _, n := range []int{LeastPrefixes, 101, 102, 103, DefaultPrefixes} {
		all := table(n)
		seen, v4 := map[string]bool{}, 0
		for _, a := range spread(all) {
			seen[a.String()] = true
			if a.Is4() {
				v4++
			}
			held := false
			for _, p := range all {
				held = held || p.Contains(a)
			}
			if !held {
				t.Errorf("%d prefixes: none holds %v", n, a)
			}
		}
		if len(seen) != hosts || v4 != hosts/2 {
			t.Errorf("%d prefixes: %d destinations, %d of IPv4", n, len(seen), v4)
		}
	}
}
