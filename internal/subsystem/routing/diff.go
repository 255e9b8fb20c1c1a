// SPDX-License-Identifier: Apache-2.0

// From one configuration to another with the fewest commands.
//
// Three kinds of line need three treatments. A setting that its command overwrites (a cost, a timer) is just
// sent anew. Anything else is removed by "no" before its successor is added. A few lines are identities
// (a peer's AS number, a router id): when they change, what they identify is removed whole and built again.
//
// Order: lists and route maps come before the sessions that use them, and go after them, so that no
// session ever runs with a policy that is not there yet.
package routing

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// overwritten matches settings that FRR replaces when the command comes again; what
// matches is the identity of the setting.
var overwritten = []*regexp.Regexp{
	regexp.MustCompile(`^bgp route-map delay-timer `),
	regexp.MustCompile(`^bgp router-id `),
	regexp.MustCompile(`^bgp graceful-restart restart-time `),
	regexp.MustCompile(`^maximum-paths (ibgp )?`),
	regexp.MustCompile(`^neighbor \S+ (description|password|timers connect|ebgp-multihop|update-source|maximum-prefix) `),
	regexp.MustCompile(`^neighbor \S+ timers \d`),
	regexp.MustCompile(`^set (local-preference|metric|tag|as-path prepend) `),
	regexp.MustCompile(`^match (tag|as-path) `),
	regexp.MustCompile(`^match \S+ address prefix-list `),
	regexp.MustCompile(`^(ip ospf|ipv6 ospf6) (cost|hello-interval|dead-interval|priority) `),
	regexp.MustCompile(`^auto-cost reference-bandwidth `),
	regexp.MustCompile(`^redistribute (kernel|connected|bgp)\b`), // of OSPF; Babel names the family first
}

var neighborMap = regexp.MustCompile(`^neighbor (\S+) route-map \S+ (in|out)$`)

// setting returns the identity of an overwritable setting, or "" for other lines.
func setting(line string) string {
	if m := neighborMap.FindStringSubmatch(line); m != nil {
		return "neighbor " + m[1] + " route-map " + m[2]
	}
	for _, re := range overwritten {
		if m := re.FindString(line); m != "" {
			if strings.Contains(m, " timers ") && !strings.HasSuffix(m, "connect ") {
				return m[:len(m)-1]
			}
			return m
		}
	}
	return ""
}

// rank orders top-level lines by who refers to whom: lists, route maps, the rest.
func rank(line string) int {
	switch {
	case strings.Contains(line, "prefix-list ") || strings.Contains(line, "access-list "):
		return 0
	case strings.HasPrefix(line, "route-map "):
		return 1
	case strings.HasPrefix(line, "interface "):
		return 2
	}
	return 3
}

// difference returns the commands that turn have into want, as typed after "configure terminal".
// It returns nothing when they are equal.
func difference(have, want *node) []string {
	have, early := dropIdentities(have, want)
	d := &differ{out: early}
	d.level(have, want, true)
	return d.out
}

type differ struct {
	out []string
}

// level compares the content of one context.
func (d *differ) level(have, want *node, top bool) {
	gone, added := d.changes(have, want)
	if top {
		slices.SortStableFunc(added, func(a, b *node) int { return cmp.Compare(rank(a.line), rank(b.line)) })
		slices.SortStableFunc(gone, func(a, b *node) int { return cmp.Compare(rank(b.line), rank(a.line)) })
	}
	// What stands in the way of an addition goes first; at top level the rest goes last.
	var last []*node
	for _, g := range gone {
		if top && !blocksAddition(g.line, added) {
			last = append(last, g)
			continue
		}
		d.remove(g)
	}
	for _, a := range added {
		d.add(a, have.find(a.line))
	}
	for _, g := range last {
		d.remove(g)
	}
}

// changes returns the lines to remove and the lines to add or contexts to visit.
func (d *differ) changes(have, want *node) (gone, added []*node) {
	replaced := map[string]bool{}
	for _, w := range want.sub {
		if isBabelSetting(w.line) {
			continue
		}
		h := have.find(w.line)
		if h == nil {
			added = append(added, w)
			replaced[setting(w.line)] = true
		} else if len(mismatch(h, w)) > 0 {
			added = append(added, w)
		}
	}
	for _, h := range have.sub {
		if isBabelSetting(h.line) {
			continue
		}
		if s := setting(h.line); want.find(h.line) != nil || s != "" && replaced[s] {
			continue
		}
		gone = append(gone, h)
	}
	return gone, added
}

