// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"minne/internal/subsystem/nft"
)

// What the kernel is asked about the table, and how its answers are read.

// loaded returns the fingerprint of the table that is loaded, "" when there is none.
func loaded() (string, error) {
	comment, there, err := nft.Comment(tableName)
	if fingerprint, ours := strings.CutPrefix(comment, commentHead); ours || !there {
		return fingerprint, err
	}
	return "unknown", err
}

// counterKind is what a counter counts.
type counterKind int

const (
	ruleCounter counterKind = iota
	natCounter
	limitCounter
	defaultCounter
)

// counted is a counter of the table, all lines of its rule added.
type counted struct {
	kind    counterKind
	id      int    // of rules and translations
	words   string // of rules and translations their text; of defaults their pair, "" for the shared ones
	packets uint64
	bytes   uint64
}

// readCounters reads all counters of the loaded table, rules first, by their numbers.
func readCounters() ([]counted, error) {
	sums, err := nft.Counters(tableName)
	if err != nil {
		return nil, err
	}
	list := make([]counted, 0, len(sums))
	for comment, sum := range sums {
		if comment != "" {
			c := parseComment(comment)
			c.packets, c.bytes = sum.Packets, sum.Bytes
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b counted) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id), cmp.Compare(a.words, b.words))
	})
	return list, nil
}

func parseComment(text string) counted {
	if words, ok := strings.CutPrefix(text, "default"); ok {
		return counted{kind: defaultCounter, words: strings.TrimPrefix(words, " ")}
	}
	c := counted{}
	if rest, ok := strings.CutPrefix(text, "nat"); ok {
		c.kind, text = natCounter, rest
	}
	if rest, ok := strings.CutPrefix(text, "limit"); ok {
		c.kind, text = limitCounter, rest
	}
	c.id, c.words = cutComment(text)
	return c
}

// cutComment divides "#7 words".
func cutComment(text string) (id int, words string) {
	number, words, _ := strings.Cut(strings.TrimPrefix(text, "#"), " ")
	id, _ = strconv.Atoi(number)
	return id, words
}
