// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
)

// Live elements: addresses that minne set add puts into a set while the router
// runs, without a commit. They are kept in the instance's state directory and put
// back after a commit, a restart of the daemon and a reboot, until their time is
// up or they are deleted. Elements of the configuration can't be deleted live:
// the file says what holds.

// SetChange adds elements to a set and deletes some.
type SetChange struct {
	Set     string        `json:"set"`
	Add     []string      `json:"add,omitempty"`
	Delete  []string      `json:"delete,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"` // ns, of what is added; 0 for the set's own
}

// SetChanged says what a change did: elements that were there already, or not, don't count.
type SetChanged struct {
	Added   int `json:"added"`
	Deleted int `json:"deleted"`
}

// SetElement is an element of a set.
type SetElement struct {
	Element string     `json:"element"`
	Live    bool       `json:"live,omitempty"`    // put in by minne set add
	Expires *time.Time `json:"expires,omitempty"` // of a live element with a timeout
}

// maxLive bounds the live elements of a set: each is written to disk.
const maxLive = 500_000

// script puts the live elements back into a table that is being loaded. Those of
// sets that are gone, or that the configuration has itself now, stay out.
func (l *ledger) script(p *policy.Policy) string {
	var b strings.Builder
	now := l.now()
	for i := range p.Sets {
		s := &p.Sets[i]
		for _, four := range []bool{true, false} {
			var elements []string
			for _, prefix := range inForce(s, l.sorted(s.Name)) {
				if u, _ := l.set(s.Name).Get(prefix); prefix.Addr().Is4() == four {
					elements = append(elements, elementText(prefix, u, now))
				}
			}
			if len(elements) > 0 {
				b.WriteString(elementCommand(s.Name, four, elements))
			}
		}
	}
	return b.String()
}

func elementCommand(set string, four bool, elements []string) string {
	return fmt.Sprintf("add element inet %s %s { %s }\n", tableName, kernelSet(set, four), strings.Join(elements, ", "))
}

// kernelSet is the name of the set of nftables for one family.
func kernelSet(name string, four bool) string {
	if four {
		return name + "_v4"
	}
	return name + "_v6"
}

func elementText(p netip.Prefix, u until, now time.Duration) string {
	text := policy.ElementText(p)
	if u.at != 0 {
		text += fmt.Sprintf(" timeout %dms", max(1, (u.at-now).Milliseconds()))
	}
	return text
}

// fits says why a set can't hold a prefix.
func fits(s *policy.Set, p netip.Prefix) error {
	switch {
	case s.Fed:
		return fmt.Errorf("set %s follows who is logged in: use minne login", s.Name)
	case s.Kind == policy.PortSet:
		return fmt.Errorf("set %s holds ports: change it in the configuration", s.Name)
	case s.Kind == policy.AddressSet && !p.IsSingleIP():
		return fmt.Errorf("set %s holds single addresses: give addresses, or use a set with prefixes or a file", s.Name)
	}
	return nil
}

