// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"minne/internal/nft"
)

// What nft(8) is asked and how its answers are read.

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

// listing is the part of nft's JSON that counters are read from.
type listing struct {
	Nftables []struct {
		Rule *struct {
			Comment string `json:"comment"`
			Expr    []struct {
				Counter *struct {
					Packets uint64 `json:"packets"`
					Bytes   uint64 `json:"bytes"`
				} `json:"counter"`
			} `json:"expr"`
		} `json:"rule"`
	} `json:"nftables"`
}

// readCounters reads all counters of the loaded table, rules first, by their numbers.
func readCounters(ctx context.Context) ([]counted, error) {
	out, err := nft.Run(ctx, "", "-j", "-t", "list", "table", "inet", tableName)
	if err != nil {
		return nil, err
	}
	var all listing
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return nil, fmt.Errorf("nft's list of the table: %w", err)
	}
	sums := map[string]*counted{}
	for _, o := range all.Nftables {
		if o.Rule == nil || o.Rule.Comment == "" {
			continue
		}
		sum := sums[o.Rule.Comment]
		if sum == nil {
			c := parseComment(o.Rule.Comment)
			sum = &c
			sums[o.Rule.Comment] = sum
		}
		for _, e := range o.Rule.Expr {
			if e.Counter != nil {
				sum.packets += e.Counter.Packets
				sum.bytes += e.Counter.Bytes
			}
		}
	}
	list := make([]counted, 0, len(sums))
	for _, c := range sums {
		list = append(list, *c)
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
