// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A file of an older version of the format goes on working: Parse brings it to today's version in memory,
// and Migrate writes that down when the operator asks for it. The text is edited in place, so comments and
// layout stay as they are, and while it is only read, every line keeps its number. The file itself is
// left alone until then: the software of before can still read it.

// Version is the version of the format that this program writes.
const Version = 1

// migration leads from one version to the next. It edits by path and must do nothing where there is nothing to do.
type migration struct {
	from    int
	changes string // for the operator: what is different now
	edit    func(*draft) error
}

// rename is a section of the file that has another name now. The old one is read in files of every version.
type rename struct{ old, now string }

var renamed = []rename{{"match", "labels"}}

// migrations are those of the versions that were released: none yet, version 1 is the first.
var migrations []migration

// Migrated is a text in today's version.
type Migrated struct {
	Text    []byte
	From    int      // the version that it had
	Changes []string // what was different in it, oldest first; none when it was up to date
	renamed []rename
}

// Migrate returns the text of a configuration in today's version. Like Parse it refuses, with an *Error, what is no
// configuration, of a newer version, or wrong after all.
func Migrate(file string, data []byte) (Migrated, error) { return migrate(file, data, migrations) }

func migrate(file string, data []byte, known []migration) (Migrated, error) {
	r, ps := read(file, data)
	if err := ps.err(); err != nil {
		return Migrated{}, err
	}
	m := r.bring(known, ps)
	if err := ps.err(); err != nil {
		return m, err
	}
	if m.Changes == nil {
		m.Text = data
	}
	_, err := parse(file, m.Text, nil)
	return m, err
}

// reading is a text and its tree.
type reading struct {
	src  *source
	text []byte // as newSource has it, with one more line end
	root *node
}

func read(file string, data []byte) (r reading, ps *problems) {
	r.src, r.text, ps = newSource(file, data)
	if ps.err() == nil {
		r.root = readYAML(r.text, ps)
	}
	return r, ps
}

// bring edits what was read to today's version. Of a version that was never released, or that can't be
// read, nothing is changed: whoever decodes it says what is wrong.
func (r reading) bring(known []migration, ps *problems) Migrated {
	from, at := versionOf(r.root)
	m := Migrated{From: from}
	switch {
	case at.line == 0:
		return m
	case from > Version:
		ps.add(at, Problem{
			Path: "version", Message: fmt.Sprintf("version %d of the format is newer than this program, which knows up to %d", from, Version),
			Expected: fmt.Sprintf("version %d: upgrade Minne, or take the file from before the upgrade (minne revisions)", Version),
		})
		return m
	}
	d := &draft{text: []rune(string(r.text)), root: r.root, file: r.src.file}
	for v := from; v < Version; v++ {
		i := slices.IndexFunc(known, func(k migration) bool { return k.from == v })
		if i < 0 {
			return Migrated{From: from}
		}
		if err := d.run(known[i]); err != nil {
			ps.add(at, Problem{
				Path: "version", Message: fmt.Sprintf("cannot convert version %d to version %d: %v", v, v+1, err),
				Expected: "an unambiguous file: change the named keys, or write a new file",
			})
			return m
		}
		m.Changes = append(m.Changes, known[i].changes)
	}
	for _, k := range renamed {
		old := d.find(k.old)
		if len(old) == 0 {
			continue
		}
		place := old[0].key().at
		if err := d.rename(k.old, k.now); err != nil {
			ps.add(place, Problem{Path: k.old, Message: fmt.Sprintf("%s is the old name of %s, and %v", k.old, k.now, err), Expected: "one section, called " + k.now})
			return m
		}
		m.Changes, m.renamed = append(m.Changes, k.old+" is called "+k.now), append(m.renamed, k)
	}
	if m.Changes == nil {
		return m
	}
	m.Text = []byte(strings.TrimSuffix(string(d.text), "\n"))
	return m
}

// versionOf returns the version of a file and its place, line 0 when it has none that is a number.
func versionOf(root *node) (int, position) {
	if root.kind != section {
		return 0, position{}
	}
	for _, e := range root.entries {
		if e.key.text == "version" && e.value.kind == scalar && !e.value.quoted {
			if v, err := decimal(e.value.text, 1_000_000); err == nil {
				return int(v), e.value.at
			}
		}
	}
	return 0, position{}
}

