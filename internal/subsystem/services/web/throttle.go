// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/netip"
	"sync"
	"time"
)

// How often somebody may fail before he waits, and for how long: the time doubles with each further failure.
//
// An address that tries many names, and a name that is tried from one address, wait soon. A name that is tried from many
// addresses waits, too, but not for an address from which it has logged in before: nobody keeps the administrator out by
// trying his name.
const (
	freeOfPair    = 5
	freeOfAddress = 20
	freeOfName    = 100
	firstWait     = 15 * time.Second
	longestWait   = 15 * time.Minute
	forgetAfter   = time.Hour
	mostEntries   = 4096 // of the table; then the oldest goes
)

// tried is what was tried from an address, by a name, or both; what is not meant is zero.
type tried struct {
	from netip.Prefix
	name string
}

type failures struct {
	count int
	last  time.Time
	until time.Time
}

// throttle slows down who guesses passwords.
type throttle struct {
	mu    sync.Mutex
	table map[tried]failures
	known map[tried]time.Time // addresses and names that have logged in
}

func newThrottle() *throttle {
	return &throttle{table: map[tried]failures{}, known: map[tried]time.Time{}}
}

// origin is the network that one host can take addresses of.
func origin(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// limits are the keys of an attempt, with what is free for each.
func limits(from netip.Addr, name string) map[tried]int {
	o := origin(from)
	if len(name) > 64 {
		name = name[:64]
	}
	return map[tried]int{{o, name}: freeOfPair, {o, ""}: freeOfAddress, {netip.Prefix{}, name}: freeOfName}
}

// wait says for how long an attempt is refused, 0 for not at all.
func (t *throttle) wait(now time.Time, from netip.Addr, name string) (left time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.known[tried{origin(from), name}]
	for key := range limits(from, name) {
		if !key.from.IsValid() && known {
			continue
		}
		left = max(left, t.table[key].until.Sub(now))
	}
	return left
}

// failed counts a failure.
func (t *throttle) failed(now time.Time, from netip.Addr, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, free := range limits(from, name) {
		f := t.table[key]
		if now.Sub(f.last) > forgetAfter {
			f = failures{}
		}
		f.count, f.last = f.count+1, now
		if over := f.count - free; over >= 0 {
			f.until = now.Add(min(firstWait<<min(over, 16), longestWait))
		}
		t.table[key] = f
	}
	for len(t.table) > mostEntries {
		forgetOldest(t.table, func(f failures) time.Time { return f.last })
	}
}

// succeeded forgives the failures of an address and a name.
func (t *throttle) succeeded(from netip.Addr, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tried{origin(from), name}
	delete(t.table, key)
	delete(t.table, tried{key.from, ""})
	t.known[key] = time.Now()
	for len(t.known) > mostEntries {
		forgetOldest(t.known, func(at time.Time) time.Time { return at })
	}
}

func forgetOldest[V any](m map[tried]V, at func(V) time.Time) {
	var oldest tried
	var when time.Time
	for k, v := range m {
		if when.IsZero() || at(v).Before(when) {
			oldest, when = k, at(v)
		}
	}
	delete(m, oldest)
}
