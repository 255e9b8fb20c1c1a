// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"net/netip"
	"slices"
	"time"

	"minne/internal/model/policy"
)

// What the fast path is told while the router runs: live elements that come and
// go, by command or because their time is up, and connections that end thereby.
//
// Two locks keep this in order. Whoever changes the firewall holds order from the
// first look to the last word to the listener, so it hears of changes one after
// the other. mu guards the state alone and is free while the listener works,
// which may thus ask for LiveElements at any time.

// Listener follows the live elements of sets. Its methods are called one after the
// other, after the kernel has the change.
type Listener interface {
	// SetChanged tells which elements a set has now that it had not, and the reverse.
	SetChanged(name string, added, deleted []netip.Prefix)
	// ConnectionsEnded tells that conntrack has forgotten connections which the firewall forbids now.
	ConnectionsEnded()
	// ForceChanged tells that the rules of a policy are in force now, or no longer: see InForce.
	ForceChanged()
}

// Listen tells l of all changes from here on. It is called once, before the first change.
func (f *Firewall) Listen(l Listener) {
	f.order.Lock()
	defer f.order.Unlock()
	f.listener = l
}

// LiveElements returns the elements of a set that minne set add put in and that are in force. What
// the listener was told, or is about to be told, is in it already.
func (f *Firewall) LiveElements(set string) []netip.Prefix {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.findSet(set)
	if err != nil {
		return nil
	}
	if s.Fed {
		return f.fedPrefixes(set)
	}
	return inForce(s, f.live.sorted(set))
}

// inForce are the live elements that the kernel has beside those of the configuration: after a
// commit, the configuration may have them itself, or have made the set one of single addresses.
func inForce(s *policy.Set, live []netip.Prefix) []netip.Prefix {
	list := live[:0:0]
	for _, p := range live {
		if fits(s, p) == nil && overlapping(s.Prefixes, p) == nil {
			list = append(list, p)
		}
	}
	return list
}

// setChange is what the listener is to hear, and what may forbid connections.
type setChange struct {
	set            *policy.Set
	added, deleted []netip.Prefix
}

// notify tells the listener of a change and ends the connections that it forbids. The caller holds
// order.
func (f *Firewall) notify(t setChange) error {
	if len(t.added)+len(t.deleted) == 0 {
		return nil
	}
	if f.listener != nil {
		f.listener.SetChanged(t.set.Name, t.added, t.deleted)
	}
	f.mu.Lock()
	p := f.desired.Policy
	f.mu.Unlock()
	if !mayForbid(p, t) {
		return nil
	}
	return f.endForbidden(p, slices.Concat(t.added, t.deleted))
}

// mayForbid says whether a change can forbid what was permitted: a set that a rule denies has grown,
// or one that a rule permits has shrunk.
func mayForbid(p *policy.Policy, t setChange) bool {
	for _, rules := range [][]policy.Rule{p.Rules, p.Services} {
		for i := range rules {
			changed := t.added
			if (rules[i].Action == policy.Permit) != (rules[i].Source.Not || rules[i].Destination.Not) {
				changed = t.deleted
			}
			if len(changed) > 0 && namesSet(p, &rules[i], t.set.Name) {
				return true
			}
		}
	}
	return false
}

func namesSet(p *policy.Policy, r *policy.Rule, name string) bool {
	for _, sets := range [][]int{r.Source.Sets, r.Destination.Sets} {
		for _, i := range sets {
			if p.Sets[i].Name == name {
				return true
			}
		}
	}
	return false
}

// wake sets the timer for the next live element whose time is up. The caller holds mu.
func (f *Firewall) wake() {
	next := f.live.deadline()
	if next == 0 {
		return
	}
	in := next - f.live.now() + coalesce
	if f.timer == nil {
		f.timer = time.AfterFunc(in, f.expire)
	} else {
		f.timer.Reset(in)
	}
}

// coalesce is how much later than its time an element is noticed at least, so that those of one
// moment go together and nftables has forgotten them too.
const coalesce = 20 * time.Millisecond

// expire tells of the live elements whose time is up.
func (f *Firewall) expire() {
	f.order.Lock()
	defer f.order.Unlock()
	f.expireNow()
}

// expireNow does so for who holds order.
func (f *Firewall) expireNow() {
	f.mu.Lock()
	var all []setChange
	for _, gone := range f.live.expire(f.live.now()) {
		if s, err := f.findSet(gone.Set); err == nil {
			all = append(all, setChange{set: s, deleted: inForce(s, gone.Delete)})
		}
	}
	f.wake()
	f.mu.Unlock()
	for _, t := range all {
		if err := f.notify(t); err != nil {
			f.log.Error("cannot delete the connections of expired set elements", "set", t.set.Name, "error", err)
		}
	}
}
