// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"fmt"
	"slices"

	"minne/internal/rib"
)

// Policy routing (ip rule). The program looks a destination up in table local, then in table main.
// What the rules say may be the same in other words: what counts is their order, not their
// priorities. The kernel's documentation of VRFs moves the rule for local behind the one for VRFs;
// that one is about packets of links in a VRF, which never take the fast path.

// rulesWords says why the rules of a family are more than the program can follow; "" when they are not.
func (t *tables) rulesWords(family uint8) string {
	if !t.ruled[family] {
		return ""
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
	local, main := false, false
	for i, r := range rules {
		switch {
		case r.Table == rib.TableLocal && !main:
			local = true
		case r.Table == rib.TableMain && local:
			main = true
		case main && (r.Table == rib.TableLocal || r.Table == rib.TableDefault):
		default:
			return fmt.Sprintf("ip rule of priority %d", r.Priority)
		}
		if i > 0 && rules[i-1].Priority == r.Priority {
			return fmt.Sprintf("several ip rules of priority %d", r.Priority)
		}
	}
	if !main {
		return "no ip rule for tables local and main"
	}
	return ""
}
