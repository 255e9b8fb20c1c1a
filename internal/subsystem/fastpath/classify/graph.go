// SPDX-License-Identifier: Apache-2.0

package classify

// From classes to the first rule: an acyclic graph of nodes. Each node asks for
// one of a packet's three classes (source, destination, transport) and leads on by
// it. What a node stands for is the rules still possible: the same rules left, the
// same node.

import (
	"encoding/binary"
	"errors"
	"slices"
)

// dimension is one of the three classes of a packet.
type dimension uint8

const (
	source dimension = iota
	destination
	transports
	dimensions
)

// References: bits 30 and 31 are the kind. A rule's number fills the rest; a node's reference has
// its dimension in bits 28 and 29 and its place, in words, in the others.
const (
	refRule  = 0 << 30 // ends the walk; noRule when none matches
	refTable = 1 << 30 // a reference for each class
	refRuns  = 2 << 30 // runs of classes, up to eight

	noRule   = 1<<30 - 1
	refPlace = 1<<28 - 1

	runStarts  = 7 // in a node of runs, 16 bits each, the eighth is noClass; then references
	startWords = 4
	noClass    = 0x7fff

	// maxSteps is how long a walk can be: in each dimension a table, or up to five nodes of
	// runs, which are for 8^5 classes. CLASSIFY_STEPS.
	maxSteps = 3 * 5
)

// classed is a rule by its classes; nil runs are all classes.
type classed struct {
	runs [dimensions][]run
	rule uint32 // number in the policy
}

// builder makes the graphs of one family.
type builder struct {
	image  *image
	counts [dimensions]int
	rules  []classed
	nodes  map[string]uint32 // by the dimensions and rules left
	tables map[string]uint32 // by content
	work   int
}

// maxWork bounds the time of a compilation: how often a rule is put into a node.
const maxWork = 10_000_000

// errWork says that a policy is too entangled.
var errWork = errors.New("the rules overlap in too many ways to be compiled; " +
	"write fewer rules that name many networks both as source and as destination")

// order is the sequence in which a graph asks.
type order [dimensions]dimension

// graph returns the reference for the rules left (ascending numbers of b.rules) at a step.
func (b *builder) graph(o *order, step int, rules []uint32) (uint32, error) {
	if len(rules) == 0 {
		return noRule, nil
	}
	for step < len(o) && b.indifferent(o[step], rules) {
		step++
	}
	if step == len(o) {
		return refRule | b.rules[rules[0]].rule, nil
	}
	key := nodeKey(o, step, rules)
	if ref, ok := b.nodes[key]; ok {
		return ref, nil
	}
	starts, lists, err := b.split(o, step, rules)
	if err != nil {
		return 0, err
	}
	refs := make([]uint32, len(lists))
	for i, list := range lists {
		if refs[i], err = b.graph(o, step+1, list); err != nil {
			return 0, err
		}
	}
	ref, err := b.node(o[step], starts, refs)
	if err == nil {
		b.nodes[key] = ref
	}
	return ref, err
}

// indifferent tells whether all rules take every class of a dimension.
func (b *builder) indifferent(d dimension, rules []uint32) bool {
	for _, r := range rules {
		if b.rules[r].runs[d] != nil {
			return false
		}
	}
	return true
}

func nodeKey(o *order, step int, rules []uint32) string {
	key := make([]byte, 0, 4+4*len(rules))
	for _, d := range o[step:] {
		key = append(key, byte(d))
	}
	for _, r := range rules {
		key = binary.NativeEndian.AppendUint32(key, r)
	}
	return string(key)
}

