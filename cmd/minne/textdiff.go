// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// diffContext is how many equal lines are shown around those that differ.
const diffContext = 3

// diffLine is a line of one text or of both.
type diffLine struct {
	sign byte // ' ' both, '-' only in the old, '+' only in the new text
	text string
}

// textDiff returns the difference of two texts in the unified form of diff -u;
// nothing when they are equal.
func textDiff(oldName, newName, oldText, newText string) string {
	if oldText == newText {
		return ""
	}
	lines := diffLines(splitLines(oldText), splitLines(newText))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", oldName, newName)
	for start := 0; start < len(lines); {
		first := nextChange(lines, start)
		if first < 0 {
			break
		}
		end := hunkEnd(lines, first)
		writeHunk(&out, lines, max(start, first-diffContext), end)
		start = end
	}
	return out.String()
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// diffLines aligns two texts on a longest common subsequence of their lines,
// after setting aside what they share at both ends. Configurations are small
// enough for the table of lengths.
func diffLines(a, b []string) []diffLine {
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var lines []diffLine
	for _, l := range a[:head] {
		lines = append(lines, diffLine{' ', l})
	}
	lines = append(lines, alignMiddle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, l := range a[len(a)-tail:] {
		lines = append(lines, diffLine{' ', l})
	}
	return lines
}

// maxTable bounds the table of lengths, in cells: beyond it, the middle is told
// as wholly replaced.
const maxTable = 16 << 20

func alignMiddle(a, b []string) []diffLine {
	if len(a)*len(b) > maxTable {
		return append(marked('-', a), marked('+', b)...)
	}
	// common[i][j]: length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i, x := range slices.Backward(a) {
		for j, y := range slices.Backward(b) {
			if x == y {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []diffLine
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			lines = append(lines, diffLine{' ', a[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			lines = append(lines, diffLine{'-', a[i]})
			i++
		default:
			lines = append(lines, diffLine{'+', b[j]})
			j++
		}
	}
	return append(append(lines, marked('-', a[i:])...), marked('+', b[j:])...)
}

func marked(sign byte, texts []string) []diffLine {
	lines := make([]diffLine, 0, len(texts))
	for _, t := range texts {
		lines = append(lines, diffLine{sign, t})
	}
	return lines
}

func nextChange(lines []diffLine, from int) int {
	for i := from; i < len(lines); i++ {
		if lines[i].sign != ' ' {
			return i
		}
	}
	return -1
}

// hunkEnd returns where the hunk of the change at first ends: changes whose
// context would touch belong together.
func hunkEnd(lines []diffLine, first int) int {
	last := first
	for {
		next := nextChange(lines, last+1)
		if next < 0 || next-last > 2*diffContext {
			return min(len(lines), last+1+diffContext)
		}
		last = next
	}
}

func writeHunk(out *strings.Builder, lines []diffLine, start, end int) {
	oldStart, newStart := 1, 1
	for _, l := range lines[:start] {
		if l.sign != '+' {
			oldStart++
		}
		if l.sign != '-' {
			newStart++
		}
	}
	oldCount, newCount := 0, 0
	for _, l := range lines[start:end] {
		if l.sign != '+' {
			oldCount++
		}
		if l.sign != '-' {
			newCount++
		}
	}
	// By the format, an empty range stands before its line.
	if oldCount == 0 {
		oldStart--
	}
	if newCount == 0 {
		newStart--
	}
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", oldStart, oldCount, newStart, newCount)
	for _, l := range lines[start:end] {
		fmt.Fprintf(out, "%c%s\n", l.sign, l.text)
	}
}
