// SPDX-License-Identifier: Apache-2.0

package label

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/automaton"
)

// Bounds of bpf/label.h.
const (
	maxSets  = 63      // labels of six bits; 0 is none
	Groups   = 4       // D2FA_GROUPS
	Defaults = 4       // D2FA_DEFAULTS
	maxImage = 1 << 25 // bytes
)

// leastRate is the slowest that the program can count in ns a byte, bit/s.
const leastRate = 1000

// maxPatterns bounds the patterns of all sets.
const maxPatterns = 10_000

// compiling bounds the automata that a configuration may ask for.
var compiling = automaton.Options{Groups: Groups, Defaults: Defaults, States: 30_000, Memory: 64 << 20}

// Sets is the patterns of a configuration, compiled.
type Sets struct {
	Packets  int       `json:"packets"` // that are looked at, of each direction
	Bytes    int       `json:"bytes"`   // of each
	Flows    int       `json:"flows"`   // directions that are remembered
	Sets     []Set     `json:"sets"`    // in the order of their labels: the first has 1
	Patterns []Pattern `json:"patterns"`
	States   int       `json:"states"` // of the automata

	Files map[string]string `json:"-"` // the text of those that were read, by path

	words []uint32
	sum   [sha256.Size]byte // of all that a program is made of: not limits
}

// Set is one of the sets, and its limit.
type Set struct {
	Name             string `json:"name"`
	Rate             uint64 `json:"rate,omitempty"` // bit/s; 0 is no limit
	PacketsPerSecond int    `json:"packets_per_second,omitempty"`
	Drop             bool   `json:"drop,omitempty"`
}

// Pattern is one pattern of a set.
type Pattern struct {
	Text  string `json:"text"`
	Label int    `json:"label"`
}

// Limits says what becomes of flows of the set, in a few words; "" when they are only labelled.
func (s Set) Limits() string {
	if s.Drop {
		return "dropped"
	}
	var parts []string
	if s.Rate > 0 {
		parts = append(parts, config.Rate(s.Rate).String()+"/s")
	}
	if s.PacketsPerSecond > 0 {
		parts = append(parts, fmt.Sprintf("%d packets/s", s.PacketsPerSecond))
	}
	if parts == nil {
		return ""
	}
	return "at most " + strings.Join(parts, " and ")
}

// Words says in a few words how many there are.
func (s *Sets) Words() string {
	return fmt.Sprintf("%d patterns in %d sets, in the first %d packets", len(s.Patterns), len(s.Sets), s.Packets)
}

// Label is the name of a label; "" for none.
func (s *Sets) Label(label int) string {
	if s == nil || label < 1 || label > len(s.Sets) {
		return ""
	}
	return s.Sets[label-1].Name
}

// SameProgram reports whether the tables of one serve the other: they differ in limits at most.
func (s *Sets) SameProgram(other *Sets) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.sum == other.sum
}

// compiler gathers patterns and what is wrong with them.
type compiler struct {
	dir      string
	reach    []policy.Reach
	report   *config.Report
	sets     *Sets
	patterns []automaton.Pattern
	places   []place
}

// place is where a pattern stands: at a path of the configuration, or in a line of a file.
type place struct {
	path       string
	file, text string
	line       int
}

// Compile compiles what a configuration asks for; nil when it has no patterns. Files are looked for
// from dir. The error is a *config.Error with every problem found.
func Compile(cfg *config.Config, dir string, reach ...policy.Reach) (*Sets, error) {
	m := cfg.Labels
	if m == nil {
		return nil, nil
	}
	c := &compiler{dir: dir, reach: reach, report: config.NewReport(cfg), sets: &Sets{
		Packets: m.Packets, Bytes: m.Bytes, Flows: m.Flows, Files: map[string]string{},
	}}
	if cfg.FastPath.Mode == "off" {
		c.report.Refuse("labels", "the fast path labels flows, and fast-path.mode is off", "fast-path.mode: auto, native or generic", "")
	}
	if len(m.Sets) == 0 {
		c.report.Refuse("labels.sets", "there is no set of patterns", "a name with patterns or a file", "")
	}
	if len(m.Sets) > maxSets {
		c.report.Refuse("labels.sets", fmt.Sprintf("%d sets", len(m.Sets)), fmt.Sprintf("at most %d", maxSets), "")
	}
	for _, name := range slices.Sorted(maps.Keys(m.Sets)) {
		c.set(name, m.Sets[name])
	}
	if err := c.report.Err(); err != nil {
		return nil, err
	}
	return c.compile()
}

