// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minne/internal/model/config"
	"minne/internal/model/policy"
)

// What is written must be what a router reads: each rule, in its order.
func TestARouterReadsTheRules(t *testing.T) {
	dir := t.TempDir()
	rules := Rules(600, 1)
	file := filepath.Join(dir, "rules.csv")
	if err := os.WriteFile(file, []byte(CSV(rules)), 0o644); err != nil {
		t.Fatal(err)
	}
	free := map[netip.Addr]bool{}
	for line := range strings.Lines(Blocklist(10, nil, 1)) {
		free[netip.MustParseAddr(strings.TrimSpace(line))] = true
	}
	list := Blocklist(1000, free, 1)
	if err := os.WriteFile(filepath.Join(dir, "list"), []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("x", []byte(`version: 1
interfaces: {a: {zone: a, addresses: [192.0.2.1/24]}, b: {zone: b, addresses: [192.0.3.1/24]}}
firewall:
  sets: {blocked: {file: list}}
  policies: [{from: a, to: b, stateless: true, rules: [deny any @blocked], rules-file: rules.csv, expect-rows: 600, default: permit}]
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := policy.Compile(cfg, nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(r.Policy.Rules); got != 602 {
		t.Errorf("%d rules, expected 602", got)
	}
	if got := len(r.Policy.Sets[0].Prefixes); got != 1000 {
		t.Errorf("%d blocked addresses, expected 1000", got)
	}
	sites := Sites(600, 1)
	inSites := func(p netip.Prefix) bool {
		return slices.ContainsFunc(sites, func(s netip.Prefix) bool { return s.Overlaps(p) })
	}
	for i, read := range r.Policy.Rules[1:601] {
		if read.Source.Any && read.Destination.Any {
			t.Errorf("%s is about all packets", read.Text)
		}
		if len(read.Source.Prefixes)+len(read.Destination.Prefixes) > 0 && !slices.ContainsFunc(append(read.Source.Prefixes, read.Destination.Prefixes...), inSites) {
			t.Errorf("%s is about none of the sites", read.Text)
		}
		for _, side := range []struct {
			read   policy.Addresses
			wanted []netip.Prefix
		}{{read.Source, rules[i].Source}, {read.Destination, rules[i].Destination}} {
			if side.read.Any != (len(side.wanted) == 0) || !slices.Equal(side.read.Prefixes, side.wanted) {
				t.Errorf("%s: %+v, expected %v", read.Text, side.read, side.wanted)
			}
		}
	}
	for line := range strings.Lines(list) {
		if free[netip.MustParseAddr(strings.TrimSpace(line))] {
			t.Errorf("%s is blocked, though it was to be left out", line)
		}
	}
}

func TestTheSameSeedMakesTheSameRules(t *testing.T) {
	again := CSV(Rules(100, 7))
	if CSV(Rules(100, 7)) != again || CSV(Rules(100, 7)) == CSV(Rules(100, 8)) {
		t.Error("rules don't depend on the seed alone")
	}
}
