// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/base/plan"
	"minne/internal/model/config"
)

// Policy routing: rules in front of those for failover choose an uplink, whose table has nothing but its default route.
//
//	20000: lookup main, but not its default route, nor routes by interfaces of group 7777
//	20001: from 192.0.2.128/25 iif lan lookup table of uplink lte
//	20002: the same, unreachable, where the rule says only
//	…
//
// An uplink that is out of use has no default route in its table: the kernel goes on to the next rule, in the end to main.
// The rules stand in one of two ranges of priorities. Changed rules are written to the other one before the old ones go, so
// that at any moment either the old or the new ones decide about a packet.

const (
	priorityPolicy = 20000                             // of the rule for main; the first range of rules follows
	policyRange    = config.MaxPolicySelectors*2 + 200 // rules in each of the two ranges
	policyEnd      = priorityPolicy + 2*policyRange
	policyTables   = 3100000000 // the first of the uplinks' tables, chosen by the uplink's name
	policySpread   = 1000000
	policyTicks    = 30 // seconds between two looks at the tables, whose changes the kernel tells among those of all routes
)

// Attributes and actions of rules (FRA_, FR_ACT_) that golang.org/x/sys/unix does not name. A kernel that does not know one refuses the rule.
const (
	fraDst               = 1
	fraSrc               = 2
	fraIIfName           = 3
	fraSuppressPrefixLen = 14
	fraIPProto           = 22
	fraSPortRange        = 23
	fraDPortRange        = 24
	fraDSCP              = 25

	actTable       = 1
	actUnreachable = 7
)

// PolicyRule is a rule of the file for one family: selectors become rules of the kernel in their order.
type PolicyRule struct {
	Selects   string // as operators read it
	Uplink    string
	Only      bool
	Selectors [2][]config.PolicySelector // by family
}

// words are the rule in a preview.
func (r PolicyRule) words() string {
	if r.Only {
		return r.Selects + " by " + r.Uplink + " only"
	}
	return r.Selects + " by " + r.Uplink
}

func renderPolicy(cfg *config.Config) (list []PolicyRule) {
	for k := range cfg.Routing.Policy {
		r := &cfg.Routing.Policy[k]
		list = append(list, PolicyRule{r.String(), r.Uplink, r.Only, [2][]config.PolicySelector{r.Selectors(cfg, false), r.Selectors(cfg, true)}})
	}
	return list
}

// kernelRule is one of the kernel's rules of a family, without its priority.
type kernelRule struct {
	main   bool   // the one for main; nothing else is set then
	table  uint32 // 0: unreachable
	choose config.PolicySelector
}

type placedRule struct {
	priority uint32
	kernelRule
}

// tableOf are the tables of the uplinks that rules choose, by the uplinks' names. They depend on names alone, so that a new
// uplink moves no other's.
func tablesOf(rules []PolicyRule) map[string]uint32 {
	names := map[string]bool{}
	for _, r := range rules {
		names[r.Uplink] = true
	}
	list, taken := map[string]uint32{}, map[uint32]bool{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		h := fnv.New32a()
		h.Write([]byte(name))
		n := h.Sum32() % policySpread
		for taken[n] {
			n = (n + 1) % policySpread
		}
		taken[n], list[name] = true, policyTables+n
	}
	return list
}

// kernelRules are the rules that stand for those of the file in a family, in their order.
func kernelRules(rules []PolicyRule, which int) (list []kernelRule) {
	tables := tablesOf(rules)
	for _, r := range rules {
		for _, s := range r.Selectors[which] {
			list = append(list, kernelRule{table: tables[r.Uplink], choose: s})
			if r.Only {
				list = append(list, kernelRule{choose: s})
			}
		}
	}
	return list
}

// placed puts rules into one of the two ranges.
func placed(list []kernelRule, second bool) map[placedRule]bool {
	want := map[placedRule]bool{}
	if len(list) == 0 {
		return want
	}
	want[placedRule{priorityPolicy, kernelRule{main: true}}] = true
	first := uint32(priorityPolicy + 1)
	if second {
		first += policyRange
	}
	for k, r := range list {
		want[placedRule{first + uint32(k), r}] = true
	}
	return want
}

// policy is what is known of policy routing. Uplinks' mu guards it.
type policy struct {
	second [2]bool // by family: the rules stand in the second range
	chosen bool    // second is right
	ticks  int     // since the kernel's tables were read
}

// choose says in which range the rules of a family are to stand: where most of them do already.
func chooseRange(have map[placedRule]bool, list []kernelRule) (second bool) {
	hits := [2]int{}
	for k, b := range []bool{false, true} {
		for r := range placed(list, b) {
			if have[r] && !r.main {
				hits[k]++
			}
		}
	}
	if hits[0]+hits[1] > 0 {
		return hits[1] > hits[0]
	}
	for r := range have { // another list: the range that is not in use
		if !r.main {
			return r.priority <= priorityPolicy+policyRange
		}
	}
	return false
}

