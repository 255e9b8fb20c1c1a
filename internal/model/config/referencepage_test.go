// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"strings"
)

// referenceHead is what the reference page says before the sections.
const referenceHead = `# Reference of minne.yaml

This page is generated from the schema in the source (go test ./internal/model/config -run
TestReference -update). Complete files to start from: [small](../examples/small.yaml),
[home](../examples/home.yaml), [campus](../examples/campus.yaml),
[VLANs](../examples/vlan.yaml), [a school with a DMZ](../examples/school.yaml). The
grammar of firewall rules is on [its own page](firewall-rules.md). An editor that supports JSON Schema
can complete and check the file with [minne.schema.json](minne.schema.json).

## The file

- The file is YAML in UTF-8: one document of at most 4 MB. The order of keys does not matter.
- Unknown keys and duplicate keys are errors. So are YAML's anchors, aliases, merge keys, tags
  and directives: the file means exactly what it says.
- A value is its text: 010 is not eight, and 65001.10 is an AS number, not a fraction. Quotes
  are needed only where YAML needs them, as around "::/0".
- A file with an error is refused as a whole. ` + "`minne check FILE`" + ` shows every error with
  its line, a caret below the place, what was expected, and the nearest valid word.
- A warning marks what is valid but probably a mistake: a router on the Internet without zones,
  and so without a firewall; private networks without NAT; a port forward to a host that no
  route leads to. check, apply and its dry run show warnings with their places.

## Values

| type | how it is written |
|---|---|
| IP address | 192.0.2.1, 2001:db8::1 |
| address/length | an address with its prefix length: 192.0.2.1/24, 2001:db8::1/64 |
| prefix | a network without host bits: 192.0.2.0/24, 2001:db8::/32 |
| next hop | an address, an address on an interface, or an interface: 198.51.100.1, fe80::1%lan, lan |
| range of addresses | first and last address: 192.0.2.100-192.0.2.199 |
| MAC address | 52:54:00:12:34:56, also with dashes |
| AS number | 64500, or asdot 1.10 (RFC 5396) |
| time | numbers with the units d, h, m, s, ms: 300ms, 90s, 1h30m |
| switch | on or off; also true or false, yes or no |
| speed | a number with the unit bit, kbit, Mbit, Gbit or Tbit, per second: 100Mbit, 2.5Gbit |
| AREA | an OSPF area as a number or a dotted quad: 0, 0.0.0.0 |
| NAME | a name that you choose |

## Secrets

Passwords and keys are in a separate file (/etc/minne/secrets.yaml), one ` + "`name: value`" + ` on
each line. The file must belong to root and have mode 0600. The configuration contains only the names; no
command prints the values. On a machine without this file, ` + "`minne check FILE`" + ` reads
secrets.yaml in FILE's directory.
`

// Reference returns the reference page as Markdown, a table for each section.
func Reference() string {
	type section struct {
		paths []string
		typ   reflect.Type
	}
	var sections []*section
	byType := map[reflect.Type]*section{}
	walkSections(reflect.TypeFor[Config](), "", func(path string, t reflect.Type) {
		s := byType[t]
		if s == nil {
			s = &section{typ: t}
			byType[t] = s
			sections = append(sections, s)
		}
		if !repeats(path) {
			s.paths = append(s.paths, path)
		}
	})
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, s := range sections {
		title := strings.Join(s.paths, ", ")
		if title == "" {
			title = "Top of the file"
		}
		fmt.Fprintf(&b, "\n## %s\n\n| key | type | default | meaning |\n|---|---|---|---|\n", title)
		for _, f := range fieldsOf(s.typ) {
			b.WriteString(referenceRow(f))
		}
	}
	return b.String()
}

// referenceRow is a key's line in its table.
func referenceRow(f field) string {
	key := "`" + f.name + "`"
	if f.required {
		key += " (required)"
	}
	kind := typeWords(f.typ, f)
	if len(f.words) > 0 {
		kind = "`" + strings.Join(f.words, "`, `") + "`"
		if f.typ.Kind() == reflect.Slice {
			kind = "list of " + kind
		}
	}
	def := ""
	if f.def != "" {
		def = "`" + f.def + "`"
	}
	meaning := strings.ReplaceAll(f.doc, "|", `\|`)
	if f.example != "" {
		meaning += " Example: `" + f.example + "`"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", key, kind, def, meaning)
}
