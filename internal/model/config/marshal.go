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
// the order of the alphabet, absent values left out. What is written reads back
// to an equal Config. Comments of the operator's own file are not in a Config;
// what is shown and kept as a revision is therefore the file's text.

// Marshal returns the configuration in its canonical form.
func Marshal(cfg *Config) ([]byte, error) {
	root, _ := writer{}.section(reflect.ValueOf(cfg).Elem())
	var b bytes.Buffer
	root.write(&b, 0)
	return b.Bytes(), nil
}

// Equal reports whether two configurations make the same router. The order of
// keys and of lists that are sets, comments, and defaults written out make no
// difference.
func Equal(a, b *Config) bool {
	return bytes.Equal(essence(a), essence(b))
}

// essence is the canonical form without what makes no difference.
func essence(cfg *Config) []byte {
	if cfg == nil {
		return nil
	}
	root, _ := writer{bare: true}.section(reflect.ValueOf(cfg).Elem())
	var b bytes.Buffer
	root.write(&b, 0)
	return b.Bytes()
}

// writer turns values of the schema's types into a tree.
type writer struct {
	bare bool // without defaults, sets in a fixed order
}

// node returns the tree of a value and whether it says anything at all.
func (w writer) node(v reflect.Value, f field) (*node, bool) {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		if v.IsNil() {
			return nil, false
		}
		n, said := w.node(v.Elem(), f)
		return n, said || !w.bare || n.kind == section || n.text != f.def
	case isText(t):
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			panic("config: " + t.String() + ": " + err.Error()) // none of the schema's types fails
		}
		n := &node{kind: scalar, text: string(text)}
		return n, !v.IsZero() && !(w.bare && n.text == f.def)
	case t.Kind() == reflect.Struct:
		return w.section(v)
	case t.Kind() == reflect.Map:
		return w.named(v), v.Len() > 0
	case t.Kind() == reflect.Slice:
		return w.list(v, f), v.Len() > 0
	case t.Kind() == reflect.String:
		n := &node{kind: scalar, text: v.String(), quoted: f.words == nil && misread(v.String())}
		return n, n.text != "" && !(w.bare && n.text == f.def)
	case t.Kind() == reflect.Bool:
		n := &node{kind: scalar, text: strconv.FormatBool(v.Bool())}
		return n, v.Bool()
	}
	n := &node{kind: scalar, text: strconv.FormatInt(v.Int(), 10)}
	return n, v.Int() != 0 && !(w.bare && n.text == f.def)
}

// section returns the keys of a struct that say something.
func (w writer) section(v reflect.Value) (*node, bool) {
	to := &node{kind: section}
	for _, f := range fieldsOf(v.Type()) {
		if n, said := w.node(v.Field(f.index), f); said || f.required {
			to.entries = append(to.entries, entry{&node{text: f.name}, n})
		}
	}
	return to, len(to.entries) > 0
}

// named returns a section whose keys the operator chose.
func (w writer) named(v reflect.Value) *node {
	to := &node{kind: section}
	for _, k := range v.MapKeys() {
		key := &node{text: keyText(k), quoted: misread(keyText(k)) && k.Kind() == reflect.String}
		value, _ := w.node(v.MapIndex(k), field{})
		if value == nil { // a name without settings
			value = &node{kind: section}
		}
		to.entries = append(to.entries, entry{key, value})
	}
	slices.SortFunc(to.entries, func(a, b entry) int { return cmp.Compare(a.key.text, b.key.text) })
	return to
}

func (w writer) list(v reflect.Value, f field) *node {
	to := &node{kind: list}
	for i := range v.Len() {
		n, _ := w.node(v.Index(i), field{words: f.words})
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
