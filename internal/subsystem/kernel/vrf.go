// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// The routing tables of VRFs. The kernel looks a packet of a VRF up in the VRF's table by a rule for all VRFs
// (l3mdev), and goes on to the other tables when that has no route. So that nothing leaks:
//
//   - the rule for table local, which asks first, moves behind that of the VRFs: else whoever is in a VRF reaches
//     the router's addresses outside of it;
//   - each VRF has an unreachable default route behind all others: else what it has no route to takes main's.
//
// Both as the kernel's documentation of VRFs has them.

const (
	priorityVRF   = 1000  // the kernel's own rule
	priorityLocal = 32000 // in front of main's, and of those for uplinks
)

// metricLast is the distance 255 of the unreachable default routes: all others win.
const metricLast = 255<<24 | 8192

// renderVRFs are the routes that end a VRF's table.
func renderVRFs(cfg *config.Config) (list []DesiredRoute) {
	for _, i := range cfg.Interfaces {
		if i.VRF != nil {
			list = append(list, endOf(uint32(i.VRF.Table))...)
		}
	}
	return list
}

func endOf(table uint32) (list []DesiredRoute) {
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		list = append(list, DesiredRoute{Prefix: netip.MustParsePrefix(all), Table: table, Metric: metricLast, Unreachable: true})
	}
	return list
}

// closed ends a VRF's table before an interface is put in: no packet shall find it open.
func (r *round) closed(v *bound) error {
	for _, end := range endOf(uint32(v.Made.VRF.Table)) {
		route, _ := end.rib(nil)
		if err := r.system.replaceRoute(route); err != nil {
			return err
		}
	}
	return nil
}

// tables are those whose static routes are Minne's: main, those of the VRFs, and of those that go.
func (r *round) tables() []uint32 {
	list := []uint32{rib.TableMain}
	add := func(table uint32) {
		if !slices.Contains(list, table) {
			list = append(list, table)
		}
	}
	for _, b := range r.bound {
		if b.Made != nil && b.Made.VRF != nil && !b.missing {
			add(uint32(b.Made.VRF.Table))
		}
	}
	for n := range r.links {
		if table, ok := tableOf(&r.links[n]); ok && r.links[n].made() != nil {
			add(table)
		}
	}
	return list
}

// inTable says in which table a route is: "" for main.
func (r *round) inTable(table uint32) string {
	if table == rib.TableMain {
		return ""
	}
	for _, b := range r.bound {
		if b.Made != nil && b.Made.VRF != nil && uint32(b.Made.VRF.Table) == table {
			return " in " + b.Name
		}
	}
	return fmt.Sprintf(" in table %d", table)
}

// tableRule is a policy-routing rule.
type tableRule struct {
	rib.Rule
	Protocol uint8 // who made it; addressProtocol for Minne
}

// ourRule is the rule for table local behind that of the VRFs.
func ourRule(family uint8) tableRule {
	return tableRule{rib.Rule{Family: family, Priority: priorityLocal, Table: rib.TableLocal}, addressProtocol}
}

// rules compares the order of the rules.
func (r *round) rules() error {
	wanted := slices.ContainsFunc(r.bound, func(b *bound) bool { return b.Made != nil && b.Made.VRF != nil && !b.missing })
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		all, err := r.system.rules(family)
		if err != nil {
			return err
		}
		at := func(wanted func(tableRule) bool) int { return slices.IndexFunc(all, wanted) }
		if len(all) == 0 {
			continue // the kernel has no such family
		}
		words := "the rule for local addresses (" + map[uint8]string{unix.AF_INET: "IPv4", unix.AF_INET6: "IPv6"}[family] + ")"
		behind := at(func(u tableRule) bool { return u.Table == rib.TableLocal && u.Priority > priorityVRF })
		first := at(func(u tableRule) bool { return u.Table == rib.TableLocal && u.Priority < priorityVRF })
		move := func(from, to tableRule, add, remove bool) func(context.Context) error {
			return func(context.Context) error {
				if add {
					if err := r.system.addRule(to); err != nil && !errors.Is(err, unix.EEXIST) {
						return err
					}
				}
				if remove {
					if err := r.system.removeRule(from); err != nil && !errors.Is(err, unix.ENOENT) {
						return err
					}
				}
				return nil
			}
		}
		switch {
		case wanted && (behind < 0 || first >= 0):
			var from tableRule
			if first >= 0 {
				from = all[first]
			}
			r.add(plan.Change{Action: plan.Modify, Object: words, From: "in front", To: "behind that of the VRFs"}, move(from, ourRule(family), behind < 0, first >= 0)).
				of("", words+" was moved in front of that of the VRFs")
		case !wanted && behind >= 0 && all[behind].Protocol == addressProtocol:
			usual := tableRule{rib.Rule{Family: family, Table: rib.TableLocal}, unix.RTPROT_KERNEL}
			r.removal(plan.Change{Action: plan.Modify, Object: words, From: "behind that of the VRFs", To: "in front"}, move(all[behind], usual, first < 0, true))
		}
		if wanted && at(func(u tableRule) bool { return u.VRF }) < 0 && slices.ContainsFunc(r.links, func(l link) bool { return l.Kind == vrf.name }) {
			missing := tableRule{rib.Rule{Family: family, Priority: priorityVRF, VRF: true}, unix.RTPROT_KERNEL}
			r.add(plan.Change{Action: plan.Add, Object: "the rule for VRFs"}, func(context.Context) error { return r.system.addRule(missing) }).
				of("", "the rule for VRFs was removed")
		}
	}
	return nil
}

// rules reads the rules of a family.
func (live) rules(family uint8) ([]tableRule, error) {
	a, err := newAsker()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return dumpAll(context.Background(), a, "rules", unix.RTM_GETRULE, ruleLen,
		func(body []byte, _ *builder) { body[0] = family },
		func(m nlmsg.Message) (tableRule, bool) {
			u, ok := decodeRule(m)
			found := tableRule{Rule: u}
			if ok {
				for kind, value := range nlmsg.Attributes(m.Body[ruleLen:]) {
					if kind == fraProtocol && len(value) > 0 {
						found.Protocol = value[0]
					}
				}
			}
			return found, ok
		})
}

func (live) addRule(u tableRule) error {
	return ruleRequest(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, u)
}

func (live) removeRule(u tableRule) error { return ruleRequest(unix.RTM_DELRULE, 0, u) }

func ruleRequest(kind, flags uint16, u tableRule) error {
	a, err := newAsker()
	if err != nil {
		return err
	}
	defer a.Close()
	return a.request(kind, flags, ruleLen, func(body []byte, w *builder) {
		const toTable = 1 // FR_ACT_TO_TBL
		body[0], body[7] = u.Family, toTable
		w.attr32(fraPriority, u.Priority)
		if u.VRF {
			w.attr(fraL3MasterDevice, []byte{1})
		} else {
			body[4] = uint8(u.Table)
			w.attr32(fraTable, u.Table)
		}
		if kind == unix.RTM_NEWRULE {
			w.attr(fraProtocol, []byte{u.Protocol})
		}
	})
}

// tableOf is the table of a VRF's link.
func tableOf(l *link) (uint32, bool) {
	v, ok := l.as.(*netlink.Vrf)
	if !ok {
		return 0, false
	}
	return v.Table, true
}
