// SPDX-License-Identifier: Apache-2.0

package config

// nearest returns the word that was probably meant by a mistyped one: the
// closest by edit distance if it is close enough to be no accident, else "".
// Words are tried in their order, so that equal distances give the same answer.
func nearest(typed string, words []string) string {
	best, limit := "", max(2, len(typed)/3)
	if len(typed) < 3 {
		limit = 1
	}
	for _, w := range words {
		if w == typed {
			continue
		}
		if d := editDistance(typed, w); d <= limit && d < max(len(w), 2) {
			best, limit = w, d-1
		}
	}
	return best
}

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours (optimal string alignment) from a to b, in characters.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	if len(s) > 64 || len(t) > 64 {
		return 64
	}
	before, last := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row := make([]int, len(t)+1)
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(t)]
}

// Nearest returns the word that was probably meant by a mistyped one, or "": the
// suggestions of the config file for other grammars that people type.
func Nearest(typed string, words []string) string { return nearest(typed, words) }
