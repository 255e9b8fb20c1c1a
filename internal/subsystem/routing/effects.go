// SPDX-License-Identifier: Apache-2.0

// What a change of configuration does to the sessions with other routers, in words for a preview.
//
// The rules are FRR's: which settings make bgpd end a session (they are part of its opening, its transport, or its
// capabilities), and which are part of what OSPF routers must agree on in their hellos.
package routing

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"minne/internal/base/plan"
)

// trees returns the configuration of each daemon as a tree.
func (d Desired) trees() map[string]*node {
	t := map[string]*node{}
	for daemon, text := range d.text {
		t[daemon] = parse(text)
	}
	return t
}

// effects says what going from one state to another changes for other routers. It is pure. old and
// new know names of peers and the tables of interfaces.
func effects(have, want map[string]*node, old, new Desired) []plan.Change {
	e := &effect{old: old, new: new}
	name := func(at peerAt) string {
		for _, d := range []Desired{new, old} {
			if n, ok := d.peers[at]; ok {
				return n
			}
		}
		return at.address
	}
	for _, vrf := range vrfsOf("bgp", have[bgpd], want[bgpd]) {
		e.in = behindWords(vrf)
		e.bgp(vrf, orEmpty(have[bgpd]), orEmpty(want[bgpd]), name)
	}
	for _, o := range []struct{ title, process, daemon string }{{"OSPF", "ospf", ospfd}, {"OSPFv3", "ospf6", ospf6d}} {
		for _, vrf := range vrfsOf(o.process, have[o.daemon], want[o.daemon]) {
			e.in = behindWords(vrf)
			e.ospf(o.title, o.process, vrf, orEmpty(have[o.daemon]), orEmpty(want[o.daemon]))
		}
	}
	e.in = ""
	e.babel(orEmpty(have[babeld]), orEmpty(want[babeld]))
	return e.changes
}

func orEmpty(n *node) *node {
	if n == nil {
		return &node{}
	}
	return n
}

type effect struct {
	old, new Desired
	changes  []plan.Change
	in       string // behind what a change is about: " in VRF red"; "" for the main table
}

func (e *effect) add(a plan.Action, object, from, to, what string) {
	e.changes = append(e.changes, plan.Change{Subsystem: "routing", Action: a, Object: object + e.in, From: from, To: to, Effect: what})
}

// behindWords says in which VRF something is.
func behindWords(vrf string) string {
	if vrf == "" {
		return ""
	}
	return " in VRF " + vrf
}

// header reads the first line of a process: "router bgp 64500 vrf red" is bgp, 64500, red.
func header(line string) (process, asn, vrf string) {
	f := strings.Fields(line)
	if len(f) < 2 || f[0] != "router" {
		return "", "", ""
	}
	process, f = f[1], f[2:]
	if len(f) > 0 && f[0] != "vrf" {
		asn, f = f[0], f[1:]
	}
	if len(f) == 2 && f[0] == "vrf" {
		vrf = f[1]
	}
	return process, asn, vrf
}

// process returns the context of a protocol in a table, or nil.
func (n *node) process(name, vrf string) *node {
	for _, c := range n.sub {
		if p, _, in := header(c.line); p == name && in == vrf {
			return c
		}
	}
	return nil
}

// vrfsOf are the tables in which some of the trees have a protocol, "" for the main one.
func vrfsOf(process string, trees ...*node) (list []string) {
	for _, n := range trees {
		for _, c := range orEmpty(n).sub {
			if p, _, vrf := header(c.line); p == process && !slices.Contains(list, vrf) {
				list = append(list, vrf)
			}
		}
	}
	slices.Sort(list)
	return list
}

// asn is the AS number of a speaker.
func (n *node) asn() string {
	_, asn, _ := header(n.line)
	return asn
}

func (e *effect) bgp(vrf string, have, want *node, name func(peerAt) string) {
	h, w := have.process("bgp", vrf), want.process("bgp", vrf)
	switch {
	case h == nil && w == nil:
		return
	case h == nil:
		e.add(plan.Add, "BGP AS "+w.asn(), "", "", "")
		h = &node{}
	case w == nil:
		e.add(plan.Remove, "BGP AS "+h.asn(), "", "", "all BGP sessions"+e.in+" end")
		return
	}
	all := ""
	if h.line != "" && h.line != w.line {
		e.add(plan.Modify, "BGP AS number", h.asn(), w.asn(), "")
		all = "resets"
	}
	if from, to := identity(h, "bgp router-id "), identity(w, "bgp router-id "); h.line != "" && from != to {
		e.add(plan.Modify, "BGP router id", lastWord(from), lastWord(to), "")
		all = "resets"
	}
	e.bgpGlobals(h, w)
	old, new := peerLines(h), peerLines(w)
	for _, addr := range addresses(old, new) {
		called := name(peerAt{vrf, addr})
		e.peer(called, addr, old[addr], new[addr], all)
		if old[addr] != nil && new[addr] != nil {
			e.policy(called, have, want, old[addr], new[addr])
		}
	}
}

