// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
)

// This file makes the JSON Schema (draft 2020-12) of the configuration, for
// editors that complete and check YAML while it is typed. It says less than
// Parse and Check do: those decide.

// object is a JSON object; encoding/json writes its keys in order.
type object map[string]any

// JSONSchema returns the schema, indented, with a line end.
func JSONSchema() []byte {
	defs := object{}
	root := sectionSchema(reflect.TypeFor[Config](), defs)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Minne router configuration"
	for t, s := range scalarSchemas {
		defs[t.Name()] = s
	}
	root["$defs"] = defs
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("config: " + err.Error()) // maps, strings and numbers only
	}
	return append(text, '\n')
}

// scalarSchemas are the types with a text form. Numbers are allowed where YAML
// makes one of the text before the schema sees it.
var scalarSchemas = map[reflect.Type]object{
	reflect.TypeFor[netip.Addr]():   {"type": "string", "pattern": `^[0-9A-Fa-f.:]+$`, "description": addrForm},
	reflect.TypeFor[ASN]():          {"type": []string{"integer", "number", "string"}, "minimum": 1, "maximum": uint32(math.MaxUint32 - 1), "pattern": `^[0-9]+(\.[0-9]+)?$`, "description": asnForm},
	reflect.TypeFor[AreaID]():       {"type": []string{"integer", "string"}, "minimum": 0, "maximum": uint32(math.MaxUint32), "pattern": `^([0-9]+|([0-9]+\.){3}[0-9]+)$`, "description": areaForm},
	reflect.TypeFor[MAC]():          {"type": "string", "pattern": `^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$`, "description": macForm},
	reflect.TypeFor[Duration]():     {"type": "string", "pattern": `^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$`, "minLength": 2, "description": durationForm},
	reflect.TypeFor[Rate]():         {"type": "string", "pattern": `^[0-9]+(\.[0-9]{1,3})? *[kKmMgGtT]?[bB][iI][tT]$`, "description": rateForm},
	reflect.TypeFor[Prefix]():       {"type": "string", "pattern": `^[0-9A-Fa-f.:]+/[0-9]{1,3}$`, "description": prefixForm},
	reflect.TypeFor[Address]():      {"type": "string", "pattern": `^[0-9A-Fa-f.:]+/[0-9]{1,3}$`, "description": addressForm},
	reflect.TypeFor[NextHop]():      {"type": "string", "minLength": 1, "description": nextHopForm},
	reflect.TypeFor[AddressRange](): {"type": "string", "pattern": `^[0-9A-Fa-f.:]+ *- *[0-9A-Fa-f.:]+$`, "description": rangeForm},
	reflect.TypeFor[VLANRange]():    {"type": []string{"integer", "string"}, "minimum": 1, "maximum": 4094, "pattern": `^[0-9]+(-[0-9]+)?$`, "description": vlanRangeForm},
	reflect.TypeFor[CPURange]():     {"type": []string{"integer", "string"}, "minimum": 0, "maximum": mostCPU, "pattern": `^[0-9]+(-[0-9]+)?$`, "description": cpuRangeForm},
	reflect.TypeFor[SpanningTree](): {"enum": []any{"on", "off", "yes", "no", true, false}},
	onOffType:                       {"enum": []any{"on", "off", "yes", "no", true, false}},
}

