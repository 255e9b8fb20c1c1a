// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// This file turns YAML text into a tree of sections, lists and scalars that
// keeps the text of each scalar as it was written, and the place of everything.
// What makes a file mean other than what it shows is refused here: anchors and
// aliases, merge keys, tags, directives, several documents. So is what only
// serves to exhaust a parser: deep nesting and sections with tens of thousands
// of keys (the parser's time grows with their square).

const (
	maxDepth   = 32     // levels of nesting; the schema has eight
	maxEntries = 10_000 // keys in one section
)

type kind int

const (
	empty   kind = iota // a key with nothing behind it
	scalar              // text
	section             // keys and values
	list                // items
)

func (k kind) String() string {
	return [...]string{"nothing", "a single value", "a section with keys", "a list"}[k]
}

// node is one value of the file.
type node struct {
	kind    kind
	at      position
	text    string // of a scalar, escapes resolved
	quoted  bool   // a scalar in quotes or a block (| or >)
	entries []entry
	items   []*node

	byDefault bool // written by us: nobody asked for this value
}

// entry is one key of a section with its value.
type entry struct{ key, value *node }

// readYAML returns the tree of a file, or nil with problems noted. An empty file
// is an empty section.
func readYAML(data []byte, ps *problems) (root *node) {
	defer func() {
		if r := recover(); r != nil { // a defect of the YAML library must not take the daemon down
			ps.add(position{}, Problem{Message: fmt.Sprintf("the YAML reader failed: %v", r), Expected: "plain YAML of keys, values and lists"})
			root = nil
		}
	}()
	tokens := joinColons(lexer.Tokenize(string(data)), ps.source.lines)
	before := len(ps.list)
	if screenTokens(tokens, ps); len(ps.list) > before {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		ps.add(syntaxProblem(err))
		return nil
	}
	root = &node{kind: section, at: position{1, 1}}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if root, err = newNode(doc.Body); err != nil {
			ps.add(syntaxProblem(err))
			return nil
		}
	}
	return root
}

// screenTokens refuses what the tree can't or shall not hold.
func screenTokens(tokens token.Tokens, ps *problems) {
	nesting := nestingGauge{}
	started, ended := false, false
	for _, tk := range tokens {
		at := tokenPosition(tk)
		if ended && tk.Type != token.CommentType && tk.Type != token.DocumentEndType {
			ps.add(at, Problem{Message: "a second document", Expected: "one document in one file"})
			return
		}
		switch tk.Type {
		case token.CommentType:
			continue
		case token.InvalidType:
			ps.add(at, explainSyntax(tk.Error))
			return
		case token.AnchorType:
			ps.add(at, Problem{Message: "an anchor (&)", Expected: "every value written out; text that begins with & in quotes"})
		case token.AliasType:
			ps.add(at, Problem{Message: "an alias (*)", Expected: "every value written out; text that begins with * in quotes"})
		case token.TagType:
			ps.add(at, Problem{Message: "a tag (!)", Expected: "plain values; text that begins with ! in quotes"})
		case token.MergeKeyType:
			ps.add(at, Problem{Message: "a merge key (<<)", Expected: "every key written out"})
		case token.DirectiveType:
			ps.add(at, Problem{Message: "a YAML directive (%)", Expected: "the configuration's keys; text that begins with % in quotes"})
			return
		case token.MappingKeyType:
			ps.add(at, Problem{Message: "a complex key (?)", Expected: "key: value"})
			return
		case token.DocumentHeaderType:
			if started {
				ps.add(at, Problem{Message: "a second document", Expected: "one document in one file"})
				return
			}
		case token.DocumentEndType:
			ended = true
		}
		started = true
		if message := nesting.next(tk); message != "" {
			ps.add(at, Problem{Message: message, Expected: "a configuration"})
			return
		}
	}
}

// nestingGauge follows the depth of sections and lists along the tokens.
type nestingGauge struct{ levels []nestingLevel }

// nestingLevel is one open section or list: where it begins (0 in brackets) and its size.
type nestingLevel struct{ column, entries int }

// next takes a token into account and says what is too much, if anything.
func (g *nestingGauge) next(tk *token.Token) string {
	switch tk.Type {
	case token.MappingStartType, token.SequenceStartType:
		g.levels = append(g.levels, nestingLevel{})
	case token.MappingEndType, token.SequenceEndType:
		for i := len(g.levels) - 1; i >= 0; i-- {
			if g.levels[i].column == 0 {
				g.levels = g.levels[:i]
				break
			}
		}
	case token.MappingValueType:
		if tk.Prev != nil {
			g.open(tk.Prev.Position.Column)
		}
	case token.SequenceEntryType:
		g.open(tk.Position.Column)
	}
	n := len(g.levels)
	switch {
	case n > maxDepth:
		return fmt.Sprintf("more than %d levels of nesting", maxDepth)
	case n > 0 && g.levels[n-1].entries > maxEntries:
		return fmt.Sprintf("more than %d keys in one section", maxEntries)
	}
	return ""
}

// open counts one more entry of the block that begins in that column.
func (g *nestingGauge) open(column int) {
	n := len(g.levels)
	for n > 0 && g.levels[n-1].column > column {
		n--
	}
	g.levels = g.levels[:n]
	if n == 0 || g.levels[n-1].column != 0 && g.levels[n-1].column < column {
		g.levels = append(g.levels, nestingLevel{column: column})
		n++
	}
	g.levels[n-1].entries++
}