// replace chooses the other range for a list of rules that differs.
func (u *Uplinks) replacePolicy(old, now []PolicyRule) {
	for which := range families {
		a, b := kernelRules(old, which), kernelRules(now, which)
		if !slices.Equal(a, b) && len(a) > 0 {
			u.policy.second[which] = !u.policy.second[which]
		}
	}
}

// steer writes what is missing of rules and tables of policy routing, and takes away what is too much.
func (u *Uplinks) steer(m *messages) {
	tables := tablesOf(u.desired.Policy)
	for which, family := range families {
		list := kernelRules(u.desired.Policy, which)
		if !u.policy.chosen {
			u.policy.second[which] = chooseRange(u.seen.policy[which], list)
		}
		for _, table := range slices.Sorted(maps.Values(tables)) { // before the rules that look there
			if u.seen.tables[which] == nil {
				u.seen.tables[which] = map[uint32]map[route]bool{}
			}
			if u.seen.tables[which][table] == nil {
				u.seen.tables[which][table] = map[route]bool{}
			}
		}
		for table, have := range u.seen.tables[which] {
			want := map[route]bool{}
			for _, l := range u.all {
				if gateway, ok := u.gateway(l, which); ok && tables[l.Name] == table && l.dead == "" && l.present {
					want[route{Table: table, Gateway: gateway, Index: l.index}] = true
				}
			}
			for r := range want {
				if !have[r] {
					m.route(true, which, r)
				}
			}
			for r := range have {
				if !want[r] && !replaced(want, r) {
					m.route(false, which, r)
				}
			}
			u.seen.tables[which][table] = want
		}
		want, have := placed(list, u.policy.second[which]), u.seen.policy[which]
		for _, r := range slices.SortedFunc(maps.Keys(want), byPriority) {
			if !have[r] {
				m.policyRule(true, family, r)
			}
		}
		// The one for main last: without it the others decide about packets to inside networks.
		gone := slices.SortedFunc(maps.Keys(have), byPriority)
		slices.Reverse(gone)
		for _, r := range gone {
			if !want[r] {
				m.policyRule(false, family, r)
			}
		}
		u.seen.policy[which] = want
	}
	u.policy.chosen = true
}

func byPriority(a, b placedRule) int { return int(a.priority) - int(b.priority) }

// policyRule adds a rule, or takes it away.
func (m *messages) policyRule(add bool, family uint8, r placedRule) {
	body := make([]byte, 12)
	body[0], body[7] = family, actTable
	body = nlmsg.AppendAttr32(body, fraPriority, r.priority)
	s := r.choose
	switch {
	case r.main:
		body = nlmsg.AppendAttr32(body, fraTable, unix.RT_TABLE_MAIN)
		body = nlmsg.AppendAttr32(body, fraSuppressPrefixLen, 0)
		body = nlmsg.AppendAttr32(body, fraSuppressIfGroup, Group)
		s.DSCP = -1
	case r.table == 0:
		body[7] = actUnreachable
	default:
		body = nlmsg.AppendAttr32(body, fraTable, r.table)
	}
	if s.To.IsValid() && s.To.Bits() > 0 {
		body[1] = uint8(s.To.Bits())
		body = nlmsg.AppendAttr(body, fraDst, s.To.Addr().AsSlice())
	}
	if s.From.IsValid() && s.From.Bits() > 0 {
		body[2] = uint8(s.From.Bits())
		body = nlmsg.AppendAttr(body, fraSrc, s.From.Addr().AsSlice())
	}
	if s.Interface != "" {
		body = nlmsg.AppendAttr(body, fraIIfName, append([]byte(s.Interface), 0))
	}
	if s.Protocol != 0 {
		body = nlmsg.AppendAttr(body, fraIPProto, []byte{s.Protocol})
	}
	for kind, p := range map[uint16][2]uint16{fraSPortRange: s.SourcePorts, fraDPortRange: s.Ports} {
		if p != [2]uint16{} {
			body = nlmsg.AppendAttr(body, kind, native.AppendUint16(native.AppendUint16(nil, p[0]), p[1]))
		}
	}
	if s.DSCP >= 0 {
		body = nlmsg.AppendAttr(body, fraDSCP, []byte{uint8(s.DSCP)})
	}
	body = nlmsg.AppendAttr(body, fraProtocol, []byte{protocol})
	if add {
		m.add(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, body)
		return
	}
	m.add(unix.RTM_DELRULE, 0, body)
}

