// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"minne/internal/subsystem/fastpath/tableimage"
)

// Options say how patterns are compiled. Zero values mean the default ones.
type Options struct {
	// Hybrid builds a hybrid FA, which pays where .* and long counts make a DFA explode.
	Hybrid bool
	// States bounds a deterministic automaton; patterns that need more are spread over several, which are
	// all run. 50,000 by default.
	States int
	// Memory bounds the table of one deterministic automaton while it is built, in bytes. 256 MiB by default.
	Memory int
	// Groups bounds the automata that all are run for each byte. 64 by default, and at most.
	Groups int
	// Defaults bounds the default transitions that are followed for a byte, at most 8; 4 by default, 1 in automata
	// of byte strings only, which it makes faster for little memory. Below 0: none.
	Defaults int
	// Rows are the states, nearest to the start first, that keep all transitions; 64 of each automaton by default, 300
	// of byte strings. Below 0: none.
	Rows int

	literalDefaults, literalRows int // Defaults and Rows of automata of byte strings
	tailStates                   int // bounds a tail's DFA; tests ask for NFAs by it
}

// The lookup's own bounds: D2FA_ of bpf/algo/d2fa.h.
const (
	maxGroups   = 64
	maxDefaults = 8
)

func (o Options) withDefaults() (Options, error) {
	set := func(v *int, otherwise int) {
		if *v == 0 {
			*v = otherwise
		}
		*v = max(*v, 0)
	}
	set(&o.States, 50_000)
	set(&o.Memory, 256<<20)
	set(&o.Groups, maxGroups)
	o.literalDefaults, o.literalRows = o.Defaults, o.Rows
	set(&o.literalDefaults, 1)
	set(&o.literalRows, 300)
	set(&o.Defaults, 4)
	set(&o.Rows, 64)
	set(&o.tailStates, tailStates)
	if o.Groups > maxGroups || o.Defaults > maxDefaults {
		return o, fmt.Errorf("%d automata with %d defaults in a row: at most %d and %d", o.Groups, o.Defaults, maxGroups, maxDefaults)
	}
	return o, nil
}

// Stats tell how large an automaton is.
type Stats struct {
	Patterns int `json:"patterns"`
	Groups   int `json:"groups"` // deterministic automata that all run
	States   int `json:"states"` // of them together
	// Transitions that the DFAs have and those that are stored, defaults included: over bytes, as the papers
	// count, and over classes of bytes that no pattern tells apart, which is what images hold.
	DFATransitions      int `json:"dfa_transitions"`
	Transitions         int `json:"transitions"`
	DFAClassTransitions int `json:"dfa_class_transitions"`
	ClassTransitions    int `json:"class_transitions"`

	LongestDefault int `json:"longest_default"` // most defaults in a row
	LongestReport  int `json:"longest_report"`  // most patterns that one state finds
	Tails          int `json:"tails"`           // of a hybrid FA
	TailStates     int `json:"tail_states"`     // of all tails together
	ImageBytes     int `json:"image_bytes"`
}

// Automaton is a set of patterns, compiled.
type Automaton struct {
	image *tableimage.Image
	stats Stats
}

// Compile builds an automaton. A pattern that does not fit into the bounds is an error that names it.
func Compile(patterns []Pattern, options Options) (*Automaton, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(patterns) == 0 {
		return nil, errors.New("no patterns: expected at least one")
	}
	b := &builder{Options: o, patterns: patterns, stats: Stats{Patterns: len(patterns)}}
	if o.Hybrid {
		ids := make([]int32, len(patterns))
		for i := range ids {
			ids[i] = int32(i)
		}
		heads, err := b.heads(ids)
		if err != nil {
			return nil, err
		}
		return b.writeHybrid(heads)
	}
	groups, err := b.deterministic(patterns)
	if err != nil {
		return nil, err
	}
	return b.writeD2FA(groups)
}

// builder compiles one set of patterns.
type builder struct {
	Options
	patterns []Pattern
	stats    Stats
}

// ErrTooLarge names the patterns that don't even fit into a deterministic automaton of their own.
type ErrTooLarge struct {
	Patterns []int
	first    string
	why      error
}

func (e *ErrTooLarge) Error() string {
	text := fmt.Sprintf("pattern %d, %s", e.Patterns[0], e.first)
	if more := len(e.Patterns) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text + ": " + e.why.Error()
}

func (e *ErrTooLarge) Unwrap() error { return e.why }

// deterministic builds DFAs for all patterns. Byte strings are put together, since their automaton can't explode,
// and so are patterns whose repeats are small: what these are in the middle of adds up. Together with the others, whose
// states multiply, theirs would multiply too.
func (b *builder) deterministic(patterns []Pattern) ([]*compressed, error) {
	var literals, calm, wild []int32
	for i, p := range patterns {
		switch {
		case p.Literal != nil:
			literals = append(literals, int32(i))
		case levels[2].wild(p.root, true):
			wild = append(wild, int32(i))
		default:
			calm = append(calm, int32(i))
		}
	}
	groups, err := b.literals(literals)
	if err != nil {
		return nil, err
	}
	alone, err := b.alone(slices.Concat(calm, wild))
	if err != nil {
		return nil, err
	}
	var kinds [2][]*compressed
	each(2, func(i int) {
		ids := [][]int32{calm, wild}[i]
		kinds[i] = b.packed(ids, alone)
	})
	return append(groups, slices.Concat(kinds[0], kinds[1])...), nil
}

