// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"reflect"
	"slices"
)

// Use is a place of a configuration that names something.
type Use struct {
	Path string // as routing.bgp.peers.isp.password
	Name string // of the secret, the interface or the file
}

// SecretUses returns every place that names a secret.
func SecretUses(cfg *Config) []Use { return uses(cfg, "secret") }

// InterfaceUses returns every place that names an interface of this configuration. Firewall rules name
// some too: package policy reads those.
func InterfaceUses(cfg *Config) []Use { return uses(cfg, "interface") }

// FileUses returns every place that names a file.
func FileUses(cfg *Config) []Use { return uses(cfg, "file") }

// uses goes by the tag `names` of the schema and by nothing else. The result is in the order of the paths.
func uses(cfg *Config, what string) (list []Use) {
	add := func(path, name string) {
		if name != "" {
			list = append(list, Use{path, name})
		}
	}
	walk(reflect.ValueOf(cfg).Elem(), field{}, "", func(v reflect.Value, f field, path string) {
		if f.names != what {
			return
		}
		switch named := v.Interface().(type) {
		case string:
			add(path, named)
		case NextHop:
			add(path, named.Interface)
		default:
			if v.Kind() == reflect.Map { // sections called after what they are for
				for _, k := range v.MapKeys() {
					add(joinPath(path, keyText(k)), keyText(k))
				}
			}
		}
	})
	slices.SortFunc(list, func(a, b Use) int { return cmp.Compare(a.Path, b.Path) })
	return list
}