// bgpGlobals tells of announcements and settings of the whole speaker.
func (e *effect) bgpGlobals(h, w *node) {
	gone, added := lineDiff(flat(h), flat(w))
	for _, l := range gone {
		if p, ok := strings.CutPrefix(l, "network "); ok {
			e.add(plan.Remove, "BGP announcement of "+p, "", "", "")
		}
	}
	for _, l := range added {
		if p, ok := strings.CutPrefix(l, "network "); ok {
			e.add(plan.Add, "BGP announcement of "+p, "", "", "")
		}
	}
	if h.line == "" {
		return
	}
	const later = "each session takes it over when it starts next"
	for _, s := range []struct{ prefix, object, unset, effect string }{
		{"bgp graceful-restart restart-time ", "BGP restart time", "default", later},
		{"bgp graceful-restart preserve-fw-state", "BGP graceful restart", "off", later},
		{"maximum-paths ibgp ", "BGP multipath", "default", ""},
	} {
		from, to := first(with(flat(h), s.prefix)), first(with(flat(w), s.prefix))
		if from != to {
			e.add(plan.Modify, s.object, number(from, s.unset), number(to, s.unset), s.effect)
		}
	}
}

// resetting matches the settings of a session that end it when they change.
var resetting = regexp.MustCompile(`^(remote-as|password|passive|ebgp-multihop|interface|update-source|shutdown|capability|activate)\b`)

// session describes the settings of a peer that change without a reset.
var session = []struct{ word, object, effect string }{
	{"description", "description", ""},
	{"timers", "timers", "taken over when the session starts next"},
	{"bfd", "BFD", ""},
	{"maximum-prefix", "prefix limit", ""},
	{"next-hop-self", "next hop", ""},
	{"default-originate", "default route advertised", ""},
}

func (e *effect) peer(name, addr string, old, new []string, all string) {
	object := fmt.Sprintf("BGP peer %s (%s)", name, addr)
	switch {
	case old == nil:
		e.add(plan.Add, object, "", "", "")
		return
	case new == nil:
		e.add(plan.Remove, object, "", "", "BGP session "+name+" ends")
		return
	}
	gone, added := lineDiff(old, new)
	var why []string
	for _, l := range append(slices.Clone(gone), added...) {
		if m := resetting.FindString(trimFamily(l)); m != "" && !slices.Contains(why, m) {
			why = append(why, m)
		}
	}
	switch {
	case slices.Contains(added, "shutdown"):
		e.add(plan.Reset, object, "", "", "BGP session "+name+" ends")
	case slices.Contains(gone, "shutdown"):
		e.add(plan.Modify, object, "", "", "BGP session "+name+" starts")
	case len(why) > 0:
		e.add(plan.Reset, object+" "+strings.Join(why, ", "), "", "", "BGP session "+name+" resets")
	case all != "" && !slices.Contains(old, "shutdown"):
		e.add(plan.Reset, object, "", "", "BGP session "+name+" "+all)
	}
	for _, s := range session {
		from, to := with(familyless(old), s.word), with(familyless(new), s.word)
		if !slices.Equal(from, to) {
			e.add(plan.Modify, object+" "+s.object, value(from), value(to), s.effect)
		}
	}
}

// value joins the values of settings, each without its name.
func value(l []string) string {
	for i, s := range l {
		_, v, ok := strings.Cut(s, " ")
		if !ok {
			v = "on"
		}
		l[i] = v
	}
	return strings.Join(l, ", ")
}

// policy tells when the routes to or from a peer are filtered in another way. That never resets a session.
func (e *effect) policy(name string, have, want *node, old, new []string) {
	for _, dir := range []struct{ word, object, preference string }{
		{"in", "import from ", "set local-preference "}, {"out", "export to ", "set metric "},
	} {
		from, to := policyText(have, old, dir.word), policyText(want, new, dir.word)
		if slices.Equal(from, to) {
			continue
		}
		a, b := lastWord(first(with(from, dir.preference))), lastWord(first(with(to, dir.preference)))
		if a == b {
			a, b = "", ""
		}
		e.add(plan.Modify, "BGP "+dir.object+name, a, b, "routes are filtered again, the session stays")
	}
}

