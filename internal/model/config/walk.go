// SPDX-License-Identifier: Apache-2.0

package config

import "reflect"

// walk visits every value below v along the schema: sections, keys, items, each before what is inside.
// f is the key that a value stands behind, path its place in the file. See may set what it is given.
// Whatever is asked of all keys (which secrets, which interfaces, which defaults) is a walk, so that a
// key which is added later can't be forgotten.
func walk(v reflect.Value, f field, path string, see func(v reflect.Value, f field, path string)) {
	see(v, f, path)
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch {
	case isText(v.Type()):
	case v.Kind() == reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			walk(v.Field(f.index), f, joinPath(path, f.name), see)
		}
	case v.Kind() == reflect.Map:
		for _, k := range v.MapKeys() {
			walk(v.MapIndex(k), field{}, joinPath(path, keyText(k)), see)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), field{names: f.names}, indexPath(path, i), see)
		}
	}
}
