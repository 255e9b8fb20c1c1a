// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/config"
	"minne/internal/policy"
)

var from, to = netip.MustParsePrefix("198.18.128.0/17"), netip.MustParsePrefix("198.19.128.0/17")

// What is written must be what a router reads: each rule, in its order, inside the networks.
func TestARouterReadsTheRules(t *testing.T) {
	dir := t.TempDir()
	rules := Rules(600, from, to, 1)
	file := filepath.Join(dir, "rules.csv")
	if err := os.WriteFile(file, []byte(CSV(rules)), 0o644); err != nil {
		t.Fatal(err)
	}
	list := Blocklist(1000, from, 1)
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
	r, err := policy.Compile(cfg, dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(r.Policy.Rules); got != 602 {
		t.Errorf("%d rules, expected 602", got)
	}
	if got := len(r.Policy.Sets[0].Prefixes); got != 1000 {
		t.Errorf("%d blocked addresses, expected 1000", got)
	}
	open := 0
	for i, read := range r.Policy.Rules[1:601] {
		if read.Source.Any && read.Destination.Any {
			open++
		}
		for _, side := range []struct {
			read   policy.Addresses
			wanted []netip.Prefix
			inside netip.Prefix
		}{{read.Source, rules[i].Source, from}, {read.Destination, rules[i].Destination, to}} {
			if len(side.wanted) == 0 {
				if !side.read.Any {
					t.Errorf("%s: %+v, expected any", read.Text, side.read)
				}
				continue
			}
			if len(side.read.Prefixes) != 1 || side.read.Prefixes[0] != side.wanted[0] || !side.inside.Overlaps(side.wanted[0]) || side.wanted[0].Bits() < side.inside.Bits() {
				t.Errorf("%s: %+v, expected %v inside %v", read.Text, side.read, side.wanted, side.inside)
			}
		}
	}
	if open > 6 {
		t.Errorf("%d rules are about every source and destination", open)
	}
	for line := range strings.Lines(list) {
		if from.Contains(netip.MustParseAddr(strings.TrimSpace(line))) {
			t.Errorf("%s is blocked, though hosts are there", line)
		}
	}
}

func TestTheSameSeedMakesTheSameRules(t *testing.T) {
	if CSV(Rules(100, from, to, 7)) != CSV(Rules(100, from, to, 7)) || CSV(Rules(100, from, to, 7)) == CSV(Rules(100, from, to, 8)) {
		t.Error("rules don't depend on the seed alone")
	}
}
