// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"fmt"
	"net/netip"
	"slices"
)

// Structure is how the rules of a family are spread over graphs.
type Structure uint8

// The structures.
const (
	// Split is three graphs, asked for the same packet: rules for few sources in one that begins
	// with the source, rules for few destinations in one that begins with that, and rules that
	// are wide in both in one that begins with the transport. The first rule of the three wins.
	Split Structure = iota
	// CrossProduct is one graph: destination, source, transport. It is there to compare: with
	// 600 rules it can take a hundred times the memory and is no faster.
	CrossProduct
)

func (s Structure) String() string { return [...]string{"split", "cross-product"}[s] }

// Options of a compilation.
type Options struct {
	None      uint32 // verdict of packets that no rule matches
	Structure Structure
	Limit     int // bytes; 0 for what Full holds
}

// Bounds. A policy beyond them is refused; the kernel can still filter by it.
const (
	MaxRules   = 65535
	emptyBytes = 1 << 10
	smallBytes = 2 << 20
	fullBytes  = 16 << 20
)

// Words of the header, CLASSIFY_ in bpf/classify.h.
const (
	headSourcePort = 0 // places, in words: 256 places of pages, in 16-bit entries
	headPort       = 1
	headKinds      = 2
	headFirst      = 3
	headSecond     = 4 // of 16-bit entries
	headVerdicts   = 5
	headFamily     = 16 // and once more for IPv6
	familyWords    = 16

	familyField = 0 // four words for the source, four for the destination
	familyZones = 8 // place of four words for each zone pair: three graphs

	fieldTable = 0 // place of the table of first words
	fieldBits  = 1 // that number the table's entries
	fieldDeep  = 2 // place of the roots of second words' trees
	fieldWords = 4

	headWords = headFamily + 2*familyWords
)

// Stats tell what a compilation came to.
type Stats struct {
	Rules            int
	Bytes            int
	TransportClasses int
	Families         [2]FamilyStats // IPv4, IPv6
}

// FamilyStats is the part of one family.
type FamilyStats struct {
	Rules              int
	SourceClasses      int
	DestinationClasses int
	TreeBytes          int // of the addresses' trees
	GraphBytes         int
}

// Tables are rules, compiled.
type Tables struct {
	words []uint32
	stats Stats
}

// Stats of the tables.
func (t *Tables) Stats() Stats { return t.stats }

// Compile turns rules into tables. It refuses, and says why, rules that are not well formed and
// policies that would need more memory or time than the bounds allow.
func Compile(rules []Rule, o Options) (*Tables, error) {
	if len(rules) > MaxRules {
		return nil, fmt.Errorf("classify: %d rules, expected up to %d", len(rules), MaxRules)
	}
	for i := range rules {
		if err := rules[i].check(i); err != nil {
			return nil, fmt.Errorf("classify: %w", err)
		}
	}
	if o.Limit == 0 {
		o.Limit = fullBytes
	}
	c := &compiler{rules: rules, options: o, image: &image{limit: o.Limit / 4}}
	if err := c.run(); err != nil {
		return nil, fmt.Errorf("classify: %d rules: %w", len(rules), err)
	}
	c.stats.Rules, c.stats.Bytes = len(rules), 4*len(c.image.words)
	return &Tables{c.image.words, c.stats}, nil
}

type compiler struct {
	rules   []Rule
	options Options
	image   *image
	above   *transportClasses
	set     []int // of transports, by rule
	stats   Stats
}

func (c *compiler) run() error {
	if _, err := c.image.take(headWords, 1); err != nil {
		return err
	}
	var sets transportSets
	for i := range c.rules {
		c.set = append(c.set, sets.add(&c.rules[i]))
	}
	var err error
	if c.above, err = sets.classes(); err != nil {
		return err
	}
	if err := c.writeTransports(); err != nil {
		return err
	}
	for family := range 2 {
		if err := c.family(family); err != nil {
			return err
		}
	}
	return c.writeVerdicts()
}