// literals builds one DFA of byte strings, or, where it is too large, one of each half.
func (b *builder) literals(ids []int32) ([]*compressed, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	d, err := literalDFA(b.patterns, ids, bounds{b.States, b.Memory})
	switch {
	case err == nil:
		return []*compressed{d.compress(b.literalDefaults, b.literalRows)}, nil
	case len(ids) == 1:
		return nil, &ErrTooLarge{[]int{int(ids[0])}, b.patterns[ids[0]].Text, err}
	}
	first, err := b.literals(ids[:len(ids)/2])
	if err != nil {
		return nil, err
	}
	second, err := b.literals(ids[len(ids)/2:])
	return append(first, second...), err
}

// alone builds the smallest DFA of each pattern.
func (b *builder) alone(ids []int32) (map[int32]*dfa, error) {
	made, errs := make([]*dfa, len(ids)), make([]error, len(ids))
	each(len(ids), func(i int) {
		n, err := b.nfa(ids[i:i+1], noBorders)
		if err == nil {
			made[i], err = determinize(n, bounds{b.States, b.Memory})
		}
		if err == nil {
			made[i] = made[i].minimised()
		}
		errs[i] = err
	})
	all := map[int32]*dfa{}
	var large *ErrTooLarge
	for i, id := range ids {
		var explodes *ErrExplodes
		switch err := errs[i]; {
		case err == nil:
			all[id] = made[i]
		case !errors.As(err, &explodes):
			return nil, err
		case large == nil:
			large = &ErrTooLarge{[]int{int(id)}, b.patterns[id].Text, err}
		default:
			large.Patterns = append(large.Patterns, int(id))
		}
	}
	if large != nil {
		slices.Sort(large.Patterns)
		return nil, large
	}
	return all, nil
}

// packed puts patterns together in as few DFAs as it finds. Those whose text begins alike share states: in the order of their text one after
// the other is added to a DFA until that explodes, which begins the next.
func (b *builder) packed(ids []int32, alone map[int32]*dfa) []*compressed {
	slices.SortStableFunc(ids, func(x, y int32) int { return strings.Compare(b.patterns[x].Text, b.patterns[y].Text) })
	m := &multiplier{limit: bounds{b.States, b.Memory}}
	groups := make([]*compressed, len(ids)) // more than there will be
	var compressing sync.WaitGroup
	full := 0
	finish := func(d *dfa) {
		at := full
		full++
		compressing.Go(func() { groups[at] = d.compress(b.Defaults, b.Rows) })
	}
	var open *dfa
	for _, id := range ids {
		if open == nil {
			open = alone[id]
			continue
		}
		p, err := m.product(open, alone[id])
		if err != nil {
			finish(open)
			p = alone[id]
		}
		open = p
	}
	if open != nil {
		finish(open)
	}
	compressing.Wait()
	return groups[:full]
}

// each calls f with 0…n−1, on all CPUs.
func each(n int, f func(int)) {
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wait.Wait()
}

// nfa compiles patterns to one NFA.
func (b *builder) nfa(ids []int32, limits thresholds) (*nfa, error) {
	roots := make([]node, len(ids))
	for i, id := range ids {
		roots[i] = b.patterns[id].root
	}
	n := compileNFA(roots, ids, limits)
	if wrong := n.behindAfterAhead(); wrong >= 0 {
		return nil, fmt.Errorf(`pattern %d, %s: ^, \b or \B right behind $, \b or \B: not in the subset that is compiled`, wrong, b.patterns[wrong].Text)
	}
	return n, nil
}

func (b *builder) writeD2FA(groups []*compressed) (*Automaton, error) {
	m := tableimage.New(tableimage.D2FA)
	table, err := b.header(m, len(groups))
	if err != nil {
		return nil, err
	}
	for i, g := range groups {
		b.count(g)
		if err := g.write(m, table+groupWords*i, func(id int32) uint32 { return uint32(id) }); err != nil {
			return nil, err
		}
	}
	return b.seal(m)
}

// header fills in what both kinds share and returns where the table of groups is.
func (b *builder) header(m *tableimage.Image, groups int) (int, error) {
	if groups > b.Groups {
		return 0, fmt.Errorf("%d patterns need %d automata of %d states, at most %d are run: expected fewer patterns with .* or counts, more states, or a hybrid FA",
			len(b.patterns), groups, b.States, b.Groups)
	}
	table := m.Place(groupWords*groups, 1)
	m.Words[headPatterns], m.Words[headGroups], m.Words[headTable] = uint32(len(b.patterns)), uint32(groups), uint32(table)
	b.stats.Groups = groups
	return table, nil
}

// count adds an automaton to the figures.
func (b *builder) count(g *compressed) {
	b.stats.States += g.states()
	b.stats.DFATransitions += g.states() * 256
	b.stats.DFAClassTransitions += g.states() * g.classes
	classes, bytes := g.transitions()
	b.stats.ClassTransitions += classes
	b.stats.Transitions += bytes
	b.stats.LongestDefault = max(b.stats.LongestDefault, g.longest())
}

func (b *builder) seal(m *tableimage.Image) (*Automaton, error) {
	m.Words[headDefaults] = uint32(b.stats.LongestDefault)
	b.stats.LongestReport = int(m.Words[headReports])
	if err := m.Seal(); err != nil {
		return nil, err
	}
	b.stats.ImageBytes = 4 * len(m.Words)
	return &Automaton{m, b.stats}, nil
}

// Image is the table that lookups read; it must not be changed.
func (a *Automaton) Image() *tableimage.Image { return a.image }

// Stats tell how large it is.
func (a *Automaton) Stats() Stats { return a.stats }