// policyText returns all lines that a peer's route maps of one direction mean, lists included.
func policyText(root *node, peer []string, direction string) []string {
	var out []string
	for _, l := range familyless(peer) {
		f := strings.Fields(l)
		if len(f) != 3 || f[0] != "route-map" || f[2] != direction {
			continue
		}
		for _, clause := range root.sub {
			c := strings.Fields(clause.line)
			if len(c) != 4 || c[0] != "route-map" || c[1] != f[1] {
				continue
			}
			out = append(out, clause.line)
			settings := slices.Clone(clause.sub)
			slices.SortFunc(settings, func(a, b *node) int { return strings.Compare(a.line, b.line) })
			for _, m := range settings {
				out = append(out, m.line)
				if strings.HasPrefix(m.line, "match ") {
					out = append(out, list(root, lastWord(m.line))...)
				}
			}
		}
	}
	return out
}

// list returns the entries of a prefix-list or AS-path list.
func list(root *node, name string) []string {
	var out []string
	for _, n := range root.sub {
		if rank(n.line) == 0 && strings.Contains(n.line, " "+name+" seq ") {
			out = append(out, n.line)
		}
	}
	slices.Sort(out)
	return out
}

// ospfResetting are the settings of an interface on which two OSPF routers must agree, or that stop OSPF there.
var ospfResetting = regexp.MustCompile(`^(?:ip ospf|ipv6 ospf6) (area|hello-interval|dead-interval|network|passive|authentication|message-digest-key)\b`)

func (e *effect) ospf(proto, process, vrf string, have, want *node) {
	h, w := have.process(process, vrf), want.process(process, vrf)
	switch {
	case h == nil && w == nil:
		return
	case h == nil:
		e.add(plan.Add, proto, "", "", "")
		h = &node{}
	case w == nil:
		e.add(plan.Remove, proto, "", "", "all "+proto+" adjacencies"+e.in+" end")
		return
	}
	all := false
	if from, to := identity(h, "router-id"), identity(w, "router-id"); from != "" && from != to {
		e.add(plan.Modify, proto+" router id", lastWord(from), lastWord(to), "")
		all = true
	}
	if h.line != "" {
		e.ospfProcess(proto, h, w)
	}
	areas := changedAreas(h, w)
	for _, name := range interfaces(have, want) {
		old, new := have.find("interface "+name), want.find("interface "+name)
		if in := map[bool]Desired{true: e.old, false: e.new}[new == nil]; in.tables[name] != vrf {
			continue
		}
		object := proto + " on " + name
		switch {
		case old == nil:
			e.add(plan.Add, object, "", "", "")
		case new == nil:
			e.add(plan.Remove, object, "", "", proto+" adjacency on "+name+" ends")
		default:
			e.ospfInterface(proto, name, old, new, all || slices.Contains(areas, lastWord(identity(old, " area "))))
		}
	}
}

func (e *effect) ospfProcess(proto string, h, w *node) {
	gone, added := lineDiff(flat(h), flat(w))
	for _, l := range gone {
		if !strings.Contains(l, "router-id") {
			e.add(plan.Remove, proto+" "+l, "", "", "")
		}
	}
	for _, l := range added {
		if !strings.Contains(l, "router-id") {
			e.add(plan.Add, proto+" "+l, "", "", "")
		}
	}
}

func (e *effect) ospfInterface(proto, name string, old, new *node, reset bool) {
	gone, added := lineDiff(flat(old), flat(new))
	var words []string
	for _, l := range append(gone, added...) {
		if m := ospfResetting.FindStringSubmatch(l); m != nil {
			reset = true
			if m[1] == "message-digest-key" {
				m[1] = "authentication"
			}
			if !slices.Contains(words, m[1]) {
				words = append(words, m[1])
			}
			continue
		}
		_, rest, _ := strings.Cut(l, "ospf")
		setting, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(rest, "6"), " "), " ")
		from, to := identity(old, " "+setting), identity(new, " "+setting)
		c := plan.Change{Subsystem: "routing", Action: plan.Modify, Object: proto + " " + setting + " on " + name + e.in, From: number(from, "default"), To: number(to, "default")}
		if !slices.ContainsFunc(e.changes, func(o plan.Change) bool { return o.String() == c.String() }) {
			e.changes = append(e.changes, c)
		}
	}
	if reset {
		object := proto + " on " + name
		if len(words) > 0 {
			object += " " + strings.Join(words, ", ")
		}
		e.add(plan.Reset, object, "", "", proto+" adjacency on "+name+" resets")
	}
}

