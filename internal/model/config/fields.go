// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// This file reads the tags of the schema once per type. The decoder, the
// marshaller, the JSON Schema and the reference page all go by it, so that they
// can't disagree.

// field is one key of a section.
type field struct {
	name     string
	index    int
	typ      reflect.Type
	doc      string
	def      string   // the text of the default, "" for none
	words    []string // the words it takes; nil when it is no enumeration
	example  string
	min, max int64
	required bool
	ordered  bool   // a list whose order means something
	names    string // what the value names: secret, interface or file; of a section of names, its keys
	lines    bool   // text of several lines
	single   bool   // a list that may be written as its one item
}

var fieldCache sync.Map // reflect.Type → []field

// fieldsOf returns the keys of a section's type, in the order of the schema.
func fieldsOf(t reflect.Type) []field {
	if known, ok := fieldCache.Load(t); ok {
		return known.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		f := field{
			name: sf.Tag.Get("yaml"), index: i, typ: sf.Type,
			doc: sf.Tag.Get("doc"), def: sf.Tag.Get("default"), example: sf.Tag.Get("example"),
			min: bound(sf.Tag.Get("min"), 0), max: bound(sf.Tag.Get("max"), math.MaxInt32),
			required: sf.Tag.Get("required") == "true", ordered: sf.Tag.Get("ordered") == "true",
			names: sf.Tag.Get("names"), lines: sf.Tag.Get("lines") == "true",
			single: sf.Tag.Get("single") == "true",
		}
		if words := sf.Tag.Get("enum"); words != "" {
			f.words = strings.Split(words, ",")
		}
		fields = append(fields, f)
	}
	fieldCache.Store(t, fields)
	return fields
}

// bound reads a min or max tag; a tag that is no number is a defect that the tests of the schema find.
func bound(tag string, absent int64) int64 {
	n, err := strconv.ParseInt(tag, 10, 64)
	if err != nil {
		return absent
	}
	return n
}

// names returns the keys of a section's type.
func names(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

var (
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
	addrType   = reflect.TypeFor[netip.Addr]()
	onOffType  = reflect.TypeFor[OnOff]()
)

// isText reports whether a type has its own text form.
func isText(t reflect.Type) bool { return t == addrType || reflect.PointerTo(t).Implements(textReader) }

// homes tells in which sections of a schema a key may stand, for keys found in the wrong one.
func homes(schema reflect.Type) map[string][]string {
	found := map[string][]string{}
	walkSections(schema, "", func(path string, t reflect.Type) {
		for _, f := range fieldsOf(t) {
			if !repeats(path) && !slices.Contains(found[f.name], path) {
				found[f.name] = append(found[f.name], path)
			}
		}
	})
	return found
}

// repeats says whether a section is one of those in routing once more, for a VRF.
func repeats(path string) bool { return strings.HasPrefix(path, "routing.vrfs.NAME.") }

// walkSections visits every section of the schema from t down with its path;
// NAME and AREA stand for keys of the operator's choice.
func walkSections(t reflect.Type, path string, visit func(path string, t reflect.Type)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Map || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Map {
			path = joinPath(path, placeholder(t.Key()))
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || isText(t) {
		return
	}
	visit(path, t)
	for _, f := range fieldsOf(t) {
		walkSections(f.typ, joinPath(path, f.name), visit)
	}
}

// placeholder stands for a key of a map in the schema's paths.
func placeholder(key reflect.Type) string {
	if key == reflect.TypeFor[AreaID]() {
		return "AREA"
	}
	return "NAME"
}

// joinPath appends a key to a path; a key that would be misread is quoted.
func joinPath(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\" \t") {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// indexPath appends an item's number to a path.
func indexPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
