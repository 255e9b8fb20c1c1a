// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated pages and golden files instead of comparing them")

// golden compares made text with a file, or writes it with -update.
func golden(t *testing.T, file string, made []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, made, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./internal/model/config -update", err)
	}
	if !bytes.Equal(made, want) {
		t.Errorf("%s is out of date; after a look, write it with: go test ./internal/model/config -update\n%s", file, Diff(want, made, "committed", "made"))
	}
}

func TestReferencePage(t *testing.T) {
	golden(t, "../../../docs/reference/config.md", []byte(Reference()))
}

func TestReferenceSchema(t *testing.T) {
	golden(t, "../../../docs/reference/minne.schema.json", JSONSchema())
}

// Every key has a description, and tags that the decoder can use.
func TestSchemaTags(t *testing.T) {
	walkSections(reflect.TypeFor[Config](), "", func(path string, typ reflect.Type) {
		for i := range typ.NumField() {
			sf := typ.Field(i)
			if !sf.IsExported() {
				continue
			}
			where := joinPath(path, sf.Tag.Get("yaml"))
			json, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
			if sf.Tag.Get("yaml") == "" || json != sf.Tag.Get("yaml") || sf.Tag.Get("doc") == "" {
				t.Errorf("%s: needs yaml, the same json, and doc", where)
			}
			for _, tag := range []string{"min", "max"} {
				if text, ok := sf.Tag.Lookup(tag); ok {
					if _, err := strconv.ParseInt(text, 10, 64); err != nil {
						t.Errorf("%s: %s is %q", where, tag, text)
					}
				}
			}
			f, _ := fieldNamed(fieldsOf(typ), sf.Tag.Get("yaml"))
			for _, text := range []string{f.def, f.example} {
				if text != "" {
					readsBack(t, where, f, text)
				}
			}
		}
	})
}

// readsBack checks that a default or example is a value that the key takes.
func readsBack(t *testing.T, where string, f field, text string) {
	typ := f.typ
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice && !isText(typ) {
		typ = typ.Elem()
	}
	d := decoder{}
	if wrong := d.scalarText(&node{kind: scalar, text: text}, reflect.New(typ).Elem(), f); wrong != nil {
		t.Errorf("%s: %q: %v", where, text, wrong)
	}
}

// The schema takes what Parse takes, and refuses what is plainly wrong.
func TestSchemaTakesTheExamples(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(JSONSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../../docs/examples/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("examples: %v %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := against(schema, schema, asJSON(tree(t, string(data))), ""); wrong != "" {
			t.Errorf("%s: %s", file, wrong)
		}
	}
	for _, text := range []string{
		"{}", "version: 2", "version: 1\nx: 1", "version: 1\nsystem: []", "version: 1\nsystem: {hostname: [a]}",
		"version: 1\ninterfaces: {lan: {mtu: 1}}", "version: 1\ninterfaces: {lan: {mtu: 1500.5}}", "version: 1\ninterfaces: {lan: {anti-spoof: maybe}}",
		"version: 1\ninterfaces: {lan: {addresses: [x]}}", "version: 1\nrouting: {bgp: {}}", "version: 1\nrouting: {ospf: {areas: {x: {interfaces: {}}}}}",
		"version: 1\nrouting: {bgp: {asn: 4294967295}}", "version: 1\nrouting: {bgp: {asn: 1, restart-time: 90}}",
	} {
		if against(schema, schema, asJSON(tree(t, text)), "") == "" {
			t.Errorf("the schema takes %q", text)
		}
	}
}

// asJSON gives scalars the types that a YAML 1.2 reader gives them.
func asJSON(n *node) any {
	switch n.kind {
	case section:
		m := map[string]any{}
		for _, e := range n.entries {
			m[e.key.text] = asJSON(e.value)
		}
		return m
	case list:
		l := []any{}
		for _, item := range n.items {
			l = append(l, asJSON(item))
		}
		return l
	case empty:
		return nil
	}
	if f, err := strconv.ParseFloat(n.text, 64); err == nil && !n.quoted {
		return f
	}
	if n.text == "true" || n.text == "false" {
		return n.text == "true"
	}
	return n.text
}

// against is a small validator of the keywords that the schema uses; it fails on
// others. It returns what is wrong, or "".
func against(root, schema map[string]any, v any, path string) string {
	for keyword, arg := range schema {
		if wrong := keywordAgainst(root, schema, keyword, arg, v, path); wrong != "" {
			return wrong
		}
	}
	return ""
}

func keywordAgainst(root, schema map[string]any, keyword string, arg, v any, path string) string {
	bad := fmt.Sprintf("%s: %v breaks %s %v", path, v, keyword, arg)
	switch keyword {
	case "$schema", "title", "$defs", "description", "default", "examples":
		return ""
	case "$ref":
		name := strings.TrimPrefix(arg.(string), "#/$defs/")
		return against(root, root["$defs"].(map[string]any)[name].(map[string]any), v, path)
	case "anyOf":
		if !slices.ContainsFunc(arg.([]any), func(s any) bool { return against(root, s.(map[string]any), v, path) == "" }) {
			return bad
		}
	case "type":
		types, ok := arg.([]any)
		if !ok {
			types = []any{arg}
		}
		if !slices.ContainsFunc(types, func(t any) bool { return isType(t.(string), v) }) {
			return bad
		}
	case "enum":
		if !slices.Contains(arg.([]any), v) {
			return bad
		}
	case "const":
		if arg != v {
			return bad
		}
	case "minimum":
		if n, ok := v.(float64); ok && n < arg.(float64) {
			return bad
		}
	case "maximum":
		if n, ok := v.(float64); ok && n > arg.(float64) {
			return bad
		}
	case "minLength":
		if s, ok := v.(string); ok && float64(len(s)) < arg.(float64) {
			return bad
		}
	case "pattern":
		if s, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(s) {
			return bad
		}
	case "required":
		for _, k := range arg.([]any) {
			if m, ok := v.(map[string]any); ok && m[k.(string)] == nil {
				return bad
			}
		}
	case "items":
		for i, item := range asList(v) {
			if wrong := against(root, arg.(map[string]any), item, indexPath(path, i)); wrong != "" {
				return wrong
			}
		}
	case "properties", "additionalProperties", "propertyNames":
		return keysAgainst(root, schema, keyword, arg, v, path)
	default:
		return "the test does not know the keyword " + keyword
	}
	return ""
}

func keysAgainst(root, schema map[string]any, keyword string, arg, v any, path string) string {
	m, _ := v.(map[string]any)
	known, _ := schema["properties"].(map[string]any)
	for k, value := range m {
		wrong := ""
		switch rule, _ := arg.(map[string]any); {
		case keyword == "propertyNames":
			wrong = against(root, rule, any(k), path)
		case keyword == "properties" && known[k] != nil:
			wrong = against(root, known[k].(map[string]any), value, joinPath(path, k))
		case keyword == "additionalProperties" && known[k] == nil && arg == false:
			wrong = "unknown key " + joinPath(path, k)
		case keyword == "additionalProperties" && known[k] == nil:
			wrong = against(root, rule, value, joinPath(path, k))
		}
		if wrong != "" {
			return wrong
		}
	}
	return ""
}

func isType(name string, v any) bool {
	switch v := v.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == float64(int64(v))
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return name == "null"
}

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}