// overlapping returns the element of a sorted list that a prefix overlaps, or nil.
func overlapping(list []netip.Prefix, p netip.Prefix) *netip.Prefix {
	i, _ := slices.BinarySearchFunc(list, p, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	for _, k := range []int{i - 1, i} {
		if k >= 0 && k < len(list) && list[k].Overlaps(p) {
			return &list[k]
		}
	}
	return nil
}

// findSet returns a set of the policy in use.
func (f *Firewall) findSet(name string) (*policy.Set, error) {
	var all []string
	if p := f.desired.Policy; p != nil {
		for i := range p.Sets {
			if p.Sets[i].Name == name {
				return &p.Sets[i], nil
			}
			all = append(all, p.Sets[i].Name)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no set %q: the running configuration has no sets", name)
	}
	if near := config.Nearest(name, all); near != "" {
		return nil, fmt.Errorf("no set %q; did you mean %s?", name, near)
	}
	return nil, fmt.Errorf("no set %q; expected one of %s", name, strings.Join(all, ", "))
}

// ChangeSet changes live elements of a set: all of them, or none. With an error that says so, what was
// done holds until the next boot only.
func (f *Firewall) ChangeSet(q SetChange) (SetChanged, error) {
	f.order.Lock()
	defer f.order.Unlock()
	f.expireNow()
	c, done, err := f.prepare(q)
	if err != nil {
		return SetChanged{}, err
	}
	if len(c.record.Add)+len(c.record.Delete) == 0 {
		f.mu.Lock()
		defer f.mu.Unlock()
		return done, f.kept(f.live.whole()) // of an earlier change
	}
	if err := c.toKernel(); err != nil {
		return SetChanged{}, err
	}
	unkept := f.enter(c)
	// The kernel has it now, so the fast path hears of it, on disk or not.
	return done, errors.Join(unkept, f.notify(c.setChange))
}

// kept tells the book whether the live elements are on disk, and what that means. The caller holds mu.
func (f *Firewall) kept(err error) error {
	if err == nil {
		f.book.Clear("sets")
		return nil
	}
	f.book.Fault("sets", fmt.Sprintf("what minne set changed is in force, but not on disk, so a restart of the router loses it: %v", err))
	return fmt.Errorf("the set was changed in the kernel and the fast path, but not stored for the next restart: %w; free some space, then repeat the command", err)
}

// prepare checks a change and finds out what there is to do.
func (f *Firewall) prepare(q SetChange) (*change, SetChanged, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := SetChanged{}
	s, err := f.findSet(q.Set)
	if err != nil {
		return nil, done, err
	}
	q.Timeout = cmp.Or(q.Timeout, s.Timeout)
	c := &change{timeout: q.Timeout, live: f.live.set(q.Set), deleted: map[netip.Prefix]bool{}, setChange: setChange{set: s}, record: record{Set: q.Set}}
	for _, list := range []struct {
		texts []string
		do    func(netip.Prefix) (bool, error)
		count *int
	}{{q.Delete, c.remove, &done.Deleted}, {q.Add, c.add, &done.Added}} {
		prefixes, err := parse(s, list.texts)
		if err != nil {
			return nil, done, err
		}
		for _, p := range prefixes {
			changed, err := list.do(p)
			if err != nil {
				return nil, done, err
			}
			if changed {
				*list.count++
			}
		}
	}
	return c, done, nil
}

// parse reads elements for a set and returns them by address, each once. In this order the tables
// here and in the kernel are filled much faster than in another.
func parse(s *policy.Set, texts []string) ([]netip.Prefix, error) {
	list := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		p, err := policy.ParseElement(text)
		if err == nil {
			err = fits(s, p)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
	})
	return slices.Compact(list), nil
}

// change is a change of a set in the making.
type change struct {
	setChange
	record  record
	timeout time.Duration
	live    *elements
	deleted map[netip.Prefix]bool
	retimed []netip.Prefix // of record.Add, what is there already with another time
}

func (c *change) remove(p netip.Prefix) (bool, error) {
	o := overlapping(c.set.Prefixes, p)
	if _, live := c.live.Get(p); !live {
		if o != nil {
			return false, fmt.Errorf("%s comes from the configuration or its file: remove it there, then run minne apply", policy.ElementText(*o))
		}
		return false, nil
	}
	if o == nil { // else the configuration has it too, and the kernel knows that one
		c.setChange.deleted = append(c.setChange.deleted, p)
	}
	c.deleted[p] = true
	c.record.Delete = append(c.record.Delete, p)
	return true, nil
}

// add puts an element in, or gives one that is there a new time. It is called in the order of
// addresses.
func (c *change) add(p netip.Prefix) (bool, error) {
	if o := overlapping(c.set.Prefixes, p); o != nil {
		if o.Bits() <= p.Bits() {
			return false, nil // the configuration has it
		}
		return false, fmt.Errorf("%s overlaps %s in the configuration: add only the parts around it", p, o)
	}
	_, live := c.live.Get(p)
	again := live && c.deleted[p]
	if (!live || again) && c.set.Kind == policy.PrefixSet {
		if err := c.alone(p); err != nil {
			return false, err
		}
	}
	switch {
	case live:
		c.retimed = append(c.retimed, p)
		if again {
			c.setChange.deleted = slices.DeleteFunc(c.setChange.deleted, func(o netip.Prefix) bool { return o == p })
		}
	case c.live.Size()+len(c.record.Add) >= maxLive:
		return false, fmt.Errorf("set %s has %d live elements, the limit: use a list file", c.set.Name, c.live.Size())
	default:
		c.setChange.added = append(c.setChange.added, p)
	}
	c.record.Add = append(c.record.Add, p)
	return !live || again, nil
}

// alone says which live element, or which that is to be added, an element overlaps.
func (c *change) alone(p netip.Prefix) error {
	if c.live.OverlapsPrefix(p) {
		for _, others := range []iter.Seq2[netip.Prefix, until]{c.live.Supernets(p), c.live.Subnets(p)} {
			for other := range others {
				if !c.deleted[other] {
					return fmt.Errorf("%s overlaps %s, which was added before: delete that first", policy.ElementText(p), policy.ElementText(other))
				}
			}
		}
	}
	if n := len(c.record.Add); n > 0 && c.record.Add[n-1].Overlaps(p) {
		return fmt.Errorf("%s and %s overlap", policy.ElementText(c.record.Add[n-1]), policy.ElementText(p))
	}
	return nil
}

// enter makes a change in the ledger, which the kernel has already.
func (f *Firewall) enter(c *change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes.Add(1)
	if c.timeout != 0 {
		// From after the kernel's work: whom the ledger has forgotten, the kernel has too.
		c.record.Until = until{at: f.live.now() + c.timeout}
	}
	err := f.live.write(c.record)
	f.wake()
	return f.kept(err)
}

// toKernel changes the elements of the kernel's sets. Elements that were there before with another
// time are removed first.
func (c *change) toKernel() error {
	var batch []nft.Elements
	for _, part := range []nft.Elements{{Delete: true, Prefixes: slices.Concat(c.setChange.deleted, c.retimed)}, {Timeout: c.timeout, Prefixes: c.record.Add}} {
		part.Interval = c.set.Kind == policy.PrefixSet
		all := part.Prefixes
		for _, four := range []bool{true, false} {
			part.Set, part.Prefixes = kernelSet(c.set.Name, four), nil
			for _, p := range all {
				if p.Addr().Is4() == four {
					part.Prefixes = append(part.Prefixes, p)
				}
			}
			batch = append(batch, part)
		}
	}
	return nft.Change(tableName, batch)
}

// Elements returns the elements of a set, those of the configuration first.
func (f *Firewall) Elements(name string) ([]SetElement, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.findSet(name)
	if err != nil {
		return nil, err
	}
	list := []SetElement{}
	for _, p := range s.Prefixes {
		list = append(list, SetElement{Element: policy.ElementText(p)})
	}
	for _, r := range s.Ports {
		list = append(list, SetElement{Element: r.String()})
	}
	if s.Fed {
		for _, p := range f.fedPrefixes(name) {
			list = append(list, SetElement{Element: policy.ElementText(p), Live: true})
		}
		return list, nil
	}
	now := f.live.now()
	for p, u := range f.live.set(name).AllSorted() {
		e := SetElement{Element: policy.ElementText(p), Live: true}
		if u.at != 0 {
			if u.at <= now {
				continue
			}
			expires := f.live.clock.wallAt(u.at).Round(time.Millisecond)
			e.Expires = &expires
		}
		list = append(list, e)
	}
	return list, nil
}