// split sorts the rules into the stretches of classes between which nothing changes. A list ends
// with the first rule that takes whatever is left.
func (b *builder) split(o *order, step int, rules []uint32) (starts []uint32, lists [][]uint32, err error) {
	d := o[step]
	starts = append(starts, 0)
	for _, r := range rules {
		for _, one := range b.rules[r].runs[d] {
			starts = append(starts, one.first)
			if int(one.last)+1 < b.counts[d] {
				starts = append(starts, one.last+1)
			}
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	lists = make([][]uint32, len(starts))
	closed := make([]bool, len(starts))
	open := len(starts)
	all := []run{{0, uint32(b.counts[d] - 1)}}
	for _, r := range rules {
		runs := b.rules[r].runs[d]
		if runs == nil {
			runs = all
		}
		ends := b.takesRest(o, step+1, r)
		for _, one := range runs {
			i, _ := slices.BinarySearch(starts, one.first)
			for ; i < len(starts) && starts[i] <= one.last; i++ {
				b.work++
				if closed[i] {
					continue
				}
				lists[i] = append(lists[i], r)
				if ends {
					closed[i] = true
					open--
				}
			}
		}
		if b.work > maxWork {
			return nil, nil, errWork
		}
		if open == 0 {
			break
		}
	}
	return starts, lists, nil
}

// takesRest tells whether a rule takes every class in the steps from one on.
func (b *builder) takesRest(o *order, step int, rule uint32) bool {
	for ; step < len(o); step++ {
		if b.rules[rule].runs[o[step]] != nil {
			return false
		}
	}
	return true
}

// node writes a node that leads from each start on to its reference.
func (b *builder) node(d dimension, starts, refs []uint32) (uint32, error) {
	n := 0
	for i := range starts {
		if i > 0 && refs[i] == refs[n-1] {
			continue
		}
		starts[n], refs[n] = starts[i], refs[i]
		n++
	}
	starts, refs = starts[:n], refs[:n]
	if n == 1 {
		return refs[0], nil
	}
	key := tableKey(d, starts, refs)
	if ref, ok := b.tables[key]; ok {
		return ref, nil
	}
	var ref uint32
	var err error
	if n > runStarts+1 && n*4 > b.counts[d] || b.counts[d] <= runStarts+1 {
		ref, err = b.table(starts, refs, b.counts[d])
	} else {
		ref, err = b.runs(d, starts, refs)
	}
	if err != nil {
		return 0, err
	}
	ref |= uint32(d) << 28
	b.tables[key] = ref
	return ref, nil
}

func tableKey(d dimension, starts, refs []uint32) string {
	key := make([]byte, 0, 1+8*len(starts))
	key = append(key, byte(d))
	for i := range starts {
		key = binary.NativeEndian.AppendUint32(key, starts[i])
		key = binary.NativeEndian.AppendUint32(key, refs[i])
	}
	return string(key)
}

func (b *builder) table(starts, refs []uint32, count int) (uint32, error) {
	at, err := b.image.take(count, 1)
	if err != nil {
		return 0, err
	}
	for i, from := 0, 0; i < count; i++ {
		for from+1 < len(starts) && int(starts[from+1]) <= i {
			from++
		}
		b.image.words[at+i] = refs[from]
	}
	return refTable | uint32(at), nil
}

// runs writes up to eight runs into one node, more of them into nodes below it.
func (b *builder) runs(d dimension, starts, refs []uint32) (uint32, error) {
	if len(refs) > runStarts+1 {
		var upperStarts, upperRefs []uint32
		for part := range slices.Chunk(indices(len(refs)), runStarts+1) {
			from, to := part[0], part[len(part)-1]+1
			ref := refs[from]
			if to-from > 1 {
				below, err := b.runs(d, starts[from:to], refs[from:to])
				if err != nil {
					return 0, err
				}
				ref = below | uint32(d)<<28
			}
			upperStarts, upperRefs = append(upperStarts, starts[from]), append(upperRefs, ref)
		}
		return b.runs(d, upperStarts, upperRefs)
	}
	words := startWords + len(refs)
	unit := lineWords
	if words <= lineWords/2 {
		unit = lineWords / 2 // so that no node lies across two lines
	}
	at, err := b.image.take(words, unit)
	if err != nil {
		return 0, err
	}
	s := [8]uint32{noClass, noClass, noClass, noClass, noClass, noClass, noClass, noClass}
	copy(s[:], starts[1:])
	for i := range startWords {
		b.image.words[at+i] = pair16(s[2*i], s[2*i+1])
	}
	copy(b.image.words[at+startWords:], refs)
	return refRuns | uint32(at), nil
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
