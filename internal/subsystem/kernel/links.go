// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"minne/internal/base/plan"
)

// Steps for the links themselves: names, sizes, descriptions, up and down.

// defaultMTU is what an Ethernet link had before a configuration changed it.
const defaultMTU = 1500

// freeNames makes room for the interfaces' names. One whose name somebody else has is left out, and
// so is what sits on it.
func (r *round) freeNames() error {
	var failures []error
	for _, b := range r.bound {
		if err := r.nameIsFree(b); err != nil {
			failures = append(failures, err)
			b.leaveOut(err)
		}
	}
	for _, b := range r.bound { // parents first
		if !b.missing && slices.ContainsFunc(b.parents, func(p *bound) bool { return p.missing }) {
			b.leaveOut(nil)
		}
	}
	return errors.Join(failures...)
}

// renames gives bound links their names. Two that swap names meet in the middle under
// temporary ones.
func (r *round) renames() {
	wanted := map[string]bool{}
	for _, b := range r.bound {
		wanted[b.Name] = true
	}
	final := []step{}
	for _, b := range r.bound {
		if b.link == nil || b.link.Name == b.Name {
			continue
		}
		former := b.link.Name
		if wanted[former] {
			// Someone else gets this name: leave it first, and don't keep it.
			index := b.link.Index
			r.add(plan.Change{}, func(context.Context) error {
				return r.system.rename(index, fmt.Sprintf("minne%d", index))
			}).of(b.Name, "")
		}
		final = append(final, step{
			change: plan.Change{Subsystem: "kernel", Action: plan.Modify, Object: "name of link " + former, From: former, To: b.Name},
			do:     func(context.Context) error { return r.rename(b, former, !wanted[former]) },
			port:   b.Name, was: fmt.Sprintf("link %s was renamed to %s", b.Name, former), vital: true,
		})
	}
	r.steps = append(r.steps, final...)
}

// nameIsFree makes room for an interface's name, or says who has it.
func (r *round) nameIsFree(b *bound) error {
	if b.missing {
		return nil
	}
	for n := range r.links {
		l := &r.links[n]
		if slices.Contains(l.AltNames, b.Name) {
			r.add(plan.Change{}, func(context.Context) error { return r.system.removeAltName(l.Index, b.Name) })
		}
		if l.Name != b.Name || b.link != nil && b.link.Index == l.Index {
			continue
		}
		switch {
		case slices.ContainsFunc(r.bound, func(o *bound) bool { return o.link == l }):
			// It is renamed as well.
		case l.made() != nil:
			change := plan.Change{}
			if b.former = l; b.Made == nil {
				change = plan.Change{Action: plan.Remove, Object: l.made().title + " " + l.Name}
			}
			r.add(change, r.removeLink(l))
		default:
			return &InterfaceError{b.Name, fmt.Sprintf("another link has this name (%s); choose another name or match that link",
				describe([]link{*l})[0])}
		}
	}
	return nil
}

// rename renames a link; the name it had stays with it, so that a match by that name still finds it.
func (r *round) rename(b *bound, former string, keep bool) error {
	if err := r.system.rename(b.link.Index, b.Name); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	if err := r.system.addAltName(b.link.Index, former); err != nil {
		return errors.Join(fmt.Errorf("keep %s as alternative name: %w", former, err), r.system.rename(b.link.Index, former))
	}
	return nil
}

// sizes sets MTUs: larger ones from the parents up, smaller ones from what sits on them down, because
// a VLAN can't be larger than its parent.
func (r *round) sizes() {
	want := map[string]int{}
	for _, b := range r.bound {
		want[b.Name] = b.wantedMTU(want)
	}
	var larger, smaller []*bound
	for _, b := range r.bound {
		switch {
		case b.missing || b.link == nil && b.MTU == 0 || b.link != nil && b.link.MTU == want[b.Name] || want[b.Name] == 0:
		case b.link == nil || b.link.MTU < want[b.Name]:
			larger = append(larger, b)
		default:
			smaller = append(smaller, b)
		}
	}
	slices.Reverse(smaller)
	for _, b := range append(larger, smaller...) {
		mtu := want[b.Name]
		change := plan.Change{Action: plan.Modify, Object: "mtu on " + b.Name, To: fmt.Sprint(mtu)}
		if b.link != nil {
			change.From = fmt.Sprint(b.link.MTU)
		}
		was := fmt.Sprintf("mtu on %s was changed from %d to %s", b.Name, mtu, change.From)
		r.add(change, r.on(b, func(index int) error { return r.resize(b, index, mtu) })).of(b.Name, was)
	}
}

// wantedMTU is the configured one; else that of the smallest parent, of a link whose MTU an earlier
// configuration changed the default, and any other link keeps what it has. 0 is unknown.
func (b *bound) wantedMTU(wanted map[string]int) int {
	switch {
	case b.Kind.Dialed: // what both ends have agreed on, at most the configured one
		if b.link == nil {
			return 0
		}
		return b.link.MTU
	case b.MTU != 0:
		return b.MTU
	case len(b.parents) > 0:
		return wanted[slices.MinFunc(b.parents, func(p, q *bound) int { return wanted[p.Name] - wanted[q.Name] }).Name]
	case b.link == nil:
		return 0
	case b.Kind.Name == vrf.name:
		return b.link.MTU
	case b.link.ours() && b.link.Ethernet:
		return defaultMTU
	}
	return b.link.MTU
}

// resize sets an MTU, and marks or unmarks a link that is not ours as changed by us.
func (r *round) resize(b *bound, index, mtu int) error {
	if err := r.system.setMTU(index, mtu); err != nil {
		return err
	}
	switch {
	case b.Made != nil:
		return nil
	case b.MTU != 0 && b.link.Group == 0:
		return r.system.setGroup(index, resizedGroup)
	case b.MTU == 0 && b.link.ours():
		return r.system.setGroup(index, 0)
	}
	return nil
}

// descriptions keeps the description where `ip link` and SNMP show it.
func (r *round) descriptions() {
	for _, b := range r.bound {
		var now string
		if b.link != nil {
			now = b.link.Alias
		}
		if b.missing || now == b.Description {
			continue
		}
		r.add(plan.Change{Action: plan.Modify, Object: "description of " + b.Name, From: quoted(now), To: quoted(b.Description)},
			r.on(b, func(index int) error { return r.system.setAlias(index, b.Description) })).
			of(b.Name, fmt.Sprintf("description of %s was changed to %s", b.Name, quoted(now)))
	}
}

func quoted(text string) string { return fmt.Sprintf("%q", text) }

func (r *round) up() {
	for _, b := range r.bound {
		if b.missing || b.Down || b.link != nil && b.link.Up {
			continue
		}
		r.add(plan.Change{Action: plan.Modify, Object: "link " + b.Name, From: "down", To: "up"},
			r.on(b, func(index int) error { return r.system.setUp(index, true) })).of(b.Name, fmt.Sprintf("link %s was set down", b.Name)).vital = true
	}
}

func (r *round) down() {
	for _, b := range r.bound {
		if b.link == nil || !b.Down || !b.link.Up {
			continue
		}
		r.removal(plan.Change{Action: plan.Modify, Object: "link " + b.Name, From: "up", To: "down"},
			r.on(b, func(index int) error { return r.system.setUp(index, false) })).of(b.Name, fmt.Sprintf("link %s was set up", b.Name))
	}
}
