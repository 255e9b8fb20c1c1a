// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"minne/internal/base/plan"
	"minne/internal/subsystem/fastpath/guard"
)

// The guard of what goes up to the kernel: bpf/guard.h evaluates, package guard has the words and
// numbers, and here they meet.

func (p *program) shareGuard() error {
	m := &p.objects.routerMaps
	controls, err1 := p.region(m.GuardControl)
	budgets, err2 := p.region(m.GuardBudgets)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var err error
	p.guard, err = guard.Open(controls, budgets)
	return err
}

// guardPeers is what stands in the map of stations that the configuration names.
type guardPeers map[[20]byte]uint32

// putPeers makes the guard know the stations that the configuration names. Those with a link-local address
// are known on the link that has the interface's name now.
func (f *FastPath) putPeers() error {
	want := guardPeers{}
	for _, p := range f.desired.Guard.Peers {
		ifindex := 0
		if p.Interface != "" {
			if ifindex = f.tables.indexOf(p.Interface); ifindex == 0 {
				continue
			}
		}
		want[p.Key(ifindex)] = p.Value()
	}
	m := f.prog.objects.GuardPeers
	for key, value := range want {
		if f.peers[key] == value {
			continue
		}
		if err := m.Put(key, value); err != nil {
			return fmt.Errorf("telling the guard of a configured neighbour: %w", err)
		}
	}
	for key := range f.peers {
		if _, ok := want[key]; ok {
			continue
		}
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("removing a neighbour from the guard's table: %w", err)
		}
	}
	f.peers = want
	return nil
}

// observeGuard adds up what each CPU has counted.
func observeGuard(m *ebpf.Map, s guard.Settings) ([]guard.Observed, error) {
	all := make([]guard.Observed, 0, guard.Classes)
	for c := range guard.Classes {
		var perCPU []guard.Tally
		if err := m.Lookup(uint32(c), &perCPU); err != nil {
			return nil, fmt.Errorf("reading what the guard did with %v: %w", c, err)
		}
		all = append(all, c.Observe(perCPU, s.Budgets[c]))
	}
	return all, nil
}

// withGuard puts the classes of which packets were dropped in the place of the one reason that they share.
func withGuard(reasons []ObservedReason, classes []guard.Observed) []ObservedReason {
	at := slices.IndexFunc(reasons, func(r ObservedReason) bool { return r.Reason == Reason(routerReasonREASON_GUARD).String() })
	if at < 0 {
		return reasons
	}
	var rows []ObservedReason
	for _, c := range classes {
		if c.Dropped > 0 {
			rows = append(rows, ObservedReason{Reason: reasons[at].Reason + ":" + c.Class, Drop: true, Count: c.Dropped,
				Text: "over budget: " + c.Text, Hint: cmp.Or(c.Hint, reasons[at].Hint)})
		}
	}
	if rows == nil {
		return reasons
	}
	return slices.Concat(reasons[:at], rows, reasons[at+1:])
}

// guardChanges is what a commit changes in the guard.
func guardChanges(before, after guard.Settings) (changes []plan.Change) {
	if before.On != after.On {
		changes = append(changes, plan.Change{Subsystem: subsystem, Action: plan.Modify, Object: "guard", From: onOff(before.On), To: onOff(after.On)})
	}
	for c := range guard.Classes {
		if b, a := before.Budgets[c], after.Budgets[c]; b != a {
			changes = append(changes, plan.Change{Subsystem: subsystem, Action: plan.Modify, Object: fmt.Sprintf("guard of %v", c), From: b.String(), To: a.String()})
		}
	}
	return changes
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
