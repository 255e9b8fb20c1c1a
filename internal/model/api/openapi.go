// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// operation is an Operation without its types.
type operation struct {
	method, path, short string
	root, goes          bool
	question, answer    reflect.Type
}

// object is a JSON object.
type object map[string]any

// Document describes all that the server answers, for programs: OpenAPI 3.1 (spec.openapis.org/oas/v3.1.1).
func (s *Server) Document() ([]byte, error) {
	d := document{schemas: object{}, types: map[string]reflect.Type{}}
	failure := object{"description": "It did not work", "content": content(d.schema(reflect.TypeFor[Failure]()))}
	paths := map[string]object{}
	for _, o := range s.operations {
		text := o.short + "."
		if o.root {
			text += " Only root may."
		}
		if o.goes {
			text += " The answer goes on: JSON values, one behind the other."
		}
		entry := object{
			"operationId": operationID(o), "summary": o.short, "description": text,
			"responses": object{"200": object{"description": "The answer", "content": content(d.schema(o.answer))}, "default": failure},
		}
		if parameters := d.parameters(o); len(parameters) > 0 {
			entry["parameters"] = parameters
		}
		if o.method != "GET" {
			entry["requestBody"] = object{"required": true, "content": content(d.schema(o.question))}
		}
		if paths[o.path] == nil {
			paths[o.path] = object{}
		}
		paths[o.path][strings.ToLower(o.method)] = entry
	}
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.1",
		"info": object{
			"title": "Minne", "version": "1",
			"description": "What the daemon of a router answers over HTTP on its unix socket, /run/minne/control.sock. " +
				"Whoever may open the socket may ask; what changes the router is for root.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":    []object{{"url": "http://minne", "description": "the unix socket, whatever the name"}},
		"paths":      paths,
		"components": object{"schemas": d.schemas},
	}, "", " ")
	return append(text, '\n'), err
}

// operationID is a name for programs: get_show_bgp_summary.
func operationID(o operation) string {
	words := strings.FieldsFunc(strings.TrimPrefix(o.path, "/v1"), func(r rune) bool { return r == '/' || r == '-' || r == '{' || r == '}' })
	return strings.ToLower(o.method) + "_" + strings.Join(words, "_")
}

func content(schema object) object {
	return object{"application/json": object{"schema": schema}}
}

// document collects the schemas of named types.
type document struct {
	schemas object
	types   map[string]reflect.Type
}

func (d *document) parameters(o operation) (list []object) {
	if o.method != "GET" {
		return nil
	}
	for _, f := range Fields(o.question) {
		if f.Name == "" {
			continue
		}
		schema, place := d.schema(f.Type), "query"
		if strings.Contains(o.path, "{"+f.Name+"}") {
			place = "path"
		}
		if f.Values != nil {
			schema["enum"] = f.Values
		}
		if f.Default != "" {
			schema["default"] = f.Default
			if f.Type.Kind() != reflect.String {
				schema["default"] = json.RawMessage(f.Default)
			}
		}
		p := object{"name": f.Name, "in": place, "required": place == "path", "schema": schema}
		if f.Doc != "" {
			p["description"] = strings.ReplaceAll(f.Doc, "'", "")
		}
		list = append(list, p)
	}
	return list
}

// schema describes the JSON of a type (JSON Schema 2020-12).
func (d *document) schema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[time.Duration]():
		return object{"type": "integer", "description": "nanoseconds"}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{}
	case t.Kind() == reflect.Pointer:
		return d.schema(t.Elem())
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return object{"type": "string"}
	case t.Implements(reflect.TypeFor[json.Marshaler]()): // those that there are become numbers
		return object{"type": "number"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		schema := object{"type": "array", "items": d.schema(t.Elem())}
		if t.Kind() == reflect.Array {
			schema["minItems"], schema["maxItems"] = t.Len(), t.Len()
		} else {
			schema["type"] = []string{"array", "null"} // null is an empty list
		}
		return schema
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": d.schema(t.Elem())}
	case reflect.Struct:
		return d.named(t)
	}
	return object{"type": "integer"}
}

// named describes a struct once, under its name.
func (d *document) named(t reflect.Type) object {
	name := t.Name()
	if name == "" {
		return d.structure(t)
	}
	if had := d.types[name]; had != nil && had != t { // another package's
		name = strings.ToUpper(t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:][:1]) + t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+2:] + name
	}
	if d.types[name] == nil {
		d.types[name] = t
		d.schemas[name] = d.structure(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (d *document) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		tag := strings.Split(f.Tag.Get("json"), ",")
		if f.Anonymous && tag[0] == "" || !f.IsExported() || tag[0] == "-" || !d.reaches(t, f) {
			continue
		}
		if tag[0] == "" {
			panic(fmt.Sprintf("%s.%s has no name in JSON", t, f.Name)) // a test makes the document
		}
		properties[tag[0]] = d.schema(f.Type)
		if len(tag) == 1 && !pointerAbove(t, f) {
			required = append(required, tag[0])
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}

// reaches says whether a field of an embedded struct is the outer one's in JSON: it is unless that has a
// name of its own there.
func (d *document) reaches(t reflect.Type, f reflect.StructField) bool {
	for i := 1; i < len(f.Index); i++ {
		if name, _, _ := strings.Cut(t.FieldByIndex(f.Index[:i]).Tag.Get("json"), ","); name != "" {
			return false
		}
	}
	return true
}

// pointerAbove says whether a field is of an embedded struct that may be absent.
func pointerAbove(t reflect.Type, f reflect.StructField) bool {
	for i := 1; i < len(f.Index); i++ {
		if t.FieldByIndex(f.Index[:i]).Type.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}