// draft is a text that is edited. Paths are keys with points between, * for every key of a section
// and [] behind a key for every item of its list: interfaces.*.mtu, routing.static[].via.
type draft struct {
	file string
	text []rune
	root *node
}

// run does one migration, and writes the version that it led to.
func (d *draft) run(m migration) error {
	if err := m.edit(d); err != nil {
		return err
	}
	return d.replace("version", func(string) string { return strconv.Itoa(m.from + 1) })
}

// found is a key in its section.
type found struct {
	in *node
	i  int
}

func (f found) key() *node   { return f.in.entries[f.i].key }
func (f found) value() *node { return f.in.entries[f.i].value }

// find returns the places of a path, the last first, so that edits don't move those that follow.
func (d *draft) find(path string) (places []found) {
	var walk func(n *node, segments []string)
	walk = func(n *node, segments []string) {
		name, items := strings.CutSuffix(segments[0], "[]")
		for i, e := range n.entries {
			if name != "*" && e.key.text != name {
				continue
			}
			switch {
			case len(segments) == 1:
				places = append(places, found{n, i})
			case items:
				for _, item := range e.value.items {
					walk(item, segments[1:])
				}
			default:
				walk(e.value, segments[1:])
			}
		}
	}
	walk(d.root, strings.Split(path, "."))
	slices.SortFunc(places, func(a, b found) int { return cmp.Compare(d.offset(b.key().at), d.offset(a.key().at)) })
	return places
}

// rename gives the keys of a path another name.
func (d *draft) rename(path, name string) error {
	for _, f := range d.find(path) {
		for _, other := range f.in.entries {
			if other.key.text == name {
				return fmt.Errorf("line %d has both %s and %s", f.key().at.line, f.key().text, name)
			}
		}
		start := d.offset(f.key().at)
		end, err := d.scalarEnd(f.key())
		if err != nil {
			return err
		}
		d.put(start, end, name)
	}
	return d.reread()
}

// replace gives the single values of a path another text.
func (d *draft) replace(path string, with func(text string) string) error {
	for _, f := range d.find(path) {
		v := f.value()
		if v.kind != scalar {
			return fmt.Errorf("line %d: %s is %s, not a single value", f.key().at.line, f.key().text, v.kind)
		}
		end, err := d.scalarEnd(v)
		if err != nil {
			return err
		}
		d.put(d.offset(v.at), end, with(v.text))
	}
	return d.reread()
}

// scalarEnd is where a single value of one line ends.
func (d *draft) scalarEnd(n *node) (int, error) {
	start := d.offset(n.at)
	switch first := d.text[start]; {
	case first == '"' || first == '\'':
		return d.quoteEnd(start), nil
	case n.quoted: // | or >
		return 0, fmt.Errorf("line %d has text of several lines", n.at.line)
	}
	end := start + len([]rune(n.text))
	if end > len(d.text) || string(d.text[start:end]) != n.text {
		return 0, fmt.Errorf("line %d has text of several lines", n.at.line)
	}
	return end, nil
}

// quoteEnd is behind the quote that closes the one at a place.
func (d *draft) quoteEnd(at int) int {
	quote := d.text[at]
	for at++; at < len(d.text); at++ {
		switch {
		case d.text[at] == '\\' && quote == '"':
			at++
		case d.text[at] == quote && quote == '\'' && at+1 < len(d.text) && d.text[at+1] == quote:
			at++
		case d.text[at] == quote:
			return at + 1
		}
	}
	return at
}

// offset is where a position is in the text.
func (d *draft) offset(p position) int {
	at := 0
	for line := 1; line < p.line && at < len(d.text); line++ {
		at = d.lineEnd(at)
	}
	return min(at+p.column-1, len(d.text)-1)
}

// lineEnd is where the next line begins.
func (d *draft) lineEnd(at int) int {
	if i := slices.Index(d.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(d.text)
}

func (d *draft) put(start, end int, text string) {
	d.text = slices.Concat(d.text[:start], []rune(text), d.text[end:])
}

// reread parses the text anew after an edit.
func (d *draft) reread() error {
	r, ps := read(d.file, []byte(strings.TrimSuffix(string(d.text), "\n")))
	if err := ps.err(); err != nil {
		return fmt.Errorf("the result is not valid YAML: %w", err)
	}
	d.root = r.root
	return nil
}
