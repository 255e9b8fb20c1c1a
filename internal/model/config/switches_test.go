// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"testing"
)

// Every switch of the schema takes the same words, whatever its type in Go.
func TestSwitchesAreAlike(t *testing.T) {
	switches := 0
	walkSections(reflect.TypeFor[Config](), "", func(path string, s reflect.Type) {
		for _, f := range fieldsOf(s) {
			typ := f.typ
			if typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
			if typ.Kind() != reflect.Bool {
				continue
			}
			switches++
			for word, want := range map[string]bool{"on": true, "true": true, "yes": true, "off": false, "false": false, "no": false} {
				v := reflect.New(typ).Elem()
				if wrong := new(decoder).scalarText(&node{kind: scalar, text: word}, v, f); wrong != nil || v.Bool() != want {
					t.Errorf("%s.%s: %s gives %v, %v", path, f.name, word, v, wrong)
				}
			}
			if wrong := new(decoder).scalarText(&node{kind: scalar, text: "Enabled"}, reflect.New(typ).Elem(), f); wrong == nil || wrong.nearest != "on" {
				t.Errorf("%s.%s: Enabled gives %v", path, f.name, wrong)
			}
			if f.def != "" && f.def != "on" && f.def != "off" {
				t.Errorf("%s.%s: the default is written %q", path, f.name, f.def)
			}
		}
	})
	if switches < 10 {
		t.Errorf("only %d switches", switches)
	}
	for _, word := range []string{"on", "true", "yes"} {
		cfg, err := Parse("nat.yaml", fmt.Appendf(nil, "version: 1\nnat: [{from: lan, to: wan, masquerade: %s}]\n", word))
		if err != nil || !cfg.NAT[0].Masquerade {
			t.Errorf("masquerade: %s: %v", word, err)
		}
	}
}
