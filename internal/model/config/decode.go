// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"unicode"
)

// This file decodes a file into a Config by walking its tree along the schema.
// It is strict: a key that the schema doesn't know, a value of another kind or
// outside its bounds refuses the whole file, and all problems are told at once.

// Load reads and parses a file. It also returns the text, for revisions and
// differences.
func Load(path string) (*Config, []byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	defer file.Close()
	if st, err := file.Stat(); err == nil && st.IsDir() {
		return nil, nil, fmt.Errorf("%s is a directory: expected the file of a configuration, as %s", path, filepath.Join(path, "minne.yaml"))
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	cfg, err := Parse(path, data)
	return cfg, data, err
}

// Parse decodes the text of a configuration, of today's version or an older one. file is its name in messages.
// The error is an *Error with every problem found. Parse knows only what stands in
// the schema; Check knows what the parts mean for each other.
func Parse(file string, data []byte) (*Config, error) {
	cfg, err := parse(file, data, migrations)
	if err != nil {
		if other := foreignFile(file, data); other != nil {
			return nil, other
		}
	}
	return cfg, err
}

func parse(file string, data []byte, known []migration) (*Config, error) {
	r, ps := read(file, data)
	if err := ps.err(); err != nil {
		return nil, err
	}
	today := r.bring(known, ps)
	if err := ps.err(); err != nil {
		return nil, err
	}
	if today.Changes != nil {
		r, ps = read(file, today.Text)
	}
	if err := ps.err(); err != nil {
		return nil, err
	}
	src, root := r.src, r.root
	cfg := &Config{source: src, renamed: today.renamed}
	if root.kind == section && len(root.entries) == 0 {
		ps.add(position{}, Problem{Message: "the file is empty", Expected: "version: 1 and what the router shall do"})
		return nil, ps.err()
	}
	d := decoder{problems: ps, src: src, schema: reflect.TypeFor[Config]()}
	d.value(root, reflect.ValueOf(cfg).Elem(), field{}, "", position{1, 1})
	if err := ps.err(); err != nil {
		return nil, err
	}
	Normalize(cfg)
	return cfg, nil
}

// decoder fills values of the schema's types from nodes.
type decoder struct {
	problems *problems
	src      *source
	schema   reflect.Type        // the outermost section
	homes    map[string][]string // of the schema's keys, once a key was in the wrong place
}

// refuse notes a problem.
func (d *decoder) refuse(at position, path, message, expected, nearest string) {
	d.problems.add(at, Problem{Path: path, Message: message, Expected: expected, Nearest: nearest})
}

// value decodes n into v. f is the key it stands behind, named the place of that
// key, where whatever is missing inside is reported.
func (d *decoder) value(n *node, v reflect.Value, f field, path string, named position) {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		d.value(n, v.Elem(), f, path, named)
	case isText(t), t.Kind() == reflect.String, t.Kind() == reflect.Int, t.Kind() == reflect.Bool:
		d.src.at[path] = n.at
		if n.kind != scalar {
			d.notScalar(n, f, path, named)
			return
		}
		d.scalar(n, v, f, path)
		d.src.idle[path] = isDefault(v, f)
	case t.Kind() == reflect.Struct:
		d.src.at[path] = named
		d.section(n, v, path, named)
	case t.Kind() == reflect.Map:
		d.src.at[path] = named
		d.namedSections(n, v, f, path, named)
	case t.Kind() == reflect.Slice:
		d.src.at[path] = named
		d.list(n, v, f, path)
	default:
		panic("config: the schema has a " + t.String() + " that the decoder doesn't know")
	}
}

// notScalar refuses something else where a single value belongs.
func (d *decoder) notScalar(n *node, f field, path string, named position) {
	expected := valueForm(f)
	if n.kind == empty {
		at := named
		if n.text != "" {
			at = n.at
		}
		d.refuse(at, path, fmt.Sprintf("%s has no value", label(f, path)), expected, "")
		return
	}
	hint := ""
	if n.kind == list && len(n.items) == 1 && n.items[0].kind == scalar && f.names != "secret" {
		hint = n.items[0].text
	}
	d.refuse(n.at, path, fmt.Sprintf("%s is %s", label(f, path), n.kind), expected, hint)
}

// label names a key in a message.
func label(f field, path string) string {
	if f.name != "" {
		return f.name
	}
	return path
}

// valueForm says what values a key takes.
func valueForm(f field) string {
	t := f.typ
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && !isText(t)) {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return "a value"
	case len(f.words) == 1:
		return f.words[0]
	case len(f.words) > 1:
		return strings.Join(f.words[:len(f.words)-1], ", ") + " or " + f.words[len(f.words)-1]
	case textForms[t] != "":
		return textForms[t]
	case t.Kind() == reflect.Int && f.max == math.MaxInt32:
		return fmt.Sprintf("a whole number from %d", f.min)
	case t.Kind() == reflect.Int:
		return fmt.Sprintf("a whole number from %d to %d", f.min, f.max)
	case t.Kind() == reflect.Bool:
		return switchForm
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return "a section"
	case f.names == "secret":
		return "the name of a secret"
	}
	return "text"
}