// babel tells of interfaces and of what is redistributed.
func (e *effect) babel(have, want *node) {
	h, w := have.process("babel", ""), want.process("babel", "")
	switch {
	case h == nil && w == nil:
		return
	case h == nil:
		e.add(plan.Add, "Babel", "", "", "")
		h = &node{}
	case w == nil:
		e.add(plan.Remove, "Babel", "", "", "all routes of Babel go")
		return
	}
	gone, added := lineDiff(flat(h), flat(w))
	words := func(l string) string {
		f := strings.Fields(l)
		switch {
		case f[0] == "network":
			return "Babel on " + f[1]
		case len(f) == 3 && f[2] == "kernel":
			f[2] = "static"
		}
		return fmt.Sprintf("Babel %s %s (%s)", f[0], f[2], map[string]string{"ipv4": "IPv4", "ipv6": "IPv6"}[f[1]])
	}
	for _, l := range gone {
		c := plan.Change{Subsystem: "routing", Action: plan.Remove, Object: words(l)}
		if name, ok := strings.CutPrefix(l, "network "); ok {
			c.Effect = "routes through " + name + " go"
		}
		e.changes = append(e.changes, c)
	}
	for _, l := range added {
		e.add(plan.Add, words(l), "", "", "")
	}
	for _, l := range flat(w) {
		name, ok := strings.CutPrefix(l, "network ")
		if !ok || h.find(l) == nil {
			continue
		}
		old, new := babelLinkOf(orEmpty(have.find("interface "+name))), babelLinkOf(orEmpty(want.find("interface "+name)))
		if old != new {
			e.add(plan.Modify, "Babel on "+name, old.String(), new.String(), "")
		}
	}
}

// number returns the value of a setting, "on" when it has none, unset when there is no such line.
func number(line, unset string) string {
	w := lastWord(line)
	switch {
	case line == "":
		return unset
	case w[0] >= '0' && w[0] <= '9':
		return w
	}
	return "on"
}

// changedAreas returns the areas whose type changes: routers of an area must agree on it.
func changedAreas(h, w *node) []string {
	gone, added := lineDiff(with(flat(h), "area "), with(flat(w), "area "))
	var out []string
	for _, l := range append(gone, added...) {
		out = append(out, strings.Fields(l)[1])
	}
	return out
}

// peerLines returns the settings of each peer by address, those of a family with its header in front.
func peerLines(bgp *node) map[string][]string {
	out := map[string][]string{}
	var walk func(n *node, family string)
	walk = func(n *node, family string) {
		for _, c := range n.sub {
			if strings.HasPrefix(c.line, "address-family ") {
				walk(c, c.line+": ")
			}
			if rest, ok := strings.CutPrefix(c.line, "neighbor "); ok {
				addr, setting, _ := strings.Cut(rest, " ")
				out[addr] = append(out[addr], family+setting)
			}
		}
	}
	walk(bgp, "")
	return out
}

func trimFamily(l string) string {
	if _, rest, ok := strings.Cut(l, ": "); ok && strings.HasPrefix(l, "address-family ") {
		return rest
	}
	return l
}

func familyless(l []string) []string {
	out := make([]string, len(l))
	for i, s := range l {
		out[i] = trimFamily(s)
	}
	return out
}

// flat returns all lines below a context.
func flat(n *node) []string {
	var out []string
	for _, c := range n.sub {
		out = append(append(out, c.line), flat(c)...)
	}
	return out
}

func lineDiff(old, new []string) (gone, added []string) {
	for _, l := range old {
		if !slices.Contains(new, l) {
			gone = append(gone, l)
		}
	}
	for _, l := range new {
		if !slices.Contains(old, l) {
			added = append(added, l)
		}
	}
	return gone, added
}

// with returns the lines that begin with prefix, sorted.
func with(l []string, prefix string) []string {
	var out []string
	for _, s := range l {
		if strings.HasPrefix(s, prefix) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func first(l []string) string {
	if len(l) == 0 {
		return ""
	}
	return l[0]
}

func lastWord(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

// addresses returns the keys of both maps, sorted.
func addresses(a, b map[string][]string) []string {
	keys := append(sortedKeys(a), sortedKeys(b)...)
	slices.Sort(keys)
	return slices.Compact(keys)
}

func interfaces(a, b *node) []string {
	var out []string
	for _, n := range append(slices.Clone(a.sub), b.sub...) {
		if name, ok := strings.CutPrefix(n.line, "interface "); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
