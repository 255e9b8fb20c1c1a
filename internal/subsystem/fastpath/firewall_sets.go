// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"minne/internal/subsystem/fastpath/filter"
)

// Sets that are asked for by address. There is one memory for all, in which a set has a number; so
// a firewall whose set has other members than that of the firewall in force gives it another number, and
// the old one's members go when no packet is evaluated by them any more.

// has reports whether a set has just these members.
func (m *firewallMemory) has(number int, members []netip.Prefix) bool {
	return m.sets.Len(number) == len(members) &&
		!slices.ContainsFunc(members, func(p netip.Prefix) bool { return !m.sets.Has(number, p) })
}

// hasRoom says whether the sets of a policy fit beside those in use.
func (m *firewallMemory) hasRoom(p *filter.Policy) bool {
	if p == nil {
		return true
	}
	numbers, members := 0, m.sets.Free()
	for _, name := range m.slots {
		if name == "" {
			numbers++
		}
	}
	for _, set := range p.Sets {
		if i := slices.Index(m.slots[:], set.Name); i < 0 || !m.has(i, set.Prefixes) {
			numbers--
			members -= len(set.Prefixes)
		}
	}
	return numbers >= 0 && members >= 0
}

// fillSets puts the sets of a policy beside those in use, and returns their numbers.
func (m *firewallMemory) fillSets(sets []filter.Set) (numbers []int, err error) {
	for _, set := range sets {
		i := slices.Index(m.slots[:], set.Name)
		if i < 0 || !m.has(i, set.Prefixes) {
			i = slices.Index(m.slots[:], "") // there is one: hasRoom
			if err := m.sets.Replace(i, set.Prefixes); err != nil {
				m.keep(m.inForce)
				return nil, fmt.Errorf("set %s: %w", set.Name, err)
			}
			m.slots[i] = set.Name
		}
		numbers = append(numbers, i)
	}
	return numbers, nil
}

// keep lets go of all sets but those of the firewall in force.
func (m *firewallMemory) keep(numbers []int) {
	m.inForce = numbers
	for i, name := range m.slots {
		if name != "" && !slices.Contains(numbers, i) {
			m.sets.Clear(i)
			m.slots[i] = ""
		}
	}
}

// ChangeSet adds members to a set that is asked for by address and deletes some, at once and without
// a new firewall. known is false for a set that is not asked for so.
func (f *FastPath) ChangeSet(name string, add, del []netip.Prefix) (known bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables == nil {
		return false, nil
	}
	m := &f.prog.firewall
	number := slices.Index(m.slots[:], name)
	if name == "" || number < 0 {
		return false, nil
	}
	f.firewall.changed = true
	flags, _ := splitPair(f.prog.control.load(controlPolicy))
	f.prog.control.store(controlPolicy, pair(flags, 0)) // no firewall that a later daemon has is known to be this one
	var failed []error
	for _, p := range add {
		if err := m.sets.Add(number, p); err != nil {
			failed = append(failed, err)
			break
		}
	}
	for _, p := range del {
		m.sets.Delete(number, p)
	}
	return true, errors.Join(failed...)
}

// takeChanges makes the members that sets have in a program those of the policy, for the program
// that is to take its place.
func (w *firewall) takeChanges(m *firewallMemory) {
	if !w.changed {
		return
	}
	p := *w.policy // others may be reading it
	p.Sets = slices.Clone(p.Sets)
	for i, set := range p.Sets {
		if number := slices.Index(m.slots[:], set.Name); number >= 0 {
			p.Sets[i].Prefixes = m.sets.Members(number)
		}
	}
	w.policy, w.changed = &p, false
}