// textForms says how the scalar types are written.
var textForms = map[reflect.Type]string{
	addrType:                        addrForm,
	onOffType:                       switchForm,
	reflect.TypeFor[SpanningTree](): switchForm,
	reflect.TypeFor[ASN]():          asnForm,
	reflect.TypeFor[AreaID]():       areaForm,
	reflect.TypeFor[MAC]():          macForm,
	reflect.TypeFor[Duration]():     durationForm,
	reflect.TypeFor[Rate]():         rateForm,
	reflect.TypeFor[LineOverhead](): overheadForm,
	reflect.TypeFor[Prefix]():       prefixForm,
	reflect.TypeFor[Address]():      addressForm,
	reflect.TypeFor[NextHop]():      nextHopForm,
	reflect.TypeFor[AddressRange](): rangeForm,
	reflect.TypeFor[VLANRange]():    vlanRangeForm,
	reflect.TypeFor[CPURange]():     cpuRangeForm,
	reflect.TypeFor[Decimal]():      decimalForm,
}

// scalar decodes a single value.
func (d *decoder) scalar(n *node, v reflect.Value, f field, path string) {
	if err := d.scalarText(n, v, f); err != nil {
		if err.message == "" {
			err.message = fmt.Sprintf("%s can't be %q", label(f, path), abridge(n.text))
		}
		d.refuse(n.at, path, err.message, err.expected, err.nearest)
	}
}

// scalarText decodes the text of a scalar into v.
func (d *decoder) scalarText(n *node, v reflect.Value, f field) *wrongValue {
	if strings.ContainsFunc(n.text, func(r rune) bool {
		return unicode.IsControl(r) && !(f.lines && r == '\n') || isHiddenFormat(r)
	}) {
		return &wrongValue{fmt.Sprintf("%s has a line break or control character", f.name), "printable text on one line", ""}
	}
	if why := curlyQuotes(n, f); why != nil {
		return why
	}
	if v.Type() == addrType {
		a, err := parseAddr(n.text)
		if err != nil {
			return err.(*wrongValue)
		}
		v.Set(reflect.ValueOf(a))
		return nil
	}
	if isText(v.Type()) {
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.text)); err != nil {
			return err.(*wrongValue)
		}
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		return stringValue(n, v, f)
	case reflect.Bool:
		on, err := readSwitch(n.text)
		if err != nil {
			return err.(*wrongValue)
		}
		v.SetBool(on)
		return nil
	}
	return intValue(n, v, f)
}

// curlyQuotes refuses text in the quotes of word processors, which YAML takes for letters. Descriptions may
// hold them; what may be a password is not repeated.
func curlyQuotes(n *node, f field) *wrongValue {
	bare := strings.Trim(n.text, "\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb")
	if len(bare) > len(n.text)-2 || f.name == "description" || f.lines {
		return nil
	}
	wrong := &wrongValue{fmt.Sprintf("%s is in typographic quotes, which YAML does not know", f.name), `none, or plain quotes: "`, ""}
	if f.names != "secret" {
		wrong.nearest = bare
	}
	return wrong
}

func stringValue(n *node, v reflect.Value, f field) *wrongValue {
	if f.words == nil {
		if n.text == "" {
			return &wrongValue{fmt.Sprintf("%s is empty", f.name), "text", ""}
		}
		v.SetString(n.text)
		return nil
	}
	for _, w := range f.words {
		if w == n.text {
			v.SetString(w)
			return nil
		}
	}
	hint := nearest(strings.ToLower(n.text), f.words)
	for _, w := range f.words {
		if strings.EqualFold(w, n.text) || w == "off" && n.text == "false" {
			hint = w
		}
	}
	return &wrongValue{"", valueForm(f), hint}
}

func intValue(n *node, v reflect.Value, f field) *wrongValue {
	wrong := &wrongValue{"", valueForm(f), ""}
	number, err := decimal(n.text, math.MaxInt64)
	tooBig := errors.Is(err, errTooBig) || err == nil && v.OverflowInt(int64(number))
	switch {
	case n.quoted:
		wrong.message = fmt.Sprintf("%s is text in quotes", f.name)
		if err == nil {
			wrong.nearest = n.text
		}
		return wrong
	case err != nil && !tooBig:
		wrong.message = fmt.Sprintf("%s: %q %v", f.name, abridge(n.text), err)
		wrong.nearest = trimZeros(n.text)
		return wrong
	case len(f.words) > 0 && n.text != f.words[0]:
		return wrong
	case len(f.words) == 0 && (tooBig || number < uint64(f.min) || number > uint64(f.max)):
		wrong.message = fmt.Sprintf("%s %s is out of range", f.name, abridge(n.text))
		return wrong
	}
	v.SetInt(int64(number))
	return nil
}

