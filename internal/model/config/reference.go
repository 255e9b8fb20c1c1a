// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"strings"
)

// referenceHead is what the reference page says before the sections.
const referenceHead = `# Reference of minne.yaml

This page is made from the schema in the source (go test ./internal/model/config -run
TestReference -update). Whole files to start from: [small](../examples/small.yaml),
[home](../examples/home.yaml), [campus](../examples/campus.yaml),
[VLANs](../examples/vlan.yaml), [a school with a DMZ](../examples/school.yaml). The
firewall's rules have [a page of their own](firewall-rules.md). Editors that know JSON Schema complete and check
the file by [minne.schema.json](minne.schema.json).

## The file

- YAML in UTF-8, one document of at most 4 MB. The order of keys never matters.
- Every key is known or refused; no key stands twice in its section. Anchors,
  aliases, merge keys, tags and directives are refused: what is written is what holds.
- A value means its text: 010 is not eight, 65001.10 is an AS number and not a
  fraction. Quotes are needed only where YAML needs them, as around "::/0".
- A file with any problem is refused whole. ` + "`minne check FILE`" + ` shows every problem
  with its line, a caret under the place, what was expected and what was probably meant.
- What is right but seldom meant is no problem but a warning: a router to the Internet without
  zones, and so without a firewall; private networks that nothing translates; a port forwarded to
  a host that is nowhere. check, apply and its dry run show warnings with their places.

## Values

| type | how it is written |
|---|---|
| IP address | 192.0.2.1, 2001:db8::1 |
| address/length | an address with the length of its network: 192.0.2.1/24, 2001:db8::1/64 |
| prefix | a network without host bits: 192.0.2.0/24, 2001:db8::/32 |
| next hop | an address, an address on an interface, or an interface: 198.51.100.1, fe80::1%lan, lan |
| range of addresses | its first and last address: 192.0.2.100-192.0.2.199 |
| MAC address | 52:54:00:12:34:56, also with dashes |
| AS number | 64500, or asdot 1.10 (RFC 5396) |
| time | with units from d, h, m, s, ms: 300ms, 90s, 1h30m |
| switch | on or off; also true or false, yes or no |
| speed | bit/s with a unit of bit, kbit, Mbit, Gbit, Tbit: 100Mbit, 2.5Gbit |
| AREA | an OSPF area as a number or a dotted quad: 0, 0.0.0.0 |
| NAME | a name that the operator chooses |

## Secrets

Passwords and keys stand in a file of their own beside the configuration
(/etc/minne/secrets.yaml), one ` + "`name: value`" + ` a line. It belongs to root and has mode
0600, or it is refused. The configuration says only the names; no command prints the values.
` + "`minne check FILE`" + ` on a machine that has no such file reads a secrets.yaml beside FILE.
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
		s.paths = append(s.paths, path)
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
