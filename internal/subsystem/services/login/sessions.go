// SPDX-License-Identifier: Apache-2.0

package login

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"minne/internal/base/store"
	"minne/internal/model/config"
)

// Session is a host that is admitted.
type Session struct {
	Login     string           `json:"login"`
	MAC       config.MAC       `json:"mac"`
	Addresses []netip.Addr     `json:"addresses"`
	User      string           `json:"user"`              // of a voucher "voucher" and the beginning of its code
	Kind      string           `json:"kind"`              // local, voucher, radius, mac (by RADIUS), operator
	Voucher   string           `json:"voucher,omitempty"` // its digest
	ID        string           `json:"id"`                // of the session, in accounting
	Began     time.Time        `json:"began"`
	Until     time.Time        `json:"until,omitzero"` // zero: for ever
	Bytes     uint64           `json:"bytes,omitempty"`
	Idle      Span             `json:"idle"`   // without traffic for so long, it ends
	Active    time.Time        `json:"active"` // when there was traffic at last
	Traffic   Traffic          `json:"traffic"`
	Booked    Traffic          `json:"booked,omitzero"`   // of Traffic, what is in the books
	Interim   Span             `json:"interim,omitempty"` // of accounting, when a server asks for its own
	Rate      config.LoginRate `json:"rate,omitzero"`
	Given     bool             `json:"rate_given,omitempty"` // the rate, by a RADIUS server
	Class     [][]byte         `json:"class,omitempty"`      // of the RADIUS server, sent back in accounting

	before  Traffic                // by daemons before this one, and of addresses that are no more
	read    map[netip.Addr]Traffic // what the meter said last
	told    time.Time              // when accounting was last sent
	missed  int                    // probes without an answer
	pending bool                   // it is being stored, and not admitted yet
}

// Span is a duration in seconds in the store.
type Span time.Duration

// left is how long a session may still last; zero for ever.
func (s *Session) left(now time.Time) time.Duration {
	if s.Until.IsZero() {
		return 0
	}
	return max(s.Until.Sub(now), time.Second)
}

// Buckets of the store.
const (
	bucketSessions = "login sessions"
	bucketVouchers = "login vouchers"
	bucketBlocks   = "login blocks"
)

// open opens the store and takes in what is in it.
func (l *Login) open(path string) {
	s, aside, err := store.Open(path)
	if aside != "" {
		l.log.Error("the store was damaged and a new one is begun: everybody has to log in again, vouchers are lost", "kept as", aside)
	}
	if err == nil {
		err = store.Each(s, bucketSessions, func(_ string, v Session) {
			v.before, v.read = v.Traffic, map[netip.Addr]Traffic{}
			l.put(&v)
			for _, a := range v.Addresses {
				l.own(v.Login, a, v.MAC)
			}
		})
	}
	if err == nil {
		err = store.Each(s, bucketVouchers, func(key string, v Voucher) { l.vouchers[key] = &v })
	}
	if err == nil {
		err = store.Each(s, bucketAccounts, func(key string, a Account) { l.accounts[key] = &a })
	}
	if err == nil {
		err = store.Each(s, bucketBlocks, func(_ string, b Block) { l.blocked[b.MAC] = b })
	}
	l.store = s
	if err != nil {
		l.broken = fmt.Errorf("login: %w", err)
	}
}

func (l *Login) own(login string, a netip.Addr, mac config.MAC) {
	if l.owners[login] == nil {
		l.owners[login] = map[netip.Addr]config.MAC{}
	}
	l.owners[login][a] = mac
}

// mostAddresses bounds the addresses of a host: of IPv6, privacy addresses come daily.
const mostAddresses = 32

// refusal is why somebody is not admitted, in words for the page.
type refusal string

func (r refusal) Error() string { return string(r) }

// errOver is a session that ended while it began.
var errOver = refusal("The login was ended at once. Try again.")

