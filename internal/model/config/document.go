// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strings"
)

// Document is a file of another schema than the router's, read by the same strict rules and refused
// with the same messages: keys by the tags of schema.go, all problems at once. The tag `lines` lets a
// text have several lines.
type Document struct {
	src      *source
	problems *problems
}

// ReadDocument decodes a file into the struct that into points to. file is its name in messages,
// expected what an empty file lacks. What more is wrong is added with Refuse.
func ReadDocument(file string, data []byte, into any, expected string) (*Document, error) {
	src, text, ps := newSource(file, data)
	if err := ps.err(); err != nil {
		return nil, err
	}
	root := readYAML(text, ps)
	if err := ps.err(); err != nil {
		return nil, err
	}
	if root.kind == section && len(root.entries) == 0 {
		ps.add(position{}, Problem{Message: "the file is empty", Expected: expected})
		return nil, ps.err()
	}
	v := reflect.ValueOf(into).Elem()
	d := decoder{problems: ps, src: src, schema: v.Type()}
	d.value(root, v, field{}, "", position{1, 1})
	return &Document{src, ps}, ps.err()
}

// Refuse notes that what stands at a path as "nodes.router.ports" is wrong. A path that is not in the
// file stands for the nearest section around it.
func (d *Document) Refuse(path, message, expected, nearest string) {
	d.problems.add(d.src.place(path), Problem{Path: path, Message: message, Expected: expected, Nearest: nearest})
}

// Inline prepares a text of several lines that stands at a path (behind |) for a reader of its own:
// with as many empty lines in front that places in it are those in the document. indent is how much
// further right, in characters, each of its lines begins in the document.
func (d *Document) Inline(path, text string) (placed string, indent int) {
	line := d.src.at[path].line
	for i := line; i > 0 && i < len(d.src.lines); i++ {
		if bare := strings.TrimLeft(d.src.lines[i], " "); bare != "" {
			indent = len(d.src.lines[i]) - len(bare)
			break
		}
	}
	return strings.Repeat("\n", line) + text, indent
}

// Line returns the line of what stands at a path, from 1, or 0 when nothing does.
func (d *Document) Line(path string) int { return d.src.at[path].line }

// Err returns what was refused as an *Error, or nil.
func (d *Document) Err() error { return d.problems.err() }
