// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// The question of an operation that only reads is a struct of words, numbers and yes or no. It travels in
// the address, and a command line fills it in. The tags of a field say how:
//
//	json:"limit"     its name in the address; "-" for what the daemon is not asked, but who prints the answer
//	flag:"lines,n"   a flag on the command line, with its letter; without this tag it is a word, in the fields' order
//	default:"1000"   its value when it is not given
//	values:"a,b"     the words that it can be
//	names:"interface" what it names, of which the shell offers those that there are
//	doc:"'number' of …"  for help texts; what stands in '' is the name of the value

// Field is one field of a question.
type Field struct {
	Name    string // in the address; "" for what the daemon is not asked
	Flag    string // "" for a word of the command line
	Letter  string // short form of the flag
	Default string
	Values  []string
	Names   string // what it names
	Doc     string
	Type    reflect.Type
	index   []int
}

// Fields are those of a question, a struct or a pointer to one; embedded ones are its own.
func Fields(question reflect.Type) (fields []Field) {
	if question.Kind() == reflect.Pointer {
		question = question.Elem()
	}
	for _, f := range reflect.VisibleFields(question) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		field := Field{Name: name, Default: f.Tag.Get("default"), Doc: f.Tag.Get("doc"), Names: f.Tag.Get("names"), Type: f.Type, index: f.Index}
		if name == "-" {
			field.Name = ""
		}
		field.Flag, field.Letter, _ = strings.Cut(f.Tag.Get("flag"), ",")
		if v := f.Tag.Get("values"); v != "" {
			field.Values = strings.Split(v, ",")
		}
		fields = append(fields, field)
	}
	return fields
}

// Set puts a text into the field of a question, a pointer to a struct.
func (f Field) Set(question any, text string) error {
	if f.Values != nil && !slices.Contains(f.Values, text) {
		last := len(f.Values) - 1
		return fmt.Errorf("%q: expected %s or %s", text, strings.Join(f.Values[:last], ", "), f.Values[last])
	}
	v := reflect.ValueOf(question).Elem().FieldByIndex(f.index)
	switch f.Type.Kind() {
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fmt.Errorf("%s %q: expected a number from 0", f.called(), text)
		}
		v.SetInt(int64(n))
	case reflect.Bool:
		yes, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%s %q: expected true or false", f.called(), text)
		}
		v.SetBool(yes)
	default:
		v.SetString(text)
	}
	return nil
}

func (f Field) called() string {
	if f.Name == "" {
		return f.Flag
	}
	return f.Name
}

// SetDefaults fills in a question what is not given.
func SetDefaults(question any) error {
	for _, f := range Fields(reflect.TypeOf(question)) {
		if f.Default != "" {
			if err := f.Set(question, f.Default); err != nil {
				return err
			}
		}
	}
	return nil
}

// address is where a question is asked. A field that is not given stands there only if it has a default,
// which it then is not.
func address(path string, question any) string {
	query := url.Values{}
	v := reflect.ValueOf(question).Elem()
	for _, f := range Fields(v.Type()) {
		text := fmt.Sprint(v.FieldByIndex(f.index).Interface())
		if hole := "{" + f.Name + "}"; strings.Contains(path, hole) {
			path = strings.Replace(path, hole, url.PathEscape(text), 1)
		} else if f.Name != "" && (f.Default != "" || !v.FieldByIndex(f.index).IsZero()) {
			query.Set(f.Name, text)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// readQuestion reads what is asked: out of the address, or the body.
func readQuestion(w http.ResponseWriter, r *http.Request, question any) error {
	if r.Method != http.MethodGet {
		return decodeBody(w, r, question)
	}
	if err := SetDefaults(question); err != nil {
		return err
	}
	given := r.URL.Query()
	for _, f := range Fields(reflect.TypeOf(question)) {
		text, asked := r.PathValue(f.Name), f.Name != "" && given.Has(f.Name)
		if asked {
			text = given.Get(f.Name)
		}
		delete(given, f.Name)
		if text == "" && !asked {
			continue
		}
		if err := f.Set(question, text); err != nil {
			return &Error{Kind: Failed, Message: err.Error()}
		}
	}
	for name := range given { // it would silently match all
		return &Error{Kind: Failed, Message: fmt.Sprintf("%q is no part of a question to %s", name, r.URL.Path)}
	}
	return nil
}
