// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"minne/internal/lab/algo/kernelfib"
	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/platform/data"
	"minne/internal/subsystem/fastpath/automaton"
)

// Seed is that of all generated data: the same on every platform.
const Seed = 2026

// The algorithms.
const (
	TreeBitmap    = "tree bitmap"
	ShapeShifting = "shape-shifting trie"
	RangeTable    = "range table"
	Direct24      = "DIR-24-8"
	Staged16      = "staged16"
	TrieMap       = "kernel's trie map"
	KernelFIB     = "bpf_fib_lookup"
	BloomFilter   = "Bloom filter"
	BlockedBloom  = "blocked Bloom filter"
	CountingBloom = "counting Bloom filter"
	D2FA          = "D²FA"
	HybridFA      = "hybrid FA"
)

// Algorithms are all of them, with the names by which operators choose them.
var Algorithms = []struct{ Option, Name string }{
	{"tree-bitmap", TreeBitmap}, {"shape-shifting", ShapeShifting}, {"range", RangeTable}, {"direct24", Direct24}, {"staged16", Staged16}, {"trie-map", TrieMap}, {"kernel-fib", KernelFIB},
	{"bloom", BloomFilter}, {"blocked-bloom", BlockedBloom}, {"counting-bloom", CountingBloom}, {"d2fa", D2FA}, {"hybrid", HybridFA},
}

// Names turns options into algorithms; of none it makes all.
func Names(options []string) ([]string, error) {
	var names, known []string
	for _, a := range Algorithms {
		known = append(known, a.Option)
		if len(options) == 0 || slices.Contains(options, a.Option) {
			names = append(names, a.Name)
		}
	}
	for _, o := range options {
		if !slices.Contains(known, o) {
			return nil, fmt.Errorf("no algorithm %q: there are %s", o, strings.Join(known, ", "))
		}
	}
	return names, nil
}

// Data says what is searched and what for. What is not given is generated.
type Data struct {
	Routes    string // file of a routing table
	Patterns  string // file of patterns
	Blocklist string // file of addresses
	Capture   string // file of packets, whose payload is searched
}

// Generated data.
const (
	filterKeys    = 1_000_000
	literalCount  = 3000
	regexCount    = 500
	payloadBytes  = 1 << 20
	matchingShare = 0.1
	mostPayload   = 4 << 20 // of a capture
)

var regexShape = data.PatternShape{Wild: 0.1, Ranges: 0.3}

// builder makes workloads.
type builder struct {
	dir        string
	algorithms []string
	progress   func(string)
	limit      limit
	install    kernelfib.Install // nil: the kernel's own table is not asked
	cpu        int
	workloads  []*workload
	result     *Result
	routesUsed []lpm.Route // of both families
	forPeers   []peerInput
}

func (b *builder) step(format string, args ...any) { b.progress(fmt.Sprintf(format, args...)) }

// wanted tells whether one of the algorithms is measured.
func (b *builder) wanted(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(b.algorithms, n) })
}

// missing notes what can't be measured.
func (b *builder) missing(algorithm, holds string, why error) {
	b.result.Missing = append(b.result.Missing, fmt.Sprintf("%s (%s): %v", algorithm, holds, why))
}

func (b *builder) note(format string, args ...any) {
	b.result.Notes = append(b.result.Notes, fmt.Sprintf(format, args...))
}

// add takes a workload whose table has this content.
func (b *builder) add(w *workload, content []byte, sets []*set) error {
	file, err := store(b.dir, fmt.Sprintf("table-%d", len(b.workloads)), content)
	if err != nil {
		return err
	}
	w.table, w.sets = file, sets
	b.workloads = append(b.workloads, w)
	b.result.Tables = append(b.result.Tables, Table{
		Algorithm: w.algorithm, Holds: w.holds, Used: w.used, Memory: w.memory, BuildMs: w.build.Seconds() * 1e3, Detail: w.detail,
	})
	return nil
}

// all makes the workloads of all data.
func (b *builder) all(d Data) error {
	for _, part := range []func(Data) error{b.routes, b.filters, b.patterns} {
		if err := part(d); err != nil {
			return err
		}
	}
	if len(b.workloads) == 0 {
		return fmt.Errorf("nothing to measure: no table could be built: %s", strings.Join(b.result.Missing, "; "))
	}
	return nil
}

func (b *builder) routes(d Data) error {
	if !b.wanted(routeAlgorithms...) {
		return nil
	}
	t, err := b.table(d.Routes)
	if err != nil {
		return err
	}
	b.routesUsed = slices.Concat(t.IPv4, t.IPv6)
	if err := b.routeWorkloads(lpm.IPv4, t.IPv4); err != nil {
		return err
	}
	return b.routeWorkloads(lpm.IPv6, t.IPv6)
}

