// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/base/tc"
	"minne/internal/model/config"
	"minne/internal/subsystem/kernel/sorter"
)

// village is a router with so many households of two addresses each behind eth0, on different plans.
func village(t testing.TB, households int, plans func(n int) string) *config.Config {
	t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\ninterfaces:\n  eth0: {addresses: [10.0.0.1/16, \"2001:db8::1/64\"], subscribers: on}\n  eth1: {}\n")
	b.WriteString("plans:\n  gold: {down: 200Mbit, up: 50Mbit}\n  basic: {down: 20Mbit, up: 5Mbit}\n  trunk: {down: 100Gbit, up: 40Gbit, burst: 1ms}\nsubscribers:\n")
	for n := range households {
		fmt.Fprintf(&b, "  house-%04d: {plan: %s, addresses: [10.0.%d.%d/32, \"2001:db8:%x::/48\"]}\n", n, plans(n), 1+n/250, 1+n%250, n+1)
	}
	cfg, problems := config.Parse("village.yaml", []byte(b.String()))
	if problems == nil {
		problems = config.Check(cfg, config.Secrets{})
	}
	if problems != nil {
		t.Fatal(problems)
	}
	return cfg
}

func keyOfHouse(n int) sorter.Key {
	return sorter.Network(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(1 + n/250), byte(1 + n%250)}), 32))
}

// classesOf are the classes of a link by their numbers.
func classesOf(t testing.TB, name string) map[uint16]tc.ClassNow {
	t.Helper()
	links, err := live{}.links()
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(links, func(l link) bool { return l.Name == name })
	if n < 0 {
		t.Fatalf("no link %s", name)
	}
	all, err := tc.Classes(context.Background(), links[n].Index)
	if err != nil {
		t.Fatal(err)
	}
	classes := map[uint16]tc.ClassNow{}
	for _, c := range all {
		classes[c.Minor] = c
	}
	return classes
}

// TestFiveThousandSubscribers: they are set up at once, and a change of one touches its own class alone. Times are printed.
func TestFiveThousandSubscribers(t *testing.T) {
	veths(t, "eth0", "eth1")
	const households = 5000
	k := New(slog.New(slog.DiscardHandler))
	mixed := func(n int) string { return []string{"gold", "basic"}[n%2] }
	timed := func(what string, cfg *config.Config) {
		t.Helper()
		d := render(t, cfg)
		begin := time.Now()
		apply(t, k, d)
		t.Logf("%s: %v, of it in the kernel %v", what, time.Since(begin).Round(time.Millisecond), k.sorting.took.Round(10*time.Microsecond))
	}
	timed("5,000 subscribers", village(t, households, mixed))
	before := map[string]map[uint16]tc.ClassNow{"eth0": classesOf(t, "eth0"), "ifb-eth0": classesOf(t, "ifb-eth0")}
	for name, classes := range before {
		if len(classes) != households {
			t.Errorf("%s has %d classes", name, len(classes))
		}
	}
	const changed = 4321
	timed("one has another plan", village(t, households, func(n int) string {
		if n == changed {
			return "trunk"
		}
		return mixed(n)
	}))
	entries := k.sorting.program.Entries()
	for name, classes := range before {
		now := classesOf(t, name)
		for minor, was := range classes {
			if now[minor] == was {
				continue
			}
			if whose := entries[keyOfHouse(changed)]; whose.Class != minor || whose.Name != fmt.Sprintf("house-%04d", changed) {
				t.Errorf("class %d of %s was changed too: %+v, before %+v", minor, name, now[minor], was)
			}
			delete(classes, minor)
		}
		if len(classes) != households-1 {
			t.Errorf("%d classes of %s are as before, expected %d", len(classes), name, households-1)
		}
	}
	if c := classesOf(t, "eth0")[entries[keyOfHouse(changed)].Class]; c.Rate != 100_000_000_000/8 || c.Burst != time.Millisecond {
		t.Errorf("the class of the changed one is %+v", c.Class)
	}
	timed("one is new", village(t, households+1, mixed))
	timed("the last 100 have left", village(t, households-99, mixed))
	if left := len(classesOf(t, "eth0")); left != households-99 || len(k.sorting.program.Entries()) != 2*left {
		t.Errorf("%d classes, %d addresses are left", left, len(k.sorting.program.Entries()))
	}
	begin := time.Now()
	rep, err := k.Reassert(context.Background())
	if err != nil || len(rep.Repaired) != 0 {
		t.Errorf("repaired %+v, %v", rep, err)
	}
	t.Logf("a look at all of it: %v", time.Since(begin).Round(time.Millisecond))
	cfg, err := config.Parse("none.yaml", []byte("version: 1\ninterfaces: {eth0: {}, eth1: {}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	timed("none", cfg)
}
