// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

const (
	diffContext = 3     // unchanged lines around a change
	maxEdits    = 1_000 // beyond so many edits the differing middle is shown as replaced
)

// Diff returns the unified difference of two texts with three lines of context,
// as diff -u writes it, or "" when they are equal. It finds the fewest changed
// lines (E. Myers, An O(ND) Difference Algorithm and Its Variations, 1986).
func Diff(old, new []byte, oldName, newName string) string {
	if bytes.Equal(old, new) {
		return ""
	}
	edits := lineEdits(splitLines(old), splitLines(new))
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %s\n", oldName, newName)
	for _, h := range hunks(edits) {
		h.write(&b)
	}
	return b.String()
}

// splitLines returns the lines with their line ends; the last may have none.
func splitLines(text []byte) []string {
	lines := strings.SplitAfter(string(text), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// edit is one line of a difference: ' ' in both, '-' only in the old text, '+' only in the new.
type edit struct {
	sign byte
	line string
}

// lineEdits returns all lines of both texts as edits.
func lineEdits(a, b []string) []edit {
	var head, tail []edit
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, edit{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, edit{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	edits := append(head, middleEdits(a, b)...)
	for i := len(tail) - 1; i >= 0; i-- {
		edits = append(edits, tail[i])
	}
	return edits
}

// middleEdits compares texts that differ in their first and last lines. reach[k]
// is how far diagonal k (lines of a minus lines of b) is reached with d edits;
// the reaches of every d are kept to walk back along the shortest way.
func middleEdits(a, b []string) []edit {
	n, m := len(a), len(b)
	limit := min(n+m, maxEdits)
	reach := make([]int, 2*limit+3)
	at := func(k int) *int { return &reach[k+limit+1] }
	var steps [][]int
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			x := *at(k - 1) + 1
			if k == -d || k != d && *at(k - 1) < *at(k + 1) {
				x = *at(k + 1)
			}
			for x < n && x-k < m && x-k >= 0 && a[x] == b[x-k] {
				x++
			}
			*at(k) = x
			if x >= n && x-k >= m {
				return walkBack(a, b, append(steps, nil))
			}
		}
		steps = append(steps, append([]int(nil), reach[limit+1-d:limit+2+d]...))
	}
	return replaced(a, b)
}

// walkBack follows the kept reaches from the ends of both texts to their beginnings.
func walkBack(a, b []string, steps [][]int) []edit {
	var back []edit
	x, y := len(a), len(b)
	for d := len(steps) - 1; d > 0; d-- {
		before := func(k int) int { // the reach with d-1 edits
			if i := k + d - 1; i >= 0 && i < len(steps[d-1]) {
				return steps[d-1][i]
			}
			return -1
		}
		k := x - y
		from := k - 1
		if k == -d || k != d && before(k-1) < before(k+1) {
			from = k + 1
		}
		start := before(from) // where the run of equal lines after this edit begins
		if from == k-1 {
			start++
		}
		for x > start {
			x, y = x-1, y-1
			back = append(back, edit{' ', a[x]})
		}
		if from == k+1 {
			y--
			back = append(back, edit{'+', b[y]})
		} else {
			x--
			back = append(back, edit{'-', a[x]})
		}
	}
	for x > 0 {
		x--
		back = append(back, edit{' ', a[x]})
	}
	slices.Reverse(back)
	return back
}

// replaced shows all of a as gone and all of b as new.
func replaced(a, b []string) []edit {
	var edits []edit
	for _, line := range a {
		edits = append(edits, edit{'-', line})
	}
	for _, line := range b {
		edits = append(edits, edit{'+', line})
	}
	return edits
}

// hunk is a run of changes with context; old and new are the numbers of its first lines.
type hunk struct {
	old, new int
	edits    []edit
}

// hunks cuts the edits where more than twice the context is unchanged.
func hunks(edits []edit) []hunk {
	var list []hunk
	old, new, last := 1, 1, -1 // last: index after the last change
	for i, e := range edits {
		if e.sign != ' ' {
			if last < 0 || i-last > 2*diffContext {
				start := max(0, i-diffContext)
				if n := len(list); n > 0 {
					list[n-1].edits = append(list[n-1].edits, edits[last:min(last+diffContext, len(edits))]...)
				}
				list = append(list, hunk{old - (i - start), new - (i - start), edits[start:i:i]})
			} else {
				n := len(list) - 1
				list[n].edits = append(list[n].edits, edits[last:i]...)
			}
			n := len(list) - 1
			list[n].edits = append(list[n].edits, e)
			last = i + 1
		}
		if e.sign != '+' {
			old++
		}
		if e.sign != '-' {
			new++
		}
	}
	if n := len(list); n > 0 {
		list[n-1].edits = append(list[n-1].edits, edits[last:min(last+diffContext, len(edits))]...)
	}
	return list
}

func (h hunk) write(b *strings.Builder) {
	olds, news := 0, 0
	for _, e := range h.edits {
		if e.sign != '+' {
			olds++
		}
		if e.sign != '-' {
			news++
		}
	}
	fmt.Fprintf(b, "@@ -%s +%s @@\n", lineRange(h.old, olds), lineRange(h.new, news))
	for _, e := range h.edits {
		b.WriteByte(e.sign)
		b.WriteString(e.line)
		if !strings.HasSuffix(e.line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// lineRange writes first,count; an empty range names the line before it.
func lineRange(first, count int) string {
	switch count {
	case 0:
		return fmt.Sprintf("%d,0", first-1)
	case 1:
		return fmt.Sprintf("%d", first)
	}
	return fmt.Sprintf("%d,%d", first, count)
}