// abridge shortens text for a message.
func abridge(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}

// section decodes keys into the fields of a struct.
func (d *decoder) section(n *node, v reflect.Value, path string, named position) {
	fields := fieldsOf(v.Type())
	if n.kind != section && n.kind != empty {
		d.refuse(n.at, path, fmt.Sprintf("%s is %s", orFile(path), n.kind), "a section with the keys "+strings.Join(names(fields), ", "), "")
		return
	}
	seen := map[string]position{}
	idle := len(n.entries) > 0
	for _, e := range n.entries {
		f, ok := fieldNamed(fields, e.key.text)
		if !ok {
			d.unknownKey(e.key, fields, path)
			continue
		}
		at := joinPath(path, f.name)
		if d.twice(seen, f.name, e.key, at) {
			continue
		}
		d.value(e.value, v.Field(f.index), f, at, e.key.at)
		idle = idle && d.src.idle[at]
	}
	d.src.idle[path] = idle
	for _, f := range fields {
		if _, ok := seen[f.name]; f.required && !ok {
			d.refuse(named, joinPath(path, f.name), fmt.Sprintf("%s lacks %s", orFile(path), f.name), f.name+": "+valueForm(f), "")
		}
	}
}

// orFile names a section in a message; the outermost one is the file.
func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func fieldNamed(fields []field, name string) (field, bool) {
	for _, f := range fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

// twice refuses a key that stood in the section before.
func (d *decoder) twice(seen map[string]position, name string, key *node, path string) bool {
	first, again := seen[name]
	if again {
		d.refuse(key.at, path, fmt.Sprintf("duplicate key %s, first in line %d", abridge(key.text), first.line), "each key once", "")
		return true
	}
	seen[name] = key.at
	return false
}

// unknownKey refuses a key, with the key that was meant or the section where it belongs.
func (d *decoder) unknownKey(key *node, fields []field, path string) {
	if d.problems.full() {
		d.problems.more++
		return
	}
	name := abridge(key.text)
	hint := nearest(strings.ReplaceAll(strings.ToLower(key.text), "_", "-"), names(fields))
	if f, ok := fieldNamed(fields, strings.ReplaceAll(strings.ToLower(key.text), "_", "-")); ok {
		hint = f.name
	}
	expected := ""
	if d.homes == nil {
		d.homes = homes(d.schema)
	}
	if places := d.homes[key.text]; hint == "" && len(places) > 0 && len(places) <= 3 {
		expected = fmt.Sprintf("%s in section %s; is the indentation right?", name, strings.Join(places, " or "))
		if places[0] == "" {
			expected = name + " at the left margin; is the indentation right?"
		}
	} else if hint == "" {
		expected = "one of " + strings.Join(names(fields), ", ")
	}
	d.refuse(key.at, joinPath(path, key.text), fmt.Sprintf("unknown key %q in %s", name, orFile(path)), expected, hint)
}

// namedSections decodes a section whose keys the operator chooses.
func (d *decoder) namedSections(n *node, v reflect.Value, f field, path string, named position) {
	if n.kind != section && n.kind != empty {
		d.refuse(n.at, path, fmt.Sprintf("%s is %s", path, n.kind), "a section with a key for each", "")
		return
	}
	t := v.Type()
	v.Set(reflect.MakeMap(t))
	seen := map[string]position{}
	for _, e := range n.entries {
		key := reflect.New(t.Key()).Elem()
		if wrong := d.scalarText(e.key, key, field{name: "the name"}); wrong != nil {
			d.refuse(e.key.at, path, wrong.message, wrong.expected, wrong.nearest)
			continue
		}
		name := keyText(key)
		at := joinPath(path, name)
		if d.twice(seen, name, e.key, at) {
			continue
		}
		item := reflect.New(t.Elem()).Elem()
		d.value(e.value, item, field{}, at, e.key.at)
		v.SetMapIndex(key, item)
	}
}

// keyText returns the text of a map's key.
func keyText(key reflect.Value) string {
	if area, ok := key.Interface().(AreaID); ok {
		return area.String()
	}
	return key.String()
}

// list decodes the items of a list.
func (d *decoder) list(n *node, v reflect.Value, f field, path string) {
	if n.kind == scalar && f.single {
		n = &node{kind: list, at: n.at, items: []*node{n}}
	}
	if n.kind != list && n.kind != empty {
		hint := ""
		if n.kind == scalar {
			hint = "[" + abridge(n.text) + "]"
		}
		d.refuse(n.at, path, fmt.Sprintf("%s is %s", label(f, path), n.kind), "a list, in brackets or with a dash before each item", hint)
		return
	}
	slice := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		d.value(item, slice.Index(i), f, indexPath(path, i), item.at)
	}
	if len(n.items) > 0 {
		v.Set(slice)
	}
}
