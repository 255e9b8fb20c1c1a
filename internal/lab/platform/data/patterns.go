// SPDX-License-Identifier: Apache-2.0

package data

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"minne/internal/subsystem/fastpath/automaton"
)

// PatternShape says what generated regular expressions are like.
type PatternShape struct {
	Wild   float64 // share of patterns with a .* in their middle, 0…1
	Ranges float64 // share of patterns with classes such as [a-z0-9] and counted repeats of them, 0…1
}

// vocabulary is what patterns and payload are made of, as rules of intrusion detection and HTTP have it.
var vocabulary = strings.Fields(`GET POST HEAD HTTP Host User-Agent Content-Type Content-Length Accept Referer Cookie Set-Cookie
	Mozilla Windows Linux Safari gzip deflate keep-alive text html image php asp index login admin upload download config passwd shadow
	select union insert update delete where from table exec cmd powershell script eval base64 decode iframe onload alert document window
	session token user pass mail smtp ftp ssh torrent announce peer info_hash payload shell root bin bash wget curl chmod tmp
	update.exe setup.exe invoice report account verify secure bank wallet bitcoin miner pool stratum`)

// Literals makes n different byte strings, three in four of them text, the others bytes of any value, 3 to 40 bytes long; many
// begin alike.
func Literals(n int, seed uint64) ([]automaton.Pattern, error) {
	rng := rand.New(rand.NewPCG(seed, 5))
	seen := map[string]bool{}
	var all []automaton.Pattern
	for len(all) < n {
		text := phrase(rng)
		if rng.IntN(4) == 0 {
			b := make([]byte, 3+rng.IntN(22))
			for i := range b {
				b[i] = byte(rng.Uint32() >> (rng.IntN(2) * 5 % 8)) // small values are commoner, as in real ones
			}
			text = string(b)
		}
		if seen[text] {
			continue
		}
		seen[text] = true
		p, err := automaton.Literal([]byte(text))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// phrase is some words as rules join them.
func phrase(rng *rand.Rand) string {
	text := vocabulary[rng.IntN(len(vocabulary))]
	for range 1 + rng.IntN(3) {
		text += string(" /=:._-?&"[rng.IntN(9)]) + vocabulary[rng.IntN(len(vocabulary))]
	}
	if rng.IntN(2) == 0 {
		text += fmt.Sprint(rng.IntN(10_000))
	}
	return text[:min(len(text), 40)]
}

// Regexes makes n regular expressions.
func Regexes(n int, shape PatternShape, seed uint64) ([]automaton.Pattern, error) {
	rng := rand.New(rand.NewPCG(seed, 6))
	classes := []string{`[a-z0-9]{4,8}`, `[0-9a-f]{8}`, `\d{1,5}`, `[^&]{1,6}`, `[A-Z]`, `\s`, `[\x80-\xff]{2}`}
	seen := map[string]bool{}
	var all []automaton.Pattern
	for len(all) < n {
		parts := []string{quoted(phrase(rng))}
		if rng.Float64() < shape.Ranges {
			parts = append(parts, classes[rng.IntN(len(classes))], quoted(vocabulary[rng.IntN(len(vocabulary))]))
		}
		if rng.Float64() < shape.Wild {
			parts = append(parts, `.*`, quoted(vocabulary[rng.IntN(len(vocabulary))]))
		}
		text := "/" + strings.Join(parts, "") + "/" + []string{"", "i", "s"}[rng.IntN(3)]
		if seen[text] {
			continue
		}
		seen[text] = true
		p, err := automaton.ParsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("pattern %d, %s: %w", len(all), text, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// quoted writes text so that a regular expression means just that.
func quoted(text string) string {
	return strings.NewReplacer(`/`, `\/`, `.`, `\.`, `?`, `\?`, `-`, `\-`, `+`, `\+`).Replace(text)
}

// recordBytes are those of a record of generated payload: what a packet carries.
const recordBytes = 1400

// Payload makes records, about so many bytes in all, like requests with text and coded bytes. In the given share of them, 0…1, a
// whole literal of the patterns stands somewhere; the beginnings of others stand in all. A regular expression
// among the patterns is met only by chance.
func Payload(size int, patterns []automaton.Pattern, matching float64, seed uint64) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 7))
	var literals [][]byte
	for _, p := range patterns {
		if p.Literal != nil {
			literals = append(literals, p.Literal)
		}
	}
	var records [][]byte
	for size > 0 {
		r := record(rng, min(size, recordBytes), literals)
		if len(literals) > 0 && rng.Float64() < matching {
			if l := literals[rng.IntN(len(literals))]; len(l) <= len(r) {
				copy(r[rng.IntN(len(r)-len(l)+1):], l)
			}
		}
		records = append(records, r)
		size -= len(r)
	}
	return records
}

func record(rng *rand.Rand, size int, literals [][]byte) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		switch rng.IntN(8) {
		case 0: // coded, like an image or what is encrypted
			for range 100 {
				b.WriteByte(byte(rng.Uint32()))
			}
		case 1:
			if len(literals) > 0 {
				l := literals[rng.IntN(len(literals))]
				b.Write(l[:len(l)/2])
			}
		default:
			fmt.Fprintf(&b, "%s: %x\r\n", vocabulary[rng.IntN(len(vocabulary))], rng.Uint64()>>rng.IntN(48))
		}
	}
	return b.Bytes()[:size]
}
