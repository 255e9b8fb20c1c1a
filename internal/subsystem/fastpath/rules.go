// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
)

// Policy routing (ip rule). The program looks a destination up in table local, then in table main.
// What the rules say may be the same in other words: what counts is their order, not their
// priorities. The kernel's documentation of VRFs moves the rule for local behind the one for VRFs;
// that one is about packets of links in a VRF, and of no others (vrf.go).
//
// Behind main, the kernel has a rule for table default, which is empty unless somebody puts routes there.
// Then it is asked for whatever main has no route to, destinations and sources: that is the kernel's.

// ownPolicy says that the file's own rules decide. They choose by more than the destination, which the program can't repeat yet:
// the kernel forwards their families.
const ownPolicy = "routing.policy"

// fallbackRoute identifies a route of table default.
type fallbackRoute struct {
	prefix, source netip.Prefix
	metric         uint32
	tos            uint8
}

// changeFallback takes a route of table default in or out.
func (t *tables) changeFallback(c *rib.RouteChange) {
	before := len(t.fallback)
	r := fallbackRoute{c.Route.Prefix, c.Route.Source, c.Route.Metric, c.Route.TOS}
	if c.Deleted {
		delete(t.fallback, r)
	} else {
		t.fallback[r] = t.round
	}
	if t.complete && (before == 0) != (len(t.fallback) == 0) {
		t.renderControl()
	}
}

// fallsBack says whether table default has routes of a family.
func (t *tables) fallsBack(family uint8) bool {
	for r := range t.fallback {
		if r.prefix.Addr().Is4() == (family == unix.AF_INET) {
			return true
		}
	}
	return false
}

// rulesWords says why the rules of a family are more than the program can follow; "" when they are not.
func (t *tables) rulesWords(family uint8) string {
	_, words := t.readRules(family)
	return words
}

// readRules reads the rules of a family: by which routes of main are passed over, and why they are more than the program
// can follow; "" when they are not.
func (t *tables) readRules(family uint8) (passRules, string) {
	if !t.ruled[family] {
		return passRules{}, ""
	}
	var rules []rib.Rule
	for r := range t.rules {
		if r.Family == family && !r.VRF {
			rules = append(rules, r)
		}
	}
	// Of one priority the kernel takes those that were made first; nothing tells which they were.
	slices.SortFunc(rules, func(a, b rib.Rule) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Table, b.Table))
	})
	policy := slices.ContainsFunc(rules, func(r rib.Rule) bool { return r.Policy })
	rules = slices.DeleteFunc(rules, func(r rib.Rule) bool { return r.Policy }) // named last: others are a fault
	local, main, pass := false, false, passRules{}
	for i, r := range rules {
		own := r.Table == rib.TableLocal || r.Table == rib.TableMain || r.Table == rib.TableDefault
		switch {
		case r.Table == rib.TableMain && r.Pass != 0 && local && !main && pass.group == 0:
			pass.group = r.Pass
		case r.Pass != 0:
			return passRules{}, fmt.Sprintf("ip rule of priority %d", r.Priority)
		case r.Table == rib.TableLocal && !main && pass.group == 0:
			local = true
		case r.Table == rib.TableMain && local:
			main = true
		case !own && r.Table != 0 && pass.group != 0 && pass.table == 0 && !main && rules[i-1].Pass != 0:
			pass.table = r.Table
		case main && r.Table == rib.TableDefault && t.fallsBack(family):
			return passRules{}, fmt.Sprintf("ip rule of priority %d: table default has routes", r.Priority)
		case main && (r.Table == rib.TableLocal || r.Table == rib.TableDefault):
		default:
			return passRules{}, fmt.Sprintf("ip rule of priority %d", r.Priority)
		}
		if i > 0 && rules[i-1].Priority == r.Priority {
			return passRules{}, fmt.Sprintf("several ip rules of priority %d", r.Priority)
		}
	}
	if !main {
		return passRules{}, "no ip rule for tables local and main"
	}
	if policy {
		return passRules{}, ownPolicy
	}
	if pass.table == 0 {
		return passRules{}, "" // what is passed over is found in main again
	}
	return pass, t.backupWords(family, pass)
}
