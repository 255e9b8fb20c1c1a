// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
)

// Normalize completes a configuration, and returns it: keys that are absent get the default of their tag, and names
// without settings an empty section. Parse does it, so whoever reads a Config finds every default in
// place and never writes one; a program that builds a Config itself calls it at last. Absent sections
// stay absent: nil is what is not configured.
//
// What the operator wrote stays known (see Written), and is what Marshal writes: a default that another
// version changes is no change of the operator's.
func Normalize(cfg *Config) *Config {
	walk(reflect.ValueOf(cfg).Elem(), field{}, "", func(v reflect.Value, f field, path string) {
		switch {
		case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Pointer:
			for _, k := range v.MapKeys() {
				if v.MapIndex(k).IsNil() {
					v.SetMapIndex(k, reflect.New(v.Type().Elem().Elem()))
				}
			}
		case f.def != "" && v.IsZero() && !cfg.Written(path):
			setDefault(v, f)
		}
	})
	return cfg
}

// setDefault gives a key what its tag says. A tag that the decoder refuses is a defect of the schema,
// which its tests find.
func setDefault(v reflect.Value, f field) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if wrong := (&decoder{}).scalarText(&node{kind: scalar, text: f.def}, v, f); wrong != nil {
		panic(fmt.Sprintf("config: the default of %s: %s", f.name, wrong.message))
	}
}

// isDefault reports whether a value is what applies when its key is absent.
func isDefault(v reflect.Value, f field) bool {
	if f.def == "" {
		return false
	}
	def := reflect.New(v.Type()).Elem()
	setDefault(def, f)
	return def.Equal(v)
}

// Chosen reports whether the operator's file has a key and asks for something by it: a value other than
// the default, a section that is empty or has such a key. A key that only repeats what applies anyhow may
// stand where another value makes no sense.
func (cfg *Config) Chosen(path string) bool { return cfg.Written(path) && !cfg.source.idle[path] }

// Written reports whether the operator's file has a key. A configuration that a program built has no file.
func (cfg *Config) Written(path string) bool {
	if cfg.source == nil {
		return false
	}
	_, ok := cfg.source.at[path]
	return ok
}
