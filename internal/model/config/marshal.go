// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"cmp"
	"encoding"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file writes a Config as YAML: keys in the order of the schema, names in
// the order of the alphabet. What is written reads back to an equal Config.
// Comments of the operator's own file are not in a Config; what is shown and
// kept as a revision is therefore the file's text.

// Marshal returns what the operator wrote in its canonical form: without the defaults of absent keys.
func Marshal(cfg *Config) []byte { return writer{cfg: cfg}.text() }

// Effective returns the complete configuration: every default that applies stands in its place, and
// says in a comment that it is one.
func Effective(cfg *Config) []byte { return writer{cfg: cfg, complete: true}.text() }

// Equal reports whether two configurations make the same router. The order of
// keys and of lists that are sets, comments, and defaults written out make no
// difference.
func Equal(a, b *Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(writer{cfg: a, bare: true}.text(), writer{cfg: b, bare: true}.text())
}

// writer turns values of the schema's types into a tree.
type writer struct {
	cfg      *Config
	bare     bool // without what makes no difference: no defaults, sets in a fixed order
	complete bool // with all defaults
}

func (w writer) text() []byte {
	root, _ := w.section(reflect.ValueOf(w.cfg).Elem(), "")
	return root.bytes()
}

// node returns the tree of a value and whether it is worth a line.
func (w writer) node(v reflect.Value, f field, path string) (*node, bool) {
	t := v.Type()
	n := &node{kind: scalar}
	switch {
	case t.Kind() == reflect.Pointer:
		if v.IsNil() {
			return nil, false
		}
		n, _ := w.node(v.Elem(), f, path)
		return n, n.kind == section || !w.leftOut(v.Elem(), f, path)
	case isText(t):
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			panic("config: " + t.String() + ": " + err.Error()) // none of the schema's types fails
		}
		n.text = string(text)
	case t.Kind() == reflect.Struct:
		return w.section(v, path)
	case t.Kind() == reflect.Map:
		return w.named(v, path), v.Len() > 0
	case t.Kind() == reflect.Slice:
		return w.list(v, f, path), v.Len() > 0
	case t.Kind() == reflect.String:
		n.text, n.quoted = v.String(), f.words == nil && misread(v.String())
	case t.Kind() == reflect.Bool:
		n.text = OnOff(v.Bool()).String()
	default:
		n.text = strconv.FormatInt(v.Int(), 10)
	}
	n.byDefault = w.complete && !w.cfg.Written(path) && isDefault(v, f)
	return n, n.byDefault || !v.IsZero() && !w.leftOut(v, f, path)
}

// leftOut reports a default that is not to be written.
func (w writer) leftOut(v reflect.Value, f field, path string) bool {
	return !w.complete && (w.bare || !w.cfg.Written(path)) && isDefault(v, f)
}

// section returns the keys of a struct that say something.
func (w writer) section(v reflect.Value, path string) (*node, bool) {
	to := &node{kind: section}
	for _, f := range fieldsOf(v.Type()) {
		if n, said := w.node(v.Field(f.index), f, joinPath(path, f.name)); said || f.required {
			to.entries = append(to.entries, entry{&node{text: f.name}, n})
		}
	}
	return to, len(to.entries) > 0
}

// named returns a section whose keys the operator chose.
func (w writer) named(v reflect.Value, path string) *node {
	to := &node{kind: section}
	for _, k := range v.MapKeys() {
		key := &node{text: keyText(k), quoted: misread(keyText(k)) && k.Kind() == reflect.String}
		value, _ := w.node(v.MapIndex(k), field{}, joinPath(path, keyText(k)))
		if value == nil { // a name without settings
			value = &node{kind: section}
		}
		to.entries = append(to.entries, entry{key, value})
	}
	slices.SortFunc(to.entries, func(a, b entry) int { return cmp.Compare(a.key.text, b.key.text) })
	return to
}

func (w writer) list(v reflect.Value, f field, path string) *node {
	to := &node{kind: list}
	for i := range v.Len() {
		n, _ := w.node(v.Index(i), field{words: f.words}, indexPath(path, i))
		to.items = append(to.items, n)
	}
	if w.bare && !f.ordered {
		slices.SortFunc(to.items, func(a, b *node) int { return bytes.Compare(a.bytes(), b.bytes()) })
	}
	return to
}

func (n *node) bytes() []byte {
	var b bytes.Buffer
	n.write(&b, 0)
	return b.Bytes()
}

const (
	step    = 2  // blanks per level
	maxFlow = 72 // longest list in brackets, in bytes
)

// write writes a node at an indentation, without what stands in front of it on its first line.
func (n *node) write(b *bytes.Buffer, indent int) {
	switch n.kind {
	case scalar:
		b.WriteString(n.yaml())
		if n.byDefault {
			b.WriteString("  # default")
		}
		b.WriteByte('\n')
	case section:
		for i, e := range n.entries {
			if i > 0 {
				b.WriteString(strings.Repeat(" ", indent))
			}
			b.WriteString(e.key.yaml())
			b.WriteByte(':')
			e.value.writeBehindKey(b, indent)
		}
	}
}

func (n *node) writeBehindKey(b *bytes.Buffer, indent int) {
	switch {
	case n.kind == scalar:
		b.WriteByte(' ')
		n.write(b, indent)
	case n.kind == section && len(n.entries) == 0:
		b.WriteString(" {}\n")
	case n.kind == section:
		b.WriteByte('\n')
		b.WriteString(strings.Repeat(" ", indent+step))
		n.write(b, indent+step)
	case n.flow() != "":
		b.WriteString(" " + n.flow() + "\n")
	default:
		b.WriteByte('\n')
		for _, item := range n.items {
			b.WriteString(strings.Repeat(" ", indent+step) + "- ")
			item.write(b, indent+2*step)
		}
	}
}

// flow returns a list in brackets when it consists of a few short scalars, else "".
func (n *node) flow() string {
	texts := make([]string, len(n.items))
	size := 0
	for i, item := range n.items {
		if item.kind != scalar {
			return ""
		}
		texts[i] = item.yaml()
		size += len(texts[i]) + 2
	}
	if size > maxFlow {
		return ""
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// plain is what needs no quotes wherever it stands.
var plain = regexp.MustCompile(`^[\pL\pN_./+][\pL\pN_./%@+()-]*(?:[: ][\pL\pN_./%@+()-]+|::?[\pL\pN_./%@+()-]+)*$`)

// yaml returns a scalar or key as YAML text.
func (n *node) yaml() string {
	if !n.quoted && plain.MatchString(n.text) {
		return n.text
	}
	return doubleQuoted(n.text)
}

// doubleQuoted writes text in double quotes. The schema's text holds no control
// characters, so only the quote and the backslash need care.
func doubleQuoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

var numberLike = regexp.MustCompile(`^[-+]?[0-9._]*[0-9][0-9a-fA-FxXoe._+:-]*$`)

// misread reports free text that some reader of YAML takes for something else.
func misread(text string) bool {
	switch strings.ToLower(text) {
	case "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan":
		return true
	}
	return numberLike.MatchString(text)
}
