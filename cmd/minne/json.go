// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"reflect"
)

// print prints an answer as JSON, or for people as its own function does.
func (a *app) print(asJSON bool, v any, text func(io.Writer) error) error {
	if asJSON {
		return a.printJSON(v)
	}
	return text(a.out)
}

// printJSON prints an answer for programs. Its top is an object, and a list that has nothing
// in it is [], never null: who reads it needs no special cases.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	return e.Encode(withLists(v))
}

// withLists returns v with empty lists in the place of those that are nil. It changes what v
// points to.
func withLists(v any) any {
	if v == nil {
		return v
	}
	whole := reflect.New(reflect.TypeOf(v)).Elem()
	whole.Set(reflect.ValueOf(v))
	fillLists(whole)
	return whole.Interface()
}

func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fillLists(f)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // bytes are a string in JSON, or JSON already
			return
		}
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() && v.CanSet() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	}
}