// begin admits a host. The caller holds mu, and has filled in who it is and its limits. What is in the store when it returns nil is
// in force, too: of a voucher nobody gets more than it has because of a power cut. While the store is written, mu is not held, so that
// logins at the same time share a write; the session is there by then, pending, and counts among the devices of its user.
func (l *Login) begin(s *Session, also ...store.Change) error {
	now := l.clock()
	id := hostID{s.Login, s.MAC}
	if b, blocked := l.blocked[s.MAC]; blocked && (b.Until.IsZero() || b.Until.After(now)) {
		return refusal("This device is blocked. Ask the operator.")
	}
	if l.metered(s) && l.usedUp(s) != "" {
		return refusal("Your quota of this month is used up.")
	}
	if old := l.sessions[id]; old != nil && old.pending {
		return refusal("This device is being logged in. Load the page again.")
	} else if old != nil {
		l.end(id, "logged in anew")
	}
	s.Began, s.Active, s.ID, s.read = now, now, token(8), map[netip.Addr]Traffic{}
	if rate, ok := l.rateOf(s); ok {
		s.Rate = rate
	}
	s.Addresses = slices.SortedFunc(maps.Keys(l.addressesOf(s, s.Addresses)), netip.Addr.Compare)
	for _, a := range s.Addresses {
		l.own(s.Login, a, s.MAC)
	}
	s.pending = true
	l.put(s)
	written := *s
	written.Addresses = slices.Clone(s.Addresses)
	l.mu.Unlock()
	err := l.store.Write(append(also, store.Change{Bucket: bucketSessions, Key: id.String(), Value: &written})...)
	l.mu.Lock()
	s.pending = false
	switch {
	case l.sessions[id] != s:
		return errors.Join(errOver, l.store.Write(store.Change{Bucket: bucketSessions, Key: id.String()}))
	case err != nil:
		l.drop(s)
		l.release(s, s.Addresses)
		return err
	}
	put := l.addressesOf(s, s.Addresses) // there may be more by now
	s.Addresses = slices.SortedFunc(maps.Keys(put), netip.Addr.Compare)
	l.unsaved[id] = true
	l.counters.Logins++
	for a := range put {
		l.own(s.Login, a, s.MAC)
		l.meter.Watch(a)
	}
	l.log.Info("logged in", "login", s.Login, "user", s.User, "mac", s.MAC, "addresses", s.Addresses)
	if err := l.fire.ChangeFed(config.LoginSet(s.Login), put, nil); err != nil {
		l.end(id, "the firewall could not admit it")
		return err
	}
	l.radius.begins(s)
	l.wakeRates()
	return nil
}

// addressesOf are those of a session's host that it may have, besides those that are given. The caller holds mu.
func (l *Login) addressesOf(s *Session, given []netip.Addr) map[netip.Addr]config.MAC {
	put := map[netip.Addr]config.MAC{}
	for _, a := range l.hosts.of(s.MAC, l.interfaces(s.Login)) {
		if l.mayHave(s, a) {
			put[a] = s.MAC
		}
	}
	for _, a := range given {
		put[a] = s.MAC
	}
	return put
}

func (l *Login) interfaces(login string) []string { return l.settings[login].Login.Interfaces }

// mayHave says whether an address may become one of a session's host: it is a host's, and nobody else has it. The caller holds mu.
func (l *Login) mayHave(s *Session, a netip.Addr) bool {
	owner, taken := l.owners[s.Login][a]
	return (!taken || owner == s.MAC) && !a.IsUnspecified() && !a.IsMulticast()
}

// learned takes in an address of a host, when that is admitted. An address of another host that is admitted stays that one's.
func (l *Login) learned(iface string, a netip.Addr, mac config.MAC) {
	l.mu.Lock()
	defer l.mu.Unlock()
	login := l.of[iface]
	if login == "" {
		return
	}
	s := l.sessions[hostID{login, mac}]
	owner, taken := l.owners[login][a]
	if taken && owner != mac {
		if l.counters.Conflicts++; l.clock().Sub(l.warned) > time.Minute { // somebody may claim addresses all day
			l.warned = l.clock()
			l.log.Warn("an address of a host that is logged in is claimed by another one, which does not get it", "login", login, "address", a, "host", owner, "claims", mac)
		}
	}
	if s == nil {
		l.radius.appeared(hostID{login, mac})
	}
	if s == nil || s.pending || taken || !l.mayHave(s, a) {
		return
	}
	del := []netip.Addr{}
	if len(s.Addresses) >= mostAddresses {
		del = append(del, s.Addresses[0])
		s.Addresses = s.Addresses[1:]
	}
	s.Addresses = append(s.Addresses, a)
	l.own(login, a, mac)
	l.meter.Watch(a)
	l.release(s, del)
	if err := l.fire.ChangeFed(config.LoginSet(login), map[netip.Addr]config.MAC{a: mac}, del); err != nil {
		l.log.Error("cannot admit an address", "address", a, "error", err)
	}
	l.unsaved[hostID{login, mac}] = true
	l.log.Debug("learned an address", "login", login, "user", s.User, "mac", mac, "address", a)
}

