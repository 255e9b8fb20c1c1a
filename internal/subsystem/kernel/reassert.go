// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"minne/internal/base/plan"
)

// Putting back what others changed. Apply and Reassert walk the same steps; what differs is
// that after an apply all was right, so each step that is needed since means that something
// happened: a hand, another program, a port that was pulled out. Reassert says what.

// Report is what a Reassert found.
type Report struct {
	Repaired []Finding         // what others had changed and is right again, the oldest first
	Returned []string          // interfaces whose link came, or came back: whoever uses one has to take it anew
	Faults   map[string]string // what is wrong now, by key: all of it
}

// Finding is one thing that was found, by the key of what it is about: "port lan", "kernel".
type Finding struct{ Key, Text string }

// failure is a step that could not be done.
type failure struct {
	step step
	err  error
}

func (f failure) Error() string { return fmt.Sprintf("%s: %v", f.step.words(), f.err) }

func (f failure) Unwrap() error { return f.err }

// keyOf is the key of what an interface, or none, is about.
func keyOf(port string) string {
	if port == "" {
		return "kernel"
	}
	return "port " + port
}

// fail notes in a lenient round what could not be done.
func (r *round) fail(s step, err error) { r.failed = append(r.failed, failure{s, err}) }

// leftOut says whether a lenient round takes a step no more: it failed, or what it follows from
// failed, or it was taken too often.
func (r *round) leftOut(s step) bool {
	return r.held != nil && r.held(s.change.Object) || slices.ContainsFunc(r.failed, func(f failure) bool {
		return f.step.change.Object == s.change.Object || f.step.vital && s.port != "" && f.step.port == s.port
	})
}

// failures are all that could not be done, as one error.
func (r *round) failures() error {
	all := []error{r.absent}
	for _, f := range r.failed {
		all = append(all, fmt.Errorf("kernel: %w", f))
	}
	return errors.Join(all...)
}

// uncheckedSources is why the source address checks are not in place, nil when they are.
func (r *round) uncheckedSources() error {
	for _, f := range r.failed {
		if strings.HasPrefix(f.step.change.Object, sourceChecksObject) {
			return f
		}
	}
	return nil
}

// seen is what a Kernel remembers of its last look.
type seen struct {
	at      map[string]int       // the link of each interface that was there
	gone    map[string]time.Time // interfaces that were left out, since when
	waiting map[routeKey]bool    // routes whose next hop could not be reached
	noLocal map[int]bool         // links that the kernel gives no IPv6 link-local address
	fights  map[string]*fight    // by the object of a step

	back map[string]time.Duration // interfaces that came back since the last report, with how long they were gone
}

func newSeen() seen {
	return seen{back: map[string]time.Duration{}, at: map[string]int{}, gone: map[string]time.Time{}, waiting: map[routeKey]bool{}, noLocal: map[int]bool{}, fights: map[string]*fight{}}
}

// remember takes over what a round that is through has seen.
func (s *seen) remember(r *round) {
	s.returned(r)
	at, gone, links := map[string]int{}, map[string]time.Time{}, map[int]bool{}
	for _, b := range r.bound {
		switch {
		case b.link != nil:
			at[b.Name] = b.link.Index
		case b.missing:
			if gone[b.Name] = s.gone[b.Name]; gone[b.Name].IsZero() {
				gone[b.Name] = time.Now()
			}
		}
	}
	for _, l := range r.links {
		links[l.Index] = true
	}
	maps.DeleteFunc(s.noLocal, func(index int, _ bool) bool { return !links[index] })
	s.at, s.gone, s.waiting = at, gone, r.waiting
}

// returned notes the interfaces whose link is there again, or is another one.
func (s *seen) returned(r *round) {
	for _, b := range r.bound {
		if b.link == nil {
			continue
		}
		if since, was := s.gone[b.Name]; was {
			s.back[b.Name] = time.Since(since)
		} else if before := s.at[b.Name]; before != 0 && before != b.link.Index {
			s.back[b.Name] = 0
		}
	}
}

// forgive forgets what an apply of the operator's has made good.
func (s *seen) forgive() {
	clear(s.fights)
	clear(s.back)
}

// A fight is a step that has to be taken again and again, or that fails: it is taken rarer and rarer,
// and that is a fault.
type fight struct {
	key    string
	text   string
	count  int // in a row
	pause  time.Duration
	until  time.Time // it is not taken before
	next   time.Time // when another look is due
	failed bool
}

const (
	fightCount = 5                // repairs in a row, each soon after the one before, make a fight
	fightCalm  = 20 * time.Second // without another repair, it is over
	firstPause = 10 * time.Second
	lastPause  = 5 * time.Minute
)

// longer makes the next pause.
func (f *fight) longer(now time.Time) {
	f.pause = min(max(2*f.pause, firstPause), lastPause)
	f.until = now.Add(f.pause)
	f.next = f.until
}

// repaired counts a repair.
func (s *seen) repaired(st step, now time.Time) {
	f := s.fights[st.change.Object]
	if f == nil || f.failed {
		f = &fight{key: keyOf(st.port)}
		s.fights[st.change.Object] = f
	}
	f.count++
	f.next = now.Add(fightCalm)
	if f.count < fightCount {
		return
	}
	f.longer(now)
	f.text = fmt.Sprintf("%s: again and again, %d times so far; does another program change it? Minne puts it right every %v only",
		st.was, f.count, f.pause)
}

