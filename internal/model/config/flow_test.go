// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// flatten writes a tree on one line, with @line:column behind each text.
func flatten(n *node, places bool) string {
	var b strings.Builder
	var walk func(n *node)
	walk = func(n *node) {
		switch n.kind {
		case scalar:
			b.WriteString(n.text)
			if places {
				fmt.Fprintf(&b, "@%d:%d", n.at.line, n.at.column)
			}
		case list:
			b.WriteByte('[')
			for i, item := range n.items {
				if i > 0 {
					b.WriteByte(' ')
				}
				walk(item)
			}
			b.WriteByte(']')
		case section:
			b.WriteByte('{')
			for i, e := range n.entries {
				if i > 0 {
					b.WriteByte(' ')
				}
				walk(e.key)
				b.WriteByte('=')
				walk(e.value)
			}
			b.WriteByte('}')
		}
	}
	walk(n)
	return b.String()
}

func tree(t *testing.T, text string) *node {
	t.Helper()
	src, data, ps := newSource("test.yaml", []byte(text))
	if src == nil || ps.err() != nil {
		t.Fatal(ps.err())
	}
	root := readYAML(data, ps)
	if err := ps.err(); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return root
}

func TestColonsInsideTexts(t *testing.T) {
	for text, want := range map[string]string{
		"a: [fe80::1%lan]":                         "{a=[fe80::1%lan]}",
		"{a: [fe80::1%lan]}":                       "{a=[fe80::1%lan]}",
		"{a: [fe80::1%lan, fe80::2%wan]}":          "{a=[fe80::1%lan fe80::2%wan]}",
		"{a: [::1, ::/0, 2001:db8::/32, fe80::]}":  "{a=[::1 ::/0 2001:db8::/32 fe80::]}",
		"{a: [52:54:00:12:34:56,1]}":               "{a=[52:54:00:12:34:56 1]}",
		"{a: 2001:db8::1, b: [::], c: ::1}":        "{a=2001:db8::1 b=[::] c=::1}",
		"{a: [\n  fe80::1%lan,\n  fe80::2%wan\n]}": "{a=[fe80::1%lan fe80::2%wan]}",
		"{a: [{b: [fe80::1%c]}, d]}":               "{a=[{b=[fe80::1%c]} d]}",
		"- {a: [b: c, d]}":                         "[{a=[{b=c} d]}]",
		"{a: [\"b\": c]}":                          "{a=[{b=c}]}",
		"{a: [日本::1, x]}":                          "{a=[日本::1 x]}",
		"a:\n  - fe80::1%lan\n  - {b: [c::d]}":     "{a=[fe80::1%lan {b=[c::d]}]}",
	} {
		if got := flatten(tree(t, text), false); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func TestPlacesOfTexts(t *testing.T) {
	for text, want := range map[string]string{
		"a: {b: [fe80::1%lan, ::2]}": "{a@1:1={b@1:5=[fe80::1%lan@1:9 ::2@1:22]}}",
		"# x\na:\r\n  b: \"日本\"\n":   "{a@2:1={b@3:3=日本@3:6}}",
		"日本: [x, \"y\"] # c\nb: 'c'": "{日本@1:1=[x@1:6 y@1:9] b@2:1=c@2:4}",
	} {
		if got := flatten(tree(t, text), true); !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
