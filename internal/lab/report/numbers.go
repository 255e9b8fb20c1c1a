// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"minne/internal/lab/result"
)

// JSON has no word for "not a number". A ratio of two zeros must not cost the
// report of a night, so such figures become 0 and a note says so.

// mostNamed is how many such figures the note names.
const mostNamed = 5

// numbers returns r itself when all its figures are numbers, or a copy with 0 in place of those that are not.
func numbers(r *result.Result) *result.Result {
	var found []string
	copied := copyFinite(reflect.ValueOf(*r), "", &found)
	if len(found) == 0 {
		return r
	}
	out := copied.Interface().(result.Result)
	named := strings.Join(found[:min(mostNamed, len(found))], ", ")
	if len(found) > mostNamed {
		named += ", …"
	}
	out.Notes = append(out.Notes[:len(out.Notes):len(out.Notes)], fmt.Sprintf("%d figures are not numbers and are shown as 0: %s", len(found), named))
	return &out
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// copyFinite copies v and adds the places of what it replaced to found.
func copyFinite(v reflect.Value, path string, found *[]string) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	if v.Type().Implements(marshaler) { // times and histograms: no fields that others see
		return out
	}
	switch v.Kind() {
	case reflect.Float64:
		if !finite(v.Float()) {
			*found = append(*found, strings.TrimPrefix(path, "."))
			out.SetFloat(0)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := path
			if !f.Anonymous {
				name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
				name = path + "." + name
			}
			out.Field(i).Set(copyFinite(v.Field(i), name, found))
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint64 || v.Type().Elem().Kind() == reflect.String || v.Len() == 0 {
			return out
		}
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(copyFinite(v.Index(i), fmt.Sprintf("%s[%d]", path, i), found))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(copyFinite(v.Elem(), path, found))
		}
	}
	return out
}
