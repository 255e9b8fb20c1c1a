// SPDX-License-Identifier: Apache-2.0

// The configuration of a daemon as a tree: contexts ("router bgp 64500") hold lines and further contexts.
//
// FRR prints a context's content indented by one space more than its header, for every context that
// this package uses; end markers, comments and blank lines carry nothing. The order of lines differs between
// FRR versions and means nothing (prefix-list entries and route-map clauses are numbered), so two trees
// are compared as sets.
package routing

import (
	"slices"
	"strings"
)

// node is a line of configuration, and what stands below it when it opens a context.
type node struct {
	line string
	sub  []*node
}

// notOurs begin the lines of a running configuration that this package neither writes nor removes:
// the daemon's own header, and forwarding, which belongs to the kernel subsystem.
var notOurs = []string{
	"frr version ", "frr defaults ", "hostname ", "domainname ", "log ", "no log ", "service ",
	"ip forwarding", "ipv6 forwarding", "no ip forwarding", "no ipv6 forwarding", "line vty", "Building ", "Current ",
}

func isOurs(line string) bool {
	return !slices.ContainsFunc(notOurs, func(p string) bool { return strings.HasPrefix(line, p) })
}

// parse reads the text of Render or of "show running-config".
func parse(text string) *node {
	root := &node{}
	type level struct {
		indent int
		n      *node
	}
	stack := []level{{-1, root}}
	for raw := range strings.Lines(text) {
		line := strings.TrimRight(raw, " \r\n")
		words := strings.TrimLeft(line, " ")
		if words == "" || words[0] == '!' || words == "exit" || words == "exit-address-family" || words == "exit-vrf" || words == "end" {
			continue
		}
		indent := len(line) - len(words)
		if indent == 0 && !isOurs(words) {
			continue
		}
		for stack[len(stack)-1].indent >= indent {
			stack = stack[:len(stack)-1]
		}
		if strings.HasSuffix(words, " ebgp-multihop") { // newer versions leave the greatest value out
			words += " 255"
		}
		n := &node{line: words}
		parent := stack[len(stack)-1].n
		if indent == 0 && isContext(words) {
			// 8.4 and 10.3 both may print one context in several pieces.
			if old := parent.find(words); old != nil {
				n = old
			}
		}
		if n.sub == nil && parent.find(words) == nil {
			parent.sub = append(parent.sub, n)
		}
		stack = append(stack, level{indent, n})
	}
	root.prune()
	return root
}

// isContext says whether a line opens a context.
func isContext(line string) bool {
	return slices.ContainsFunc([]string{"router ", "interface ", "route-map ", "address-family ", "bfd", "vrf ", "key chain "}, func(p string) bool { return strings.HasPrefix(line, p) })
}

// prune drops interfaces, VRFs and families without content: they exist whether or not they are written.
func (n *node) prune() {
	kept := n.sub[:0]
	for _, c := range n.sub {
		c.prune()
		implied := strings.HasPrefix(c.line, "interface ") || strings.HasPrefix(c.line, "address-family ") || strings.HasPrefix(c.line, "vrf ") || c.line == "bfd"
		if implied && len(c.sub) == 0 {
			continue
		}
		kept = append(kept, c)
	}
	n.sub = kept
}

func (n *node) find(line string) *node {
	for _, c := range n.sub {
		if c.line == line {
			return c
		}
	}
	return nil
}

// mismatch lists the lines of want that have lacks ("+") and those it has beyond want ("-"), with their contexts.
func mismatch(have, want *node) []string {
	var out []string
	compare(have, want, "", &out)
	return out
}

func compare(have, want *node, path string, out *[]string) {
	for _, w := range want.sub {
		if h := have.find(w.line); h != nil {
			compare(h, w, path+w.line+" / ", out)
		} else {
			*out = append(*out, "+ "+path+redact(w.line))
		}
	}
	for _, h := range have.sub {
		if want.find(h.line) == nil {
			*out = append(*out, "- "+path+redact(h.line))
		}
	}
}

// redact replaces the secret in a line of configuration.
func redact(line string) string {
	for _, word := range []string{" password ", " md5 ", " key "} {
		if before, rest, ok := strings.Cut(line, word); ok && (word != " md5 " || strings.Contains(line, "message-digest-key")) {
			_, tail, more := strings.Cut(rest, "\n")
			line = before + word + "<hidden>"
			if more {
				line += "\n" + tail
			}
		}
	}
	return line
}