// put writes values of 32 bits and notes their place in a word of the header.
func (c *compiler) put(head int, values []uint32) error {
	at, err := c.image.take(len(values), unitWords)
	if err != nil {
		return err
	}
	copy(c.image.words[at:], values)
	c.image.words[head] = uint32(at)
	return nil
}

func (c *compiler) writeTransports() error {
	t := c.above
	c.stats.TransportClasses = t.count
	if err := c.writePorts(headSourcePort, &t.source); err != nil {
		return err
	}
	if err := c.writePorts(headPort, &t.destination); err != nil {
		return err
	}
	if err := c.put(headKinds, t.kind[:]); err != nil {
		return err
	}
	if err := c.put(headFirst, t.first); err != nil {
		return err
	}
	return c.put(headSecond, halves(t.second))
}

// halves packs values of 16 bits.
func halves(values []uint32) []uint32 {
	packed := make([]uint32, (len(values)+1)/2)
	for i := range packed {
		packed[i] = pair16(values[2*i], values[min(2*i+1, len(values)-1)])
	}
	return packed
}

// writePorts writes the classes of ports as pages of 256, of which equal ones are one.
func (c *compiler) writePorts(head int, classes *[1 << 16]uint16) error {
	known := map[[256]uint16]uint32{}
	var pages, directory []uint32
	for i := range 256 {
		page := [256]uint16(classes[256*i:])
		if _, ok := known[page]; !ok {
			known[page] = uint32(len(pages))
			for _, class := range page {
				pages = append(pages, uint32(class))
			}
		}
		directory = append(directory, known[page])
	}
	if err := c.put(head, halves(pages)); err != nil {
		return err
	}
	for i := range directory {
		directory[i] += 2 * c.image.words[head]
	}
	return c.put(head, directory)
}

// writeVerdicts puts the verdict of no rule in front of those of the rules.
func (c *compiler) writeVerdicts() error {
	verdicts := []uint32{c.options.None}
	for i := range c.rules {
		verdicts = append(verdicts, c.rules[i].Verdict)
	}
	return c.put(headVerdicts, verdicts)
}

// family compiles the addresses and graphs of one family: 0 is IPv4, 1 IPv6.
func (c *compiler) family(family int) error {
	b := &builder{image: c.image, nodes: map[string]uint32{}, tables: map[string]uint32{}}
	head := headFamily + family*familyWords
	stats := &c.stats.Families[family]
	var sets [2]addressSets
	var numbers [][2]int
	for i := range c.rules {
		n, ok := c.inFamily(&sets, i, family)
		if !ok {
			continue
		}
		b.rules = append(b.rules, classed{rule: uint32(i)})
		numbers = append(numbers, n)
	}
	stats.Rules = len(b.rules)
	before := len(c.image.words)
	for d := range sets {
		classes := sets[d].classes()
		if classes.count > maxClasses {
			return fmt.Errorf("the rules' addresses fall into %d classes, expected up to %d", classes.count, maxClasses)
		}
		b.counts[d] = classes.count
		for i, n := range numbers {
			if n[d] != everywhere {
				b.rules[i].runs[d] = classes.sets[n[d]]
			}
		}
		if err := c.writeAddresses(family, d, classes.runs); err != nil {
			return err
		}
	}
	stats.SourceClasses, stats.DestinationClasses = b.counts[source], b.counts[destination]
	stats.TreeBytes = 4 * (len(c.image.words) - before)
	b.counts[transports] = c.above.count
	for i := range b.rules {
		runs := c.above.sets[c.set[b.rules[i].rule]]
		if len(runs) != 1 || runs[0] != (run{0, uint32(c.above.count - 1)}) {
			b.rules[i].runs[transports] = runs
		}
	}
	return c.writeGraphs(b, head, stats)
}

