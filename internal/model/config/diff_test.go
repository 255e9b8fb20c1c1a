// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func TestDiffShowsContext(t *testing.T) {
	old := "a\nb\nc\nd\ne\nf\ng\nh\n"
	want := "--- old\n+++ new\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n"
	if got := Diff([]byte(old), []byte(strings.Replace(old, "e", "E", 1)), "old", "new"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestDiffOfEqualTextsIsEmpty(t *testing.T) {
	if got := Diff([]byte("a\n"), []byte("a\n"), "old", "new"); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestDiffTellsOfAMissingLineEnd(t *testing.T) {
	want := "--- old\n+++ new\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"
	if got := Diff([]byte("a"), []byte("a\n"), "old", "new"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Random texts: the difference, applied, gives the new text, and no shorter one exists.
func TestDiffAppliesAndIsShortest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		old := randomLines(random, random.IntN(40), 6)
		fresh := mutateLines(random, old)
		text := Diff([]byte(old), []byte(fresh), "old", "new")
		got, changes := applyDiff(t, old, text)
		if got != fresh {
			t.Fatalf("from %q came %q, want %q by\n%s", old, got, fresh, text)
		}
		if want := fewestChanges(splitLines([]byte(old)), splitLines([]byte(fresh))); changes != want {
			t.Fatalf("%d changed lines, %d are enough:\n%s", changes, want, text)
		}
	}
}

// applyDiff applies a unified difference and counts its changed lines.
func applyDiff(t *testing.T, old, text string) (fresh string, changes int) {
	lines, at := splitLines([]byte(old)), 0
	var b strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		case strings.HasPrefix(line, "@@ "):
			first, count, _ := strings.Cut(strings.TrimPrefix(strings.Fields(line)[1], "-"), ",")
			n, err := strconv.Atoi(first)
			if err != nil {
				t.Fatal(err)
			}
			if count != "0" {
				n--
			}
			b.WriteString(strings.Join(lines[at:n], ""))
			at = n
		case line[0] == '+':
			b.WriteString(line[1:])
			changes++
		default:
			if lines[at] != line[1:] {
				t.Fatalf("line %d is %q, the difference says %q", at+1, lines[at], line[1:])
			}
			if at++; line[0] == '-' {
				changes++
			} else {
				b.WriteString(line[1:])
			}
		}
	}
	b.WriteString(strings.Join(lines[at:], ""))
	return b.String(), changes
}

// fewestChanges counts by the table of longest common subsequences.
func fewestChanges(a, b []string) int {
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := range a {
		for j := range b {
			if common[i+1][j+1] = max(common[i][j+1], common[i+1][j]); a[i] == b[j] {
				common[i+1][j+1] = common[i][j] + 1
			}
		}
	}
	return len(a) + len(b) - 2*common[len(a)][len(b)]
}

func TestDiffOfVeryDifferentTexts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	old, fresh := randomLines(random, 3000, 1<<30), randomLines(random, 3000, 1<<30)
	text := Diff([]byte(old), []byte(fresh), "old", "new")
	if n := strings.Count(text, "\n"); n != 6003 {
		t.Errorf("%d lines, want 6003", n)
	}
}

func randomLines(random *rand.Rand, n, words int) string {
	var b strings.Builder
	for range n {
		b.WriteString(strconv.Itoa(random.IntN(words)) + "\n")
	}
	return b.String()
}

func mutateLines(random *rand.Rand, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		switch random.IntN(8) {
		case 0:
		case 1:
			b.WriteString("new\n" + line)
		case 2:
			b.WriteString("other\n")
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}
