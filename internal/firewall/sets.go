// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"minne/internal/config"
	"minne/internal/nft"
	"minne/internal/policy"
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

// ledger is the live elements by set. The zero time is for ever.
type ledger map[string]map[netip.Prefix]time.Time

// maxLive bounds the live elements of a set: each is written to disk.
const maxLive = 200_000

func readLedger(path string) (ledger, error) {
	l := ledger{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return ledger{}, fmt.Errorf("live elements of sets: %w", err)
	}
	return l, nil
}

// write replaces the file in one step.
func (l ledger) write(path string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// expire forgets elements whose time is up; nftables has removed them itself.
func (l ledger) expire(now time.Time) {
	for name, set := range l {
		for p, until := range set {
			if !until.IsZero() && !until.After(now) {
				delete(set, p)
			}
		}
		if len(set) == 0 {
			delete(l, name)
		}
	}
}

func (l ledger) counts(now time.Time) map[string]int {
	l.expire(now)
	n := map[string]int{}
	for name, set := range l {
		n[name] = len(set)
	}
	return n
}

// script puts the live elements back into a table that is being loaded. Those of
// sets that are gone, or that the configuration has itself now, stay out.
func (l ledger) script(p *policy.Policy, now time.Time) string {
	l.expire(now)
	var b strings.Builder
	for i := range p.Sets {
		s := &p.Sets[i]
		for _, four := range []bool{true, false} {
			var elements []string
			for prefix, until := range l[s.Name] {
				if prefix.Addr().Is4() == four && fits(s, prefix) == nil && overlapping(s.Prefixes, prefix) == nil {
					elements = append(elements, elementText(prefix, until, now))
				}
			}
			if len(elements) > 0 {
				slices.Sort(elements)
				b.WriteString(elementCommand("add", s.Name, four, elements))
			}
		}
	}
	return b.String()
}

func elementCommand(verb, set string, four bool, elements []string) string {
	family := map[bool]string{true: "_v4", false: "_v6"}[four]
	return fmt.Sprintf("%s element inet %s %s%s { %s }\n", verb, tableName, set, family, strings.Join(elements, ", "))
}

func elementText(p netip.Prefix, until, now time.Time) string {
	text := policy.ElementText(p)
	if !until.IsZero() {
		text += fmt.Sprintf(" timeout %dms", max(1, until.Sub(now).Milliseconds()))
	}
	return text
}

// fits says why a set can't hold a prefix.
func fits(s *policy.Set, p netip.Prefix) error {
	switch {
	case s.Kind == policy.PortSet:
		return fmt.Errorf("set %s holds ports, which only the configuration changes", s.Name)
	case s.Kind == policy.AddressSet && !p.IsSingleIP():
		return fmt.Errorf("set %s holds single addresses; one with prefixes or a file holds networks", s.Name)
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
		return nil, fmt.Errorf("there is no set %q: the running configuration has no sets", name)
	}
	if near := config.Nearest(name, all); near != "" {
		return nil, fmt.Errorf("there is no set %q; did you mean %s?", name, near)
	}
	return nil, fmt.Errorf("there is no set %q; there are %s", name, strings.Join(all, ", "))
}

// ChangeSet changes live elements of a set: all of them, or none.
func (f *Firewall) ChangeSet(ctx context.Context, q SetChange) (SetChanged, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := SetChanged{}
	s, err := f.findSet(q.Set)
	if err != nil {
		return done, err
	}
	now := time.Now()
	f.live.expire(now)
	var until time.Time
	if q.Timeout == 0 {
		q.Timeout = s.Timeout
	}
	if q.Timeout != 0 {
		until = now.Add(q.Timeout)
	}
	c := change{set: s, live: f.live[q.Set], now: now, until: until, elements: map[string][]string{}, next: map[netip.Prefix]*time.Time{}}
	for _, list := range []struct {
		texts []string
		do    func(netip.Prefix) (bool, error)
		count *int
	}{{q.Delete, c.remove, &done.Deleted}, {q.Add, c.add, &done.Added}} {
		for _, text := range list.texts {
			p, err := policy.ParseElement(text)
			if err == nil {
				err = fits(s, p)
			}
			changed := false
			if err == nil {
				changed, err = list.do(p)
			}
			if err != nil {
				return SetChanged{}, err
			}
			if changed {
				*list.count++
			}
		}
	}
	return done, f.commitChange(ctx, &c)
}

// change is a change of a set in the making.
type change struct {
	set      *policy.Set
	live     map[netip.Prefix]time.Time
	now      time.Time
	until    time.Time
	elements map[string][]string         // "delete v4" and so on → elements for nft
	next     map[netip.Prefix]*time.Time // what the ledger becomes; nil for deleted
}

func (c *change) queue(verb string, p netip.Prefix, text string) {
	key := fmt.Sprintf("%s %t", verb, p.Addr().Is4())
	c.elements[key] = append(c.elements[key], text)
}

func (c *change) remove(p netip.Prefix) (bool, error) {
	if _, live := c.live[p]; !live {
		if o := overlapping(c.set.Prefixes, p); o != nil {
			return false, fmt.Errorf("%s is of the configuration or its file: remove it there, then minne apply", policy.ElementText(*o))
		}
		return false, nil
	}
	if at, twice := c.next[p]; twice && at == nil {
		return false, nil
	}
	c.queue("delete", p, policy.ElementText(p))
	c.next[p] = nil
	return true, nil
}

// add puts an element in, or gives one that is there a new time.
func (c *change) add(p netip.Prefix) (bool, error) {
	if o := overlapping(c.set.Prefixes, p); o != nil {
		if o.Bits() <= p.Bits() {
			return false, nil // the configuration has it
		}
		return false, fmt.Errorf("%s overlaps %s of the configuration: add the parts around it", p, o)
	}
	if _, twice := c.next[p]; twice && c.next[p] != nil {
		return false, nil
	}
	_, live := c.live[p]
	if !live && c.set.Kind == policy.PrefixSet {
		for other := range c.live {
			if at, gone := c.next[other]; other.Overlaps(p) && !(gone && at == nil) {
				return false, fmt.Errorf("%s overlaps %s, which was added before: delete that first", policy.ElementText(p), policy.ElementText(other))
			}
		}
		for other, at := range c.next {
			if at != nil && other.Overlaps(p) {
				return false, fmt.Errorf("%s and %s overlap", policy.ElementText(p), policy.ElementText(other))
			}
		}
	}
	if _, deleted := c.next[p]; live && !deleted {
		c.queue("delete", p, policy.ElementText(p))
	}
	if !live && len(c.live)+len(c.next) >= maxLive {
		return false, fmt.Errorf("set %s has %d live elements, which is the most: use a list file", c.set.Name, len(c.live))
	}
	c.queue("add", p, elementText(p, c.until, c.now))
	c.next[p] = &c.until
	return !live, nil
}

// commitChange writes the elements to the kernel in one transaction, then the ledger.
func (f *Firewall) commitChange(ctx context.Context, c *change) error {
	var script strings.Builder
	for _, verb := range []string{"delete", "add"} {
		for _, four := range []bool{true, false} {
			if elements := c.elements[fmt.Sprintf("%s %t", verb, four)]; len(elements) > 0 {
				script.WriteString(elementCommand(verb, c.set.Name, four, elements))
			}
		}
	}
	if script.Len() == 0 {
		return nil
	}
	if _, err := nft.Run(ctx, script.String(), "-f", "-"); err != nil {
		return err
	}
	f.writes.Add(1)
	if f.live[c.set.Name] == nil {
		f.live[c.set.Name] = map[netip.Prefix]time.Time{}
	}
	for p, until := range c.next {
		if until == nil {
			delete(f.live[c.set.Name], p)
		} else {
			f.live[c.set.Name][p] = *until
		}
	}
	if err := f.live.write(f.state); err != nil {
		return fmt.Errorf("the set is changed, but would not survive a reboot: %w", err)
	}
	return f.endForbidden(f.desired.Policy)
}

// Elements returns the elements of a set, those of the configuration first.
func (f *Firewall) Elements(name string) ([]SetElement, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.findSet(name)
	if err != nil {
		return nil, err
	}
	f.live.expire(time.Now())
	list := []SetElement{}
	for _, p := range s.Prefixes {
		list = append(list, SetElement{Element: policy.ElementText(p)})
	}
	for _, r := range s.Ports {
		list = append(list, SetElement{Element: r.String()})
	}
	var live []netip.Prefix
	for p := range f.live[name] {
		live = append(live, p)
	}
	slices.SortFunc(live, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	for _, p := range live {
		e := SetElement{Element: policy.ElementText(p), Live: true}
		if until := f.live[name][p]; !until.IsZero() {
			e.Expires = &until
		}
		list = append(list, e)
	}
	return list, nil
}
