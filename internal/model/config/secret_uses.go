// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"reflect"
	"slices"
)

// SecretUse is a place of a configuration that names a secret.
type SecretUse struct {
	Path string // as routing.bgp.peers.isp.password
	Name string // of the secret
}

// SecretUses returns every place that names a secret, in the order of the paths. It goes by the tag
// `secret` of the schema and by nothing else, so that a key which is added later is not forgotten by
// those who watch, check or hide secrets.
func SecretUses(cfg *Config) []SecretUse {
	var uses []SecretUse
	secretsIn(reflect.ValueOf(cfg).Elem(), field{}, "", func(path, name string) {
		uses = append(uses, SecretUse{path, name})
	})
	slices.SortFunc(uses, func(a, b SecretUse) int { return cmp.Compare(a.Path, b.Path) })
	return uses
}

// secretsIn visits the secrets that a value names; f is the key it stands behind.
func secretsIn(v reflect.Value, f field, path string, visit func(path, name string)) {
	switch t := v.Type(); {
	case t.Kind() == reflect.Pointer:
		if !v.IsNil() {
			secretsIn(v.Elem(), f, path, visit)
		}
	case t.Kind() == reflect.Struct && !isText(t):
		for _, f := range fieldsOf(t) {
			secretsIn(v.Field(f.index), f, joinPath(path, f.name), visit)
		}
	case t.Kind() == reflect.Map:
		for _, k := range v.MapKeys() {
			secretsIn(v.MapIndex(k), f, joinPath(path, keyText(k)), visit)
		}
	case t.Kind() == reflect.Slice && !isText(t):
		for i := range v.Len() {
			secretsIn(v.Index(i), f, indexPath(path, i), visit)
		}
	case f.secret && v.Kind() == reflect.String && v.String() != "":
		visit(path, v.String())
	}
}