// names are those that show and explain can print in a column.
var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,30}$`)

func (c *compiler) set(name string, s *config.PatternSet) {
	path := "labels.sets." + name
	if !names.MatchString(name) {
		c.report.Refuse(fmt.Sprintf("labels.sets[%q]", name), fmt.Sprintf("a set can't have the name %q", name), "1 to 31 letters, digits, dashes, dots and underscores", "")
		return
	}
	if strings.Contains(name, ".") {
		path = fmt.Sprintf("labels.sets[%q]", name)
	}
	if len(s.Patterns) == 0 && s.File == "" {
		c.report.Refuse(path, "the set has no patterns", "patterns or a file", "")
	}
	if s.Drop && (s.Rate > 0 || s.PacketsPerSecond > 0) {
		c.report.Refuse(path+".drop", "all is dropped, so there is nothing to limit", "drop, or rate and packets-per-second", "")
	}
	if s.Rate > 0 && s.Rate < leastRate {
		c.report.Refuse(path+".rate", fmt.Sprintf("%v is too slow to be kept", s.Rate), "at least 1kbit, or drop: true", "")
	}
	c.sets.Sets = append(c.sets.Sets, Set{Name: name, Rate: uint64(s.Rate), PacketsPerSecond: s.PacketsPerSecond, Drop: s.Drop})
	for i, text := range s.Patterns {
		c.pattern(text, place{path: fmt.Sprintf("%s.patterns[%d]", path, i)})
	}
	if s.File != "" {
		c.file(path+".file", s.File)
	}
}

// file reads patterns, one a line.
func (c *compiler) file(path, name string) {
	file, text, err := policy.ReadListed(c.dir, name, c.reach...)
	if err != nil {
		c.report.Refuse(path, err.Error(), "a file with a pattern a line", "")
		return
	}
	c.sets.Files[file] = text
	before := len(c.patterns)
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line != "" && line[0] != '#' {
			c.pattern(line, place{file: file, text: text, line: i + 1})
		}
	}
	if len(c.patterns) == before {
		c.report.Refuse(path, "the file has no pattern that can be used", "a pattern a line: /…/ or hexadecimal digits", "")
	}
}

// refuse notes what is wrong with a pattern, at a column from 1.
func (c *compiler) refuse(at place, column int, message, expected string) {
	if at.path != "" {
		c.report.RefuseWord(at.path, column-1, message, expected, "")
		return
	}
	c.report.RefuseLine(at.file, at.text, at.line, column, message, expected, "")
}

// pattern takes one pattern.
func (c *compiler) pattern(text string, at place) {
	p, err := automaton.ParsePattern(text)
	var wrong *automaton.SyntaxError
	switch {
	case errors.As(err, &wrong):
		c.refuse(at, wrong.Column, wrong.Message, "a regular expression of the subset between slashes, or hexadecimal digits")
		return
	case err != nil:
		c.refuse(at, 1, err.Error(), "a pattern")
		return
	case p.Where != "":
		c.refuse(at, strings.LastIndexByte(text, '/')+2, fmt.Sprintf("the flags %s say in which part of a message a rule of Snort looks; of a flow only the first bytes are looked at", p.Where), "the flags i, s, m or x")
		return
	case p.AsksForEnd():
		c.refuse(at, endIn(text), "the pattern asks for the end of the stream, which is never known", "a pattern without \\z and \\Z; $ with /m, which is the end of a line")
		return
	}
	if len(c.patterns) >= maxPatterns {
		if len(c.patterns) == maxPatterns {
			c.refuse(at, 1, fmt.Sprintf("more than %d patterns", maxPatterns), "fewer")
			c.patterns = append(c.patterns, p) // so that it is said once
		}
		return
	}
	c.patterns, c.places = append(c.patterns, p), append(c.places, at)
	c.sets.Patterns = append(c.sets.Patterns, Pattern{Text: text, Label: len(c.sets.Sets)})
}

// endIn is the column, from 1, of the last sign for the end of the stream.
func endIn(text string) int {
	return max(strings.LastIndex(text, `$`), strings.LastIndex(text, `\z`), strings.LastIndex(text, `\Z`)) + 1
}

// compile makes the automata of all patterns.
func (c *compiler) compile() (*Sets, error) {
	a, err := automaton.Compile(c.patterns, compiling)
	if err == nil && 4*len(a.Image().Words) > maxImage {
		err = fmt.Errorf("a table of %d MiB: at most %d MiB", 4*len(a.Image().Words)>>20, maxImage>>20)
	}
	if err != nil {
		c.report.Refuse("labels.sets", "the patterns together are too much to be searched for in each flow: "+err.Error(),
			"fewer patterns with .* or long counts in their middle; ^ at their beginning helps", "")
		return nil, c.report.Err()
	}
	for _, i := range a.Match(nil) {
		c.refuse(c.places[i], 1, "the pattern matches without a single byte, so it would label every flow", "at least one byte that must be there")
	}
	if err := c.report.Err(); err != nil {
		return nil, err
	}
	s := c.sets
	s.words, s.States = a.Image().Words, a.Stats().States
	s.sum = s.digest()
	return s, nil
}

func (s *Sets) digest() [sha256.Size]byte {
	h := sha256.New()
	put := func(v ...int) {
		for _, n := range v {
			_ = binary.Write(h, binary.LittleEndian, int64(n)) // a hash takes everything
		}
	}
	put(s.Packets, s.Bytes, s.Flows, len(s.Sets), len(s.Patterns))
	for _, set := range s.Sets {
		put(len(set.Name))
		h.Write([]byte(set.Name))
	}
	for _, p := range s.Patterns {
		put(p.Label, len(p.Text))
		h.Write([]byte(p.Text))
	}
	_ = binary.Write(h, binary.LittleEndian, s.words)
	return [sha256.Size]byte(h.Sum(nil))
}