// decodePolicy reads one of the kernel's rules; ok is false when it is none of policy routing, or not Minne's.
func decodePolicy(b []byte) (r placedRule, ok bool) {
	var by uint8
	var suppressed bool
	ipv6 := b[0] == unix.AF_INET6
	r.choose = config.PolicySelector{IPv6: ipv6, DSCP: -1}
	prefix := func(value []byte, bits uint8) netip.Prefix {
		a, _ := netip.AddrFromSlice(value)
		return netip.PrefixFrom(a, int(bits))
	}
	ports := func(v []byte) (p [2]uint16) {
		if len(v) == 4 {
			p = [2]uint16{native.Uint16(v), native.Uint16(v[2:])}
		}
		return p
	}
	for kind, value := range nlmsg.Attributes(b[12:]) {
		one, four := uint8(0), uint32(0)
		if len(value) > 0 {
			one = value[0]
		}
		if len(value) >= 4 {
			four = native.Uint32(value)
		}
		switch kind {
		case fraPriority:
			r.priority = four
		case fraTable:
			r.table = four
		case fraSuppressPrefixLen:
			suppressed = suppressed || four == 0
		case fraProtocol:
			by = one
		case fraDst:
			r.choose.To = prefix(value, b[1])
		case fraSrc:
			r.choose.From = prefix(value, b[2])
		case fraIIfName:
			r.choose.Interface = unix.ByteSliceToString(value)
		case fraIPProto:
			r.choose.Protocol = one
		case fraSPortRange:
			r.choose.SourcePorts = ports(value)
		case fraDPortRange:
			r.choose.Ports = ports(value)
		case fraDSCP:
			r.choose.DSCP = int(one)
		}
	}
	switch {
	case by != protocol || r.priority < priorityPolicy || r.priority > policyEnd:
		return r, false
	case r.table == unix.RT_TABLE_MAIN && suppressed:
		r.kernelRule = kernelRule{main: true}
	case b[7] == actUnreachable:
		r.table = 0
	}
	return r, true
}

// readPolicy reads the rules of policy routing and the tables that they name, besides those that are wanted.
func (o *observed) readPolicy(ctx context.Context, s *nlmsg.Socket, which int, wanted map[string]uint32) error {
	o.policy[which], o.tables[which] = map[placedRule]bool{}, map[uint32]map[route]bool{}
	body := make([]byte, 12)
	body[0] = families[which]
	if _, err := s.Ask(ctx, unix.RTM_GETRULE, unix.NLM_F_DUMP, body, func(m nlmsg.Message) error {
		if len(m.Body) >= 12 && m.Body[0] == families[which] {
			if r, ok := decodePolicy(m.Body); ok {
				o.policy[which][r] = true
			}
		}
		return nil
	}); err != nil {
		return err
	}
	tables := map[uint32]bool{}
	for _, table := range wanted {
		tables[table] = true
	}
	for r := range o.policy[which] {
		if r.table >= policyTables && r.table < policyTables+policySpread {
			tables[r.table] = true
		}
	}
	for table := range tables {
		have, err := readRoutes(ctx, s, families[which], table)
		if err != nil {
			return err
		}
		o.tables[which][table] = have
	}
	return nil
}

// ObservedRule is a rule of policy routing as operators see it.
type ObservedRule struct {
	Number  int    `json:"number"` // place in the file, from 1
	Selects string `json:"selects"`
	Uplink  string `json:"uplink"`
	Only    bool   `json:"only"`
	State   string `json:"state"`        // in use, passed on, unreachable, missing
	Kernel  [2]int `json:"kernel_rules"` // of IPv4 and IPv6
	Reason  string `json:"reason,omitempty"`
}

// ObservePolicy reads the rules of policy routing, in their order.
func (u *Uplinks) ObservePolicy() []ObservedRule {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := []ObservedRule{}
	for k, r := range u.desired.Policy {
		o := ObservedRule{Number: k + 1, Selects: r.Selects, Uplink: r.Uplink, Only: r.Only, State: "in use", Kernel: [2]int{len(r.Selectors[0]), len(r.Selectors[1])}}
		for _, l := range u.all {
			if l.Name == r.Uplink && (l.dead != "" || !l.present) {
				o.State, o.Reason = "passed on", l.dead
				if r.Only {
					o.State = "unreachable"
				}
			}
		}
		list = append(list, o)
	}
	return list
}

// planPolicy says what changes of the rules of the file, by their numbers.
func planPolicy(old, now []PolicyRule) (list []plan.Change) {
	for k := range max(len(old), len(now)) {
		object := fmt.Sprintf("policy routing rule %d", k+1)
		switch {
		case k >= len(old):
			list = append(list, plan.Change{Action: plan.Add, Object: object, To: now[k].words()})
		case k >= len(now):
			list = append(list, plan.Change{Action: plan.Remove, Object: object, From: old[k].words()})
		case !reflect.DeepEqual(old[k], now[k]):
			list = append(list, plan.Change{Action: plan.Modify, Object: object, From: old[k].words(), To: now[k].words()})
		}
	}
	return list
}