// refused notes a step that fails.
func (s *seen) refused(fail failure, now time.Time) {
	f := s.fights[fail.step.change.Object]
	if f == nil || !f.failed {
		f = &fight{key: keyOf(fail.step.port), failed: true}
		s.fights[fail.step.change.Object] = f
	}
	f.text = fail.Error()
	f.longer(now)
}

// held says whether a step is not taken now.
func (s *seen) held(object string) bool {
	f := s.fights[object]
	return f != nil && time.Now().Before(f.until)
}

// settle forgets fights that are over, and puts off the next look at the others.
func (s *seen) settle(now time.Time) {
	maps.DeleteFunc(s.fights, func(object string, f *fight) bool {
		if now.Before(f.next) {
			return false
		}
		// Nothing was to be done about it in this look, or it would have been put off.
		if over := f.failed || now.After(f.until.Add(fightCalm)); over {
			return true
		}
		f.next = f.until.Add(fightCalm)
		return false
	})
}

// due says whether another look at a fight is.
func (s *seen) due(now time.Time) bool {
	for _, f := range s.fights {
		if now.After(f.next) {
			return true
		}
	}
	return false
}

// Reassert restores what of the last applied Desired is not there any more, whoever took it away: a
// hand, another program, the kernel with a carrier, a port that was unplugged and comes back. It writes
// nothing when all is there. A nil Report says that there is nothing to hold on to now. Called after a
// Watcher's Restorable and when Drifted says so.
func (k *Kernel) Reassert(ctx context.Context) (*Report, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil || k.unsettled {
		return nil, nil
	}
	r, err := k.restore(ctx)
	if err != nil {
		return nil, err
	}
	return k.report(r), nil
}

// restore takes the steps of a Reassert. The caller holds mu.
func (k *Kernel) restore(ctx context.Context) (*round, error) {
	r := k.round(k.withLearned(*k.last))
	r.lenient, r.quick, r.held = true, true, k.seen.held
	waited := k.seen.waiting
	if err := k.settle(ctx, r); err != nil {
		return nil, err
	}
	for i := range r.did {
		if w := r.did[i].waits; w != nil && waited[*w] {
			r.did[i].was = "" // its time had come
		}
	}
	k.seen.remember(r)
	return r, nil
}

// report says what a round found. The caller holds mu.
func (k *Kernel) report(r *round) *Report {
	back := k.seen.back
	k.seen.back = map[string]time.Duration{}
	now := time.Now()
	rep := &Report{Faults: map[string]string{}}
	whole := map[string]bool{}  // ports of which one finding says it all
	for _, b := range r.bound { // parents first
		d, returned := back[b.Name]
		if returned {
			rep.Returned = append(rep.Returned, b.Name)
		}
		if slices.ContainsFunc(b.parents, func(p *bound) bool { return whole[p.Name] }) {
			whole[b.Name] = true
			continue
		}
		if whole[b.Name] = returned && !r.made(b.Name); whole[b.Name] && !b.Kind.Brought {
			words := fmt.Sprintf("port %s is there again and configured", b.Name)
			if d > 0 {
				words += fmt.Sprintf(", it was gone for %v", d.Round(100*time.Millisecond))
			}
			rep.Repaired = append(rep.Repaired, Finding{keyOf(b.Name), words})
		}
	}
	for _, s := range r.did {
		if s.was == "" || whole[s.port] || (s.vital || s.waits != nil) && r.brought(s.port) {
			continue
		}
		whole[s.port] = s.vital && s.port != ""
		rep.Repaired = append(rep.Repaired, Finding{keyOf(s.port), s.was})
		k.seen.repaired(s, now)
	}
	for _, f := range r.failed {
		k.seen.refused(f, now)
	}
	k.seen.settle(now)
	rep.faults(r, k.seen.fights)
	return rep
}

// brought says whether an interface is one whose link goes down, away and comes, as a session, and its routes with it: that is no change by
// another program.
func (r *round) brought(name string) bool {
	return slices.ContainsFunc(r.bound, func(b *bound) bool { return b.Name == name && b.Kind.Brought })
}

// made says whether the round made an interface's link, which somebody had removed.
func (r *round) made(name string) bool {
	return slices.ContainsFunc(r.did, func(s step) bool {
		return s.port == name && s.vital && (s.change.Action == plan.Add || s.change.Action == plan.Reset)
	})
}

// faults gathers what is wrong.
func (rep *Report) faults(r *round, fights map[string]*fight) {
	add := func(key, text string) {
		if had := rep.Faults[key]; had != "" {
			text = had + "; " + text
		}
		rep.Faults[key] = text
	}
	for _, b := range r.bound {
		switch {
		case b.why != nil:
			add(keyOf(b.Name), strings.TrimPrefix(b.why.Error(), "interface "+b.Name+": "))
		case b.odd != "":
			add(keyOf(b.Name), b.odd)
		}
	}
	for _, object := range slices.SortedFunc(maps.Keys(fights), cmp.Compare[string]) {
		if f := fights[object]; f.text != "" {
			add(f.key, f.text)
		}
	}
}