// sectionSchema returns the schema of a section and adds those inside to defs.
func sectionSchema(t reflect.Type, defs object) object {
	properties, required := object{}, []string{}
	for _, f := range fieldsOf(t) {
		s := fieldSchema(f.typ, f, defs)
		s["description"] = f.doc
		if f.def != "" {
			s["default"] = jsonValue(f, f.def)
		}
		if f.example != "" {
			s["examples"] = []any{jsonValue(f, f.example)}
		}
		properties[f.name] = s
		if f.required {
			required = append(required, f.name)
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// fieldSchema returns the schema of what stands behind a key.
func fieldSchema(t reflect.Type, f field, defs object) object {
	switch {
	case t.Kind() == reflect.Pointer:
		return fieldSchema(t.Elem(), f, defs)
	case isText(t):
		return object{"$ref": "#/$defs/" + t.Name()}
	case t.Kind() == reflect.Struct:
		if _, known := defs[t.Name()]; !known {
			defs[t.Name()] = object{} // ends a recursion
			defs[t.Name()] = sectionSchema(t, defs)
		}
		return object{"$ref": "#/$defs/" + t.Name()}
	case t.Kind() == reflect.Map:
		names := object{"pattern": `^[^\s]+$`}
		if isText(t.Key()) {
			names = object{"$ref": "#/$defs/" + t.Key().Name()}
		}
		return object{"type": "object", "propertyNames": names, "additionalProperties": fieldSchema(t.Elem(), field{}, defs)}
	case t.Kind() == reflect.Slice:
		items := fieldSchema(t.Elem(), f, defs)
		if f.single {
			return object{"anyOf": []any{items, object{"type": "array", "items": items}}}
		}
		return object{"type": "array", "items": items}
	case t.Kind() == reflect.Bool:
		return object{"$ref": "#/$defs/" + onOffType.Name()}
	case len(f.words) == 1:
		return object{"const": jsonValue(f, f.words[0])}
	case len(f.words) > 1:
		return object{"enum": f.words}
	case t.Kind() == reflect.Int:
		s := object{"type": "integer", "minimum": f.min}
		if f.max != math.MaxInt32 {
			s["maximum"] = f.max
		}
		return s
	}
	return object{"type": "string", "minLength": 1}
}

// jsonValue returns the text of a default or example as a JSON value.
func jsonValue(f field, text string) any {
	t := f.typ
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && !isText(t) {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Uint32:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	if f.typ.Kind() == reflect.Slice {
		return []any{text}
	}
	return text
}

// typeWords says in a few words what stands behind a key, for the reference page.
func typeWords(t reflect.Type, f field) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return typeWords(t.Elem(), f)
	case t.Kind() == reflect.Slice && !isText(t) && f.single:
		return typeWords(t.Elem(), f) + ", or a list of them"
	case t.Kind() == reflect.Slice && !isText(t):
		return "list of " + plural(typeWords(t.Elem(), f))
	case t == addrType:
		return "IP address"
	case t == reflect.TypeFor[ASN]():
		return "AS number"
	case t == reflect.TypeFor[Address]():
		return "address/length"
	case t == reflect.TypeFor[Prefix]():
		return "prefix"
	case t == reflect.TypeFor[NextHop]():
		return "next hop"
	case t == reflect.TypeFor[AddressRange]():
		return "range of addresses"
	case t == reflect.TypeFor[VLANRange]():
		return "VLAN id or range"
	case t == reflect.TypeFor[CPURange]():
		return "CPU or range"
	case t == reflect.TypeFor[MAC]():
		return "MAC address"
	case t == reflect.TypeFor[Duration]():
		return "time"
	case t == reflect.TypeFor[Rate]():
		return "speed"
	case t.Kind() == reflect.Struct:
		return "section"
	case t.Kind() == reflect.Map && isText(t.Elem()):
		return typeWords(t.Elem(), f) + " for each " + placeholder(t.Key())
	case t.Kind() == reflect.Map:
		return "a section for each " + placeholder(t.Key())
	case t.Kind() == reflect.Bool:
		return "switch"
	case len(f.words) > 0:
		return "word"
	case t.Kind() == reflect.Int && f.max == math.MaxInt32:
		return fmt.Sprintf("number from %d", f.min)
	case t.Kind() == reflect.Int:
		return fmt.Sprintf("number %d to %d", f.min, f.max)
	}
	return "text"
}

func plural(word string) string {
	switch word {
	case "prefix":
		return "prefixes"
	case "IP address":
		return "IP addresses"
	case "VLAN id or range":
		return "VLAN ids and ranges"
	case "address/length":
		return "addresses with length"
	}
	return word + "s"
}