// writeAddresses writes the tree of one field's classes.
func (c *compiler) writeAddresses(family, d int, runs []classRun) error {
	spans, deep, err := words(runs)
	if err != nil {
		return err
	}
	table, roots, width, err := c.image.searchTrees(spans, deep)
	field := headFamily + family*familyWords + familyField + d*fieldWords
	c.image.words[field+fieldTable], c.image.words[field+fieldBits] = uint32(table), uint32(width)
	c.image.words[field+fieldDeep] = uint32(roots)
	return err
}

// inFamily returns a rule's address sets; ok is false when it can match no packet of the family.
func (c *compiler) inFamily(sets *[2]addressSets, i, family int) (n [2]int, ok bool) {
	r := &c.rules[i]
	if r.Family != 0 && r.Family>>family&1 == 0 || c.above.sets[c.set[i]] == nil {
		return n, false
	}
	var lists [2][]netip.Prefix
	for d, list := range [][]netip.Prefix{r.Source, r.Destination} {
		for _, p := range list {
			if p.Addr().Is6() == (family == 1) {
				lists[d] = append(lists[d], p)
			}
		}
		if len(list) > 0 && len(lists[d]) == 0 {
			return n, false
		}
	}
	for d, list := range lists {
		n[d] = everywhere
		if len(list) > 0 {
			n[d] = sets[d].add(list)
		}
	}
	return n, true
}

// writeGraphs makes the graphs of each set of zone pairs that have the same rules.
func (c *compiler) writeGraphs(b *builder, head int, stats *FamilyStats) error {
	before := len(c.image.words)
	zones, err := c.zones(b)
	if err != nil {
		return err
	}
	stats.GraphBytes = 4 * (len(c.image.words) - before)
	return c.put(head+familyZones, zones)
}

func (c *compiler) zones(b *builder) ([]uint32, error) {
	out := make([]uint32, 0, 4*256)
	known := map[string][]uint32{}
	for zone := range 256 {
		rules := c.inZone(b, uint8(zone))
		key := nodeKey(&order{}, 0, rules)
		refs, ok := known[key]
		if !ok {
			for _, g := range b.spread(rules, c.options.Structure) {
				ref, err := b.graph(&g.order, 0, g.rules)
				if err != nil {
					return nil, err
				}
				refs = append(refs, ref)
			}
			for len(refs) < 4 {
				refs = append(refs, noRule)
			}
			known[key] = refs
		}
		out = append(out, refs...)
	}
	return out, nil
}

func (c *compiler) inZone(b *builder, zone uint8) (rules []uint32) {
	for i := range b.rules {
		if zones := c.rules[b.rules[i].rule].Zones; len(zones) == 0 || slices.Contains(zones, zone) {
			rules = append(rules, uint32(i))
		}
	}
	return rules
}

// graphRules is one graph and its rules.
type graphRules struct {
	order order
	rules []uint32
}

// spread sorts rules into graphs.
func (b *builder) spread(rules []uint32, s Structure) []graphRules {
	byDestination := graphRules{order: order{destination, source, transports}}
	if s == CrossProduct {
		byDestination.rules = rules
		return []graphRules{byDestination}
	}
	bySource := graphRules{order: order{source, destination, transports}}
	byTransport := graphRules{order: order{transports, destination, source}}
	for _, r := range rules {
		from, to := b.width(r, source), b.width(r, destination)
		wide := func(d dimension, n int) bool { return n > max(16, b.counts[d]/16) }
		switch {
		case wide(source, from) && wide(destination, to):
			byTransport.rules = append(byTransport.rules, r)
		case wide(destination, to) || to > 4*from:
			bySource.rules = append(bySource.rules, r)
		default:
			byDestination.rules = append(byDestination.rules, r)
		}
	}
	return []graphRules{byDestination, bySource, byTransport}
}

// width is how many classes of a dimension a rule takes.
func (b *builder) width(rule uint32, d dimension) int {
	if b.rules[rule].runs[d] == nil {
		return b.counts[d]
	}
	n := 0
	for _, one := range b.rules[rule].runs[d] {
		n += int(one.last-one.first) + 1
	}
	return n
}