func (b *builder) table(file string) (*data.Table, error) {
	if file != "" {
		b.step("read %s", file)
		return data.LoadRoutes(file)
	}
	b.step("make routing tables as large as the Internet's")
	b.note("Routing tables are generated, in the shape of the Internet's; --table measures a real one.")
	v4, err := data.Routes(lpm.IPv4, data.FullIPv4, Seed)
	if err != nil {
		return nil, err
	}
	v6, err := data.Routes(lpm.IPv6, data.FullIPv6, Seed)
	return &data.Table{IPv4: v4, IPv6: v6}, err
}

func (b *builder) filters(d Data) error {
	if !b.wanted(BloomFilter, BlockedBloom, CountingBloom) {
		return nil
	}
	if d.Blocklist == "" {
		members, strangers := data.Members(filterKeys, Seed)
		return b.filterWorkloads(members, strangers, "keys")
	}
	list, err := data.LoadBlocklist(d.Blocklist)
	if err != nil {
		return err
	}
	members, family, left := single(list)
	if left > 0 {
		b.note("%s: %s of %s entries are not looked up: a filter holds single addresses of one family, here of IPv%d.", d.Blocklist, grouped(left), grouped(len(list)), family)
	}
	if len(members) == 0 {
		return fmt.Errorf("%s: only networks in it: expected single addresses, which a Bloom filter can hold", d.Blocklist)
	}
	return b.filterWorkloads(members, strangersTo(members, family), fmt.Sprintf("IPv%d addresses", family))
}

// single are the single addresses of a blocklist in the family that has more of them; left is how many entries these leave out.
func single(list []netip.Prefix) (keys [][]byte, family lpm.Family, left int) {
	by := map[bool][][]byte{}
	seen := map[netip.Addr]bool{}
	for _, p := range list {
		if a := p.Addr(); p.IsSingleIP() && !seen[a] {
			seen[a] = true
			by[a.Is4()] = append(by[a.Is4()], a.AsSlice())
		}
	}
	family, keys = lpm.IPv4, by[true]
	if len(by[false]) > len(keys) {
		family, keys = lpm.IPv6, by[false]
	}
	return keys, family, len(list) - len(keys)
}

// leastAsked is how many keys even a small table is asked for.
const leastAsked = 1 << 16

// strangersTo are random addresses that are none of the members.
func strangersTo(members [][]byte, family lpm.Family) (strangers [][]byte) {
	known := make(map[string]bool, len(members))
	for _, m := range members {
		known[string(m)] = true
	}
	for _, k := range data.KeyBytes(family, data.RandomKeys(family, min(max(leastAsked, len(members)), askedKeys), Seed)) {
		if !known[string(k)] {
			strangers = append(strangers, k)
		}
	}
	return strangers
}

func (b *builder) patterns(d Data) error {
	if !b.wanted(D2FA, HybridFA) {
		return nil
	}
	patterns, err := b.patternList(d.Patterns)
	if err != nil {
		return err
	}
	payload, err := b.payload(d.Capture, patterns)
	if err != nil {
		return err
	}
	return b.patternWorkloads(patterns, payload)
}

func (b *builder) patternList(file string) ([]automaton.Pattern, error) {
	if file == "" {
		literals, err := data.Literals(literalCount, Seed)
		if err != nil {
			return nil, err
		}
		regexes, err := data.Regexes(regexCount, regexShape, Seed)
		return append(literals, regexes...), err
	}
	patterns, refused, err := data.LoadPatterns(file)
	for i, l := range refused {
		if i == namedRefusals {
			b.note("%s: %d more patterns are not in the subset that is compiled.", file, len(refused)-i)
			break
		}
		b.note("left out: %v", l)
	}
	return patterns, err
}

// namedRefusals is how many patterns are named that can't be compiled.
const namedRefusals = 10

func (b *builder) payload(file string, patterns []automaton.Pattern) ([][]byte, error) {
	if file == "" {
		return data.Payload(payloadBytes, patterns, matchingShare, Seed), nil
	}
	records, err := data.LoadPayload(file)
	size := 0
	for i, r := range records {
		if size += len(r); size > mostPayload {
			b.note("%s: the first %s of %s packets are searched.", file, grouped(i), grouped(len(records)))
			return records[:max(i, 1)], nil
		}
	}
	return records, err
}

// grouped writes a number with its digits in groups of three.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// counted writes so many of something.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}