// release forgets that a host has addresses, after their traffic is in the session's.
func (l *Login) release(s *Session, list []netip.Addr) {
	for _, a := range list {
		delete(l.owners[s.Login], a)
		t := s.read[a]
		s.before.Sent, s.before.Received = s.before.Sent+t.Sent, s.before.Received+t.Received
		delete(s.read, a)
		l.meter.Forget(a)
	}
}

// ending is a session that ends, and why.
type ending struct {
	id  hostID
	why string
}

// end takes a host's admission away: its connections end in the kernel and in the fast path. The caller holds mu.
func (l *Login) end(id hostID, why string) { l.endAll([]ending{{id, why}}) }

// endAll does so with many at once: to end connections, the firewall reads all that there are, once for each login. The caller holds mu.
func (l *Login) endAll(list []ending) {
	type over struct {
		*Session
		why string
	}
	var all []over
	addresses := map[string][]netip.Addr{}
	for _, e := range list {
		s := l.sessions[e.id]
		if s == nil {
			continue
		}
		l.drop(s)
		delete(l.unsaved, e.id)
		addresses[e.id.login] = append(addresses[e.id.login], s.Addresses...)
		all = append(all, over{s, e.why})
	}
	if len(all) == 0 {
		return
	}
	for _, login := range slices.Sorted(maps.Keys(addresses)) {
		if err := l.fire.ChangeFed(config.LoginSet(login), nil, addresses[login]); err != nil {
			l.log.Error("cannot take the admission of hosts away", "login", login, "addresses", addresses[login], "error", err)
		}
	}
	var changes []store.Change
	for _, s := range all {
		changes = append(append(changes, l.spend(s.Session)...), store.Change{Bucket: bucketSessions, Key: hostID{s.Login, s.MAC}.String()})
	}
	if err := l.store.Write(changes...); err != nil {
		l.log.Error("cannot store the end of sessions", "error", err)
	}
	for _, s := range all {
		l.release(s.Session, s.Addresses)
		l.log.Info("logged out", "login", s.Login, "user", s.User, "mac", s.MAC, "why", s.why, "sent", s.Traffic.Sent, "received", s.Traffic.Received,
			"after", l.clock().Sub(s.Began).Round(time.Second))
		if !s.pending {
			l.radius.ends(s.Session, s.why)
		}
	}
	l.wakeRates()
}

// userID names whose devices count together.
type userID struct{ login, kind, user, voucher string }

func (s *Session) of() userID { return userID{s.Login, s.Kind, s.User, s.Voucher} }

// put and drop keep the sessions, and how many each user has. The caller holds mu.
func (l *Login) put(s *Session) {
	l.sessions[hostID{s.Login, s.MAC}] = s
	l.having[s.of()]++
}

func (l *Login) drop(s *Session) {
	delete(l.sessions, hostID{s.Login, s.MAC})
	if l.having[s.of()]--; l.having[s.of()] <= 0 {
		delete(l.having, s.of())
	}
}

// devices counts the sessions of a user, without that of a host. The caller holds mu.
func (l *Login) devices(s *Session) int {
	n := l.having[s.of()]
	if o := l.sessions[hostID{s.Login, s.MAC}]; o != nil && o.of() == s.of() {
		n--
	}
	return n
}

// fits says why a session may not begin beside the others of its user.
func (l *Login) fits(s *Session, most int) error {
	if most > 0 && l.devices(s) >= most {
		return refusal(fmt.Sprintf("Already logged in on %d devices. Log out on one of them first.", most))
	}
	return nil
}

// flush writes the counters of sessions to the store.
func (l *Login) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		return
	}
	changes := l.forgetMonths()
	if len(changes)+len(l.unsaved) == 0 {
		return
	}
	for id := range l.unsaved {
		if s := l.sessions[id]; s != nil && !s.pending {
			changes = append(append(changes, l.spend(s)...), store.Change{Bucket: bucketSessions, Key: id.String(), Value: s})
		}
	}
	if err := l.store.Write(changes...); err != nil {
		l.log.Error("cannot store the counters of sessions", "error", err)
		return
	}
	clear(l.unsaved)
}

// Sorted are all sessions by login, user and MAC address.
func (l *Login) sorted() []*Session {
	return slices.SortedFunc(maps.Values(l.sessions), func(a, b *Session) int {
		return cmp.Or(cmp.Compare(a.Login, b.Login), cmp.Compare(a.User, b.User), slices.Compare(a.MAC[:], b.MAC[:]))
	})
}