func tokenPosition(tk *token.Token) position {
	if tk == nil || tk.Position == nil {
		return position{}
	}
	return position{tk.Position.Line, max(tk.Position.Column, 1)}
}

// wrongYAML is a shape of YAML that the tree doesn't hold.
type wrongYAML struct {
	at position
	Problem
}

func (w *wrongYAML) Error() string { return w.Message }

// syntaxProblem turns an error of the YAML library into a problem with its place.
func syntaxProblem(err error) (position, Problem) {
	var shape *wrongYAML
	if errors.As(err, &shape) {
		return shape.at, shape.Problem
	}
	var syntax interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &syntax) {
		return tokenPosition(syntax.GetToken()), explainSyntax(syntax.GetMessage())
	}
	return position{}, explainSyntax("")
}

// syntaxWords say what the YAML library's commonest complaints mean for the operator.
var syntaxWords = map[string]Problem{
	"mapping value is not allowed in this context":                       {Message: "a colon inside a value", Expected: "quotes around text with ': ' in it; or is the line below indented too deep?"},
	"non-map value is specified":                                         {Message: "a line without a key", Expected: "key: value"},
	"unexpected key name":                                                {Message: "a line without a key", Expected: "key: value"},
	"value is not allowed in this context. map key-value is pre-defined": {Message: "indented deeper than the line above allows", Expected: "the same indentation as the key above"},
	"value is not allowed in this context":                               {Message: "a value where none is allowed", Expected: "key: value, with the keys of one section in one column"},
	"block sequence entries are not allowed in this context":             {Message: "a list item where none is allowed", Expected: "the items of a list on lines of their own"},
	"could not find end character of double-quoted text":                 {Message: "a quote that is never closed", Expected: `a closing "`},
	"could not find end character of single-quoted text":                 {Message: "a quote that is never closed", Expected: "a closing '"},
	"sequence end token ']' not found":                                   {Message: "a bracket that is never closed", Expected: "]"},
	"',' or ']' must be specified":                                       {Message: "a list in brackets breaks off", Expected: "a comma or ]"},
	"',' or '}' must be specified":                                       {Message: "a section in braces breaks off", Expected: "a comma or }"},
	"could not find flow mapping end token '}'":                          {Message: "a brace that is never closed", Expected: "}"},
	"could not find flow map content":                                    {Message: "a brace that is never closed", Expected: "}"},
	"could not find '[' character corresponding to ']'":                  {Message: "a ] without its ["},
	"could not find '{' character corresponding to '}'":                  {Message: "a } without its {"},
	"map key definition includes an implicit line break":                 {Message: "a key that goes over two lines", Expected: "a colon at the end of the key"},
	"found unexpected document separator":                                {Message: "a second document", Expected: "one document in one file"},
	"unexpected scalar value type":                                       {Message: "a value where none is allowed", Expected: "key: value"},
	"found an invalid key for this map":                                  {Message: "a key in no section's column", Expected: "the keys of one section in one column"},
	"value cannot be placed after document separator":                    {Message: "text behind the document separator", Expected: "a line of its own"},
	"": {Message: "not readable as YAML", Expected: "key: value"},
}

func explainSyntax(message string) Problem {
	if p, ok := syntaxWords[message]; ok {
		return p
	}
	return Problem{Message: "not readable as YAML: " + message}
}

// newNode converts the library's tree.
func newNode(from ast.Node) (*node, error) {
	switch n := from.(type) {
	case *ast.MappingNode:
		at := tokenPosition(n.Start)
		if !n.IsFlowStyle && len(n.Values) > 0 {
			at = tokenPosition(n.Values[0].Key.GetToken())
		}
		return newSection(at, n.Values)
	case *ast.MappingValueNode:
		return newSection(tokenPosition(n.Key.GetToken()), []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		to := &node{kind: list, at: tokenPosition(n.Start)}
		for _, v := range n.Values {
			item, err := newNode(v)
			if err != nil {
				return nil, err
			}
			to.items = append(to.items, item)
		}
		return to, nil
	case *ast.NullNode:
		if n.Token.Type == token.ImplicitNullType {
			return &node{kind: empty, at: tokenPosition(n.Token)}, nil
		}
		return &node{kind: empty, at: tokenPosition(n.Token), text: n.Token.Value}, nil
	case *ast.StringNode:
		quoted := n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
		return &node{kind: scalar, at: tokenPosition(n.Token), text: n.Value, quoted: quoted}, nil
	case *ast.LiteralNode:
		return &node{kind: scalar, at: tokenPosition(n.Start), text: n.Value.Value, quoted: true}, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		tk := n.GetToken()
		return &node{kind: scalar, at: tokenPosition(tk), text: tk.Value}, nil
	case nil:
		return nil, &wrongYAML{Problem: Problem{Message: "a value is missing", Expected: "key: value"}}
	}
	return nil, &wrongYAML{tokenPosition(from.GetToken()), Problem{Message: "a " + from.Type().YAMLName(), Expected: "plain keys, values and lists"}}
}

func newSection(at position, values []*ast.MappingValueNode) (*node, error) {
	to := &node{kind: section, at: at}
	for _, v := range values {
		key, err := newNode(v.Key)
		if err != nil {
			return nil, err
		}
		if key.kind != scalar {
			return nil, &wrongYAML{key.at, Problem{Message: "the key is not plain text", Expected: "key: value"}}
		}
		value, err := newNode(v.Value)
		if err != nil {
			return nil, err
		}
		to.entries = append(to.entries, entry{key, value})
	}
	return to, nil
}
