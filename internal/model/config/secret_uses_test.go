// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fill gives a value everything that its type can hold: a pointer points, a list and a section of
// names have one item, and each name of a secret is one of its own.
func fill(v reflect.Value, f field, path string, secrets map[string]string) {
	switch t := v.Type(); {
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		fill(v.Elem(), f, path, secrets)
	case t.Kind() == reflect.Struct && !isText(t):
		for _, f := range fieldsOf(t) {
			fill(v.Field(f.index), f, joinPath(path, f.name), secrets)
		}
	case t.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(t))
		key, item := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if key.Kind() == reflect.String {
			key.SetString("any")
		}
		fill(item, f, joinPath(path, keyText(key)), secrets)
		v.SetMapIndex(key, item)
	case t.Kind() == reflect.Slice && !isText(t):
		v.Set(reflect.MakeSlice(t, 1, 1))
		fill(v.Index(0), f, indexPath(path, 0), secrets)
	case f.secret:
		secrets[path] = fmt.Sprintf("secret-%d", len(secrets))
		v.SetString(secrets[path])
	}
}

// Every key that the schema calls a secret is found, wherever it stands: what a later version adds too.
func TestSecretUses(t *testing.T) {
	cfg, want := &Config{}, map[string]string{}
	fill(reflect.ValueOf(cfg).Elem(), field{}, "", want)
	tagged := 0
	walkSections(reflect.TypeFor[Config](), "", func(_ string, t reflect.Type) {
		for _, f := range fieldsOf(t) {
			if f.secret {
				tagged++
			}
		}
	})
	if len(want) < 4 || len(want) != tagged {
		t.Fatalf("the test fills %d secrets, the schema has %d", len(want), tagged)
	}
	got := map[string]string{}
	for _, u := range SecretUses(cfg) {
		got[u.Path] = u.Name
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("found %v\nwant  %v", got, want)
	}
	if none := SecretUses(&Config{}); len(none) != 0 {
		t.Errorf("secrets of nothing: %v", none)
	}
}

// A secret that does not exist is refused wherever the schema lets one be named.
func TestUnknownSecretsAreRefused(t *testing.T) {
	cfg, want := &Config{}, map[string]string{}
	fill(reflect.ValueOf(cfg).Elem(), field{}, "", want)
	var refused []string
	for _, p := range check(cfg, Secrets{}).list {
		if strings.Contains(p.Message, "no secret of this name") {
			refused = append(refused, p.Path)
		}
	}
	for path := range want {
		if !slices.Contains(refused, path) {
			t.Errorf("%s: a secret that does not exist is not refused; refused: %q", path, refused)
		}
	}
}
