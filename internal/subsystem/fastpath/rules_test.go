// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/model/rib"
)

// TestRules: lists of rules that say the same as the kernel's first ones keep the fast path, others don't.
func TestRules(t *testing.T) {
	to := func(priority, table uint32) rib.Rule {
		return rib.Rule{Family: unix.AF_INET, Priority: priority, Table: table}
	}
	pass := func(priority uint32) rib.Rule {
		return rib.Rule{Family: unix.AF_INET, Priority: priority, Table: rib.TableMain, Pass: 77}
	}
	own := rib.Rule{Family: unix.AF_INET, Priority: 20001, Policy: true}
	vrf := rib.Rule{Family: unix.AF_INET, Priority: 1000, VRF: true}
	route := map[fallbackRoute]uint8{{prefix: netip.MustParsePrefix("203.0.113.0/24")}: 0}
	route6 := map[fallbackRoute]uint8{{prefix: netip.MustParsePrefix("2001:db8::/32")}: 0}
	for _, c := range []struct {
		name     string
		fallback map[fallbackRoute]uint8
		rules    []rib.Rule
		words    string // in the refusal
	}{
		{"the kernel's own", nil, []rib.Rule{to(0, rib.TableLocal), to(32766, rib.TableMain), to(32767, rib.TableDefault)}, ""},
		{"as the VRF documentation has them", nil, []rib.Rule{vrf, to(32765, rib.TableLocal), to(32766, rib.TableMain), to(32767, rib.TableDefault)}, ""},
		{"other numbers, and twice", nil, []rib.Rule{to(5, rib.TableLocal), to(6, rib.TableLocal), to(7, rib.TableMain), to(8, rib.TableLocal)}, ""},
		{"another table first", nil, []rib.Rule{to(0, rib.TableLocal), to(100, 100), to(32766, rib.TableMain)}, "priority 100"},
		{"another table last", nil, []rib.Rule{to(0, rib.TableLocal), to(32766, rib.TableMain), to(40000, 100)}, "priority 40000"},
		{"a rule that chooses", nil, []rib.Rule{to(0, rib.TableLocal), to(50, 0), to(32766, rib.TableMain)}, "priority 50"},
		{"main before local", nil, []rib.Rule{to(10, rib.TableMain), to(32765, rib.TableLocal)}, "priority 10"},
		{"default before main", nil, []rib.Rule{to(0, rib.TableLocal), to(10, rib.TableDefault), to(32766, rib.TableMain)}, "priority 10"},
		{"both of one priority", nil, []rib.Rule{to(7, rib.TableLocal), to(7, rib.TableMain)}, "priority 7"},
		{"without main", nil, []rib.Rule{to(0, rib.TableLocal)}, "no ip rule"},
		{"main passed over, and another table behind", nil, []rib.Rule{to(0, rib.TableLocal), pass(100), to(101, 4711), to(32766, rib.TableMain)}, ""},
		{"main passed over, and main again", nil, []rib.Rule{to(0, rib.TableLocal), pass(100), to(32766, rib.TableMain)}, ""},
		{"main passed over before local", nil, []rib.Rule{pass(100), to(101, 4711), to(1000, rib.TableLocal), to(32766, rib.TableMain)}, "priority 100"},
		{"the other table first", nil, []rib.Rule{to(0, rib.TableLocal), to(99, 4711), pass(100), to(32766, rib.TableMain)}, "priority 99"},
		{"two other tables", nil, []rib.Rule{to(0, rib.TableLocal), pass(100), to(101, 4711), to(102, 4712), to(32766, rib.TableMain)}, "priority 102"},
		{"passed over twice", nil, []rib.Rule{to(0, rib.TableLocal), pass(100), pass(101), to(32766, rib.TableMain)}, "priority 101"},
		{"the file's own", nil, []rib.Rule{to(0, rib.TableLocal), own, to(32766, rib.TableMain)}, ownPolicy},
		{"the file's own and another's", nil, []rib.Rule{to(0, rib.TableLocal), own, to(50, 0), to(32766, rib.TableMain)}, "priority 50"},
		{"none at all", nil, []rib.Rule{}, "no ip rule"},
		{"none was told", nil, nil, ""},
		{"routes of table default", route, []rib.Rule{to(0, rib.TableLocal), to(32766, rib.TableMain), to(32767, rib.TableDefault)}, "table default has routes"},
		{"of the other family", route6, []rib.Rule{to(0, rib.TableLocal), to(32766, rib.TableMain), to(32767, rib.TableDefault)}, ""},
		{"without a rule for it", route, []rib.Rule{to(0, rib.TableLocal), to(32766, rib.TableMain)}, ""},
	} {
		tables := &tables{fallback: c.fallback, rules: map[rib.Rule]uint8{}, ruled: map[uint8]bool{unix.AF_INET: c.rules != nil}}
		for _, r := range c.rules {
			tables.rules[r] = 0
		}
		if words := tables.rulesWords(unix.AF_INET); c.words == "" && words != "" || !strings.Contains(words, c.words) {
			t.Errorf("%s: %q, expected %q", c.name, words, c.words)
		}
	}
}

