// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"minne/internal/lab/algo/dataset"
	"minne/internal/subsystem/fastpath/automaton"
)

// patternWorkloads are the automata for patterns: byte strings in a D²FA; regular expressions in a D²FA and in a hybrid FA.
func (b *builder) patternWorkloads(patterns []automaton.Pattern, payload [][]byte) error {
	var literals, regexes []automaton.Pattern
	for _, p := range patterns {
		if p.Literal != nil {
			literals = append(literals, p)
		} else {
			regexes = append(regexes, p)
		}
	}
	if !b.wanted(D2FA, HybridFA) {
		return nil
	}
	content, err := dataset.Payload(payload)
	if err != nil {
		return err
	}
	file, err := store(b.dir, "payload", content)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		algorithm, native, what string
		patterns                []automaton.Pattern
	}{
		{D2FA, "d2fa", "byte string", literals},
		{D2FA, "d2fa", "regular expression", regexes},
		{HybridFA, "hybrid", "regular expression", regexes},
	} {
		if len(c.patterns) == 0 || !b.wanted(c.algorithm) {
			continue
		}
		holds := counted(len(c.patterns), c.what)
		if b.limit.late(tablesShare, 0) {
			b.missing(c.algorithm, holds, errLate)
			continue
		}
		b.step("compile %s into a %s", holds, c.algorithm)
		begin := time.Now()
		options := automaton.Options{Hybrid: c.algorithm == HybridFA}
		a, err := automaton.Compile(c.patterns, options)
		var large *automaton.ErrTooLarge
		if errors.As(err, &large) && len(large.Patterns) < len(c.patterns) {
			b.note("%s: left out %s: %v", c.algorithm, counted(len(large.Patterns), c.what), err)
			c.patterns = without(c.patterns, large.Patterns)
			holds = counted(len(c.patterns), c.what)
			begin = time.Now()
			a, err = automaton.Compile(c.patterns, options)
		}
		if err != nil {
			b.missing(c.algorithm, holds, err)
			continue
		}
		m, s := a.Image(), a.Stats()
		w := &workload{algorithm: c.algorithm, native: c.native, holds: holds, build: time.Since(begin), used: 4 * m.Used(), memory: s.ImageBytes}
		w.detail = fmt.Sprintf("%d automata, %s states, %.1f %% fewer transitions than their DFAs", s.Groups, grouped(s.States),
			100*(1-float64(s.Transitions)/float64(s.DFATransitions)))
		if s.Tails > 0 {
			w.detail += fmt.Sprintf(", %d tails", s.Tails)
		}
		b.step("search the payload for %s in Go", holds)
		var sum dataset.Checksum
		found := make([][]int, len(payload))
		for i, record := range payload {
			found[i] = a.Match(record)
			sum.AddRecord(found[i])
		}
		b.patternsForPeers(c.patterns, found, holds, file)
		sets := []*set{{name: "payload", file: file, checksum: sum.String()}}
		w.inKernel = func(k *kernelSide) (contender, error) { return k.patterns(m, payload) }
		if err := b.add(w, m.Bytes(binary.NativeEndian), sets); err != nil {
			return err
		}
	}
	return nil
}

// without leaves out the patterns with these numbers.
func without(patterns []automaton.Pattern, numbers []int) []automaton.Pattern {
	var kept []automaton.Pattern
	for i, p := range patterns {
		if !slices.Contains(numbers, i) {
			kept = append(kept, p)
		}
	}
	return kept
}