var numbered = regexp.MustCompile(`^(?:(?:ip|ipv6) prefix-list|bgp as-path access-list) \S+ seq \d+ |^route-map \S+ `)

// blocksAddition says whether a line must be removed before its successor can be added:
// another entry with the same number, or another BGP speaker.
func blocksAddition(line string, added []*node) bool {
	id := numbered.FindString(line)
	if strings.HasPrefix(line, "route-map ") {
		id = routeMapClause(line)
	}
	for _, a := range added {
		switch {
		case strings.HasPrefix(line, "router bgp ") && strings.HasPrefix(a.line, "router bgp "):
			return true
		case strings.HasPrefix(line, "route-map "):
			if strings.HasPrefix(a.line, "route-map ") && routeMapClause(a.line) == id {
				return true
			}
		case id != "" && strings.HasPrefix(a.line, id):
			return true
		}
	}
	return false
}

// routeMapClause identifies a clause without its action: "route-map NAME permit 10" → "NAME 10".
func routeMapClause(line string) string {
	f := strings.Fields(line)
	if len(f) != 4 {
		return line
	}
	return f[1] + " " + f[3]
}

func (d *differ) remove(n *node) {
	switch {
	case strings.HasPrefix(n.line, "interface "), strings.HasPrefix(n.line, "address-family "):
		d.out = append(d.out, n.line)
		d.out = append(d.out, babelLinkOf(n).become(babelWireless)...)
		for _, c := range slices.Backward(n.sub) {
			if !isBabelSetting(c.line) {
				d.remove(c)
			}
		}
		d.out = append(d.out, leave(n.line))
	case strings.HasPrefix(n.line, "no "):
		d.out = append(d.out, n.line[len("no "):])
	default:
		d.out = append(d.out, "no "+n.line)
	}
}

// add sends a line, or visits a context; old is the context as it is, nil when it is new.
func (d *differ) add(n, old *node) {
	if !isContext(n.line) {
		d.out = append(d.out, n.line)
		return
	}
	if old == nil {
		old = &node{}
	}
	d.out = append(d.out, n.line)
	if strings.HasPrefix(n.line, "interface ") {
		d.out = append(d.out, babelLinkOf(old).become(babelLinkOf(n))...)
	}
	d.level(old, n, false)
	d.out = append(d.out, leave(n.line))
}

// isBabelSetting says whether a line is one of an interface in Babel, which have commands of their own; see babelLink.
func isBabelSetting(line string) bool { return strings.HasPrefix(line, "babel ") }

// leave returns the command that ends a context.
func leave(header string) string {
	if strings.HasPrefix(header, "address-family ") {
		return "exit-address-family"
	}
	return "exit"
}

var remoteAS = regexp.MustCompile(`^neighbor (\S+) remote-as \d+$`)

// dropIdentities removes whole what changes its identity: it returns have without it, and the commands that do so.
func dropIdentities(have, want *node) (*node, []string) {
	var out []string
	left := &node{line: have.line}
	for _, h := range have.sub {
		w := want.find(h.line)
		switch {
		case strings.HasPrefix(h.line, "router ospf") && w != nil && identity(h, "router-id") != identity(w, "router-id"):
			out = append(out, "no "+h.line)
			continue
		case strings.HasPrefix(h.line, "router bgp ") && w != nil:
			peers := changedPeers(h, w)
			if len(peers) > 0 {
				out = append(out, h.line)
				for _, p := range peers {
					out = append(out, "no neighbor "+p)
					h = h.without("neighbor " + p + " ")
				}
				out = append(out, "exit")
			}
		}
		left.sub = append(left.sub, h)
	}
	return left, out
}

// identity returns the first line of a context that contains word.
func identity(n *node, word string) string {
	for _, c := range n.sub {
		if strings.Contains(c.line, word) {
			return c.line
		}
	}
	return ""
}

// changedPeers returns the addresses of peers that are gone or have another AS number.
func changedPeers(have, want *node) []string {
	var out []string
	for _, c := range have.sub {
		if m := remoteAS.FindStringSubmatch(c.line); m != nil && want.find(c.line) == nil {
			out = append(out, m[1])
		}
	}
	return out
}

// without returns a copy of the tree without the lines that begin with prefix.
func (n *node) without(prefix string) *node {
	cp := &node{line: n.line}
	for _, c := range n.sub {
		if !strings.HasPrefix(c.line, prefix) {
			cp.sub = append(cp.sub, c.without(prefix))
		}
	}
	return cp
}