// TestEquivalentRules has the kernel's documentation of VRFs followed (Documentation/networking/vrf.rst),
// and the rules taken away: without the one for table main nothing is forwarded.
func TestEquivalentRules(t *testing.T) {
	b := newBench(t)
	all := b.ways()
	b.holds(all, "", Forwarded)
	for _, family := range []string{"-4", "-6"} {
		ip(t, family, "rule", "add", "pref", "32765", "table", "local")
		ip(t, family, "rule", "del", "pref", "0")
		defer ip(t, family, "rule", "del", "pref", "32765")
		defer ip(t, family, "rule", "add", "pref", "0", "table", "local")
	}
	b.settled(all, "", Forwarded)
	policy := Reason(routerReasonREASON_POLICY_RULES)
	for i, family := range []string{"-4", "-6"} {
		held := []string{"02", "13"}[i]
		ip(t, family, "rule", "del", "pref", "32766")
		b.holds(all, held, policy)
		for j, w := range all {
			if strings.Contains(held, string(rune('0'+j))) {
				dropped(t, w)
			} else {
				passes(t, w)
			}
		}
		ip(t, family, "rule", "add", "pref", "32766", "table", "main")
		b.holds(all, "", Forwarded)
	}
}

// TestTableDefault: the kernel asks table default for what main has no route to, also for the source of
// a packet (rp_filter). While it has routes, the family is the kernel's.
func TestTableDefault(t *testing.T) {
	b := newBench(t)
	sysctl(t, "ipv4/conf/in/rp_filter", "1")
	all := b.ways()
	stranger := *all[0]
	stranger.frame = source4(stranger.frame, "203.0.113.7")
	spoofed := func() bool { return b.run(stranger.frame, b.in).Reason == Reason(routerReasonREASON_SPOOFED) }
	eventually(t, "a source without a route", spoofed)
	dropped(t, &stranger)
	ip(t, "route", "add", "203.0.113.0/24", "via", "192.0.2.2", "table", "default")
	b.holds(all, "02", Reason(routerReasonREASON_POLICY_RULES))
	passes(t, &stranger)
	ip(t, "route", "del", "203.0.113.0/24", "table", "default")
	b.holds(all, "", Forwarded)
	eventually(t, "a source without a route, again", spoofed)
}

// TestBroadcastSources: once there has been a rule of one's own, the kernel looks at every source, and drops broadcast addresses.
func TestBroadcastSources(t *testing.T) {
	b := newBench(t)
	ip(t, "rule", "add", "pref", "32765", "table", "local")
	ip(t, "rule", "del", "pref", "32765")
	all := b.ways()
	b.settled(all, "", Forwarded)
	stranger := *all[0]
	stranger.frame = source4(stranger.frame, "192.0.2.255")
	b.expect(stranger.frame, b.in, Reason(routerReasonREASON_SOURCE_CHECK))
	dropped(t, &stranger)
	stranger.frame = source4(stranger.frame, "192.0.2.254")
	b.expect(stranger.frame, b.in, Forwarded)
	passes(t, &stranger)
}

// settled is holds for a change that must not be seen: a route that is made behind it has been.
func (b *bench) settled(all []*wayOf, ways string, want Reason) {
	b.t.Helper()
	ip(b.t, "rule", "add", "pref", "40000", "from", "203.0.113.9", "table", "main")
	b.holds(all, "02", Reason(routerReasonREASON_POLICY_RULES))
	ip(b.t, "rule", "del", "pref", "40000")
	b.holds(all, ways, want)
}
