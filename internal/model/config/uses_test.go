// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fill gives a value everything that its type can hold: a pointer points, a list and a section of
// names have one item, and whatever names something by its tag has a name of its own, which is noted.
func fill(v reflect.Value, f field, path string, what string, named map[string]string) {
	name := func(path string) string {
		named[path] = fmt.Sprintf("%s-%d", what, len(named))
		return named[path]
	}
	switch t := v.Type(); {
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		fill(v.Elem(), f, path, what, named)
	case t == reflect.TypeFor[NextHop]() && f.names == what:
		v.Set(reflect.ValueOf(NextHop{Address: netip.MustParseAddr("fe80::1"), Interface: name(path)}))
	case t.Kind() == reflect.Struct && !isText(t):
		for _, f := range fieldsOf(t) {
			fill(v.Field(f.index), f, joinPath(path, f.name), what, named)
		}
	case t.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(t))
		key, item := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		switch {
		case f.names == what:
			key.SetString(name(path))
			delete(named, path)
			named[joinPath(path, key.String())] = key.String()
		case key.Kind() == reflect.String:
			key.SetString("any")
		}
		fill(item, field{}, joinPath(path, keyText(key)), what, named)
		v.SetMapIndex(key, item)
	case t.Kind() == reflect.Slice && !isText(t):
		v.Set(reflect.MakeSlice(t, 1, 1))
		fill(v.Index(0), f, indexPath(path, 0), what, named)
	case f.names == what:
		v.SetString(name(path))
	}
}

// Every key that the schema says names a secret, an interface or a file is found, wherever it stands:
// what a later version adds too.
func TestUses(t *testing.T) {
	for what, list := range map[string]func(*Config) []Use{"secret": SecretUses, "interface": InterfaceUses, "file": FileUses} {
		cfg, want := &Config{}, map[string]string{}
		fill(reflect.ValueOf(cfg).Elem(), field{}, "", what, want)
		tagged := 0
		walkSections(reflect.TypeFor[Config](), "", func(_ string, t reflect.Type) {
			for _, f := range fieldsOf(t) {
				if f.names == what {
					tagged++
				}
			}
		})
		if len(want) < 3 || len(want) != tagged {
			t.Fatalf("the test fills %d of %s, the schema has %d", len(want), what, tagged)
		}
		got := map[string]string{}
		for _, u := range list(cfg) {
			got[u.Path] = u.Name
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: found %v\nwant  %v", what, got, want)
		}
		if none := list(&Config{}); len(none) != 0 {
			t.Errorf("%s of nothing: %v", what, none)
		}
	}
}

// The names of the schema's tag are those that somebody asks for.
func TestNamesTag(t *testing.T) {
	walkSections(reflect.TypeFor[Config](), "", func(path string, t2 reflect.Type) {
		for _, f := range fieldsOf(t2) {
			if !slices.Contains([]string{"", "secret", "interface", "file"}, f.names) {
				t.Errorf("%s: names:%q", joinPath(path, f.name), f.names)
			}
		}
	})
}

// A secret or an interface that does not exist is refused wherever the schema lets one be named.
func TestUnknownNamesAreRefused(t *testing.T) {
	for what, message := range map[string]string{"secret": "no secret of this name", "interface": "there is no interface"} {
		cfg, want := &Config{}, map[string]string{}
		fill(reflect.ValueOf(cfg).Elem(), field{}, "", what, want)
		var refused []string
		for _, p := range check(cfg, Secrets{}).list {
			if strings.Contains(p.Message, message) {
				refused = append(refused, p.Path)
			}
		}
		for path := range want {
			if !slices.Contains(refused, path) {
				t.Errorf("%s: a %s that does not exist is not refused; refused: %q", path, what, refused)
			}
		}
	}
}
