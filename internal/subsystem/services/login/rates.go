// SPDX-License-Identifier: Apache-2.0

package login

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/vendors/mikrotik"
	"layeh.com/radius/vendors/wispr"

	"minne/internal/model/config"
)

// The speed of a user is that of a subscriber's plan in the kernel: a class for each direction, for all devices of the user together.
// Those who log in at the same time are told to the kernel together: each time it compares all that it has.

// Subscribers are told who has which speed.
type Subscribers interface {
	Join(context.Context, []Subscriber) (left int, err error)
}

// Subscriber is a user with a speed.
type Subscriber struct {
	Name, Login string
	Rate        config.LoginRate
	MACs        []config.MAC
	Interface   string // "" for several
}

// rateOf is the speed of a session; ok is false where there is none. The caller holds mu.
func (l *Login) rateOf(s *Session) (rate config.LoginRate, ok bool) {
	set, known := l.settings[s.Login]
	switch {
	case !known: // before the first commit
		return s.Rate, s.Rate.In()
	case set.Login.Rate == nil:
		return rate, false
	case s.Given && s.Rate.In():
		return s.Rate, true
	}
	return *set.Login.Rate, true
}

// subscribers are the users with a speed, by name. The caller holds mu.
func (l *Login) subscribers() (list []Subscriber) {
	by := map[string]*Subscriber{}
	last := map[string]time.Time{}
	for id, s := range l.sessions {
		rate, ok := l.rateOf(s)
		if !ok {
			continue
		}
		name := subscriberName(s)
		one := by[name]
		if one == nil {
			one = &Subscriber{Name: name, Login: s.Login}
			if all := l.interfaces(s.Login); len(all) == 1 {
				one.Interface = all[0]
			}
			by[name] = one
		}
		if one.MACs = append(one.MACs, id.mac); s.Began.After(last[name]) || one.Rate == (config.LoginRate{}) {
			one.Rate, last[name] = rate, s.Began // the newest word
		}
		s.Rate = rate // for the time between the start of the next daemon and its first commit
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		slices.SortFunc(by[name].MACs, func(a, b config.MAC) int { return slices.Compare(a[:], b[:]) })
		list = append(list, *by[name])
	}
	return list
}

// subscriberName is the name of a session's user as a subscriber: no other user has it.
func subscriberName(s *Session) string {
	who := cmp.Or(s.Voucher, s.Kind+" "+s.User)
	if s.Kind == "operator" {
		who = s.MAC.String() // each host for itself
	}
	sum := sha256.Sum256([]byte(s.Login + " " + who))
	name := s.Login + "/" + strings.ReplaceAll(s.User, " ", "-")
	return name[:min(len(name), config.LongestSubscriber-9)] + "~" + hex.EncodeToString(sum[:4])
}

const (
	joinPause   = 100 * time.Millisecond
	joinRetry   = 10 * time.Second
	joinShare   = 4 // of the time, this part at most is spent
	longestJoin = time.Minute
)

// joining tells the kernel of users with a speed until ctx ends.
func (l *Login) joining(ctx context.Context) {
	var told []Subscriber
	for {
		wait := time.Duration(0)
		l.mu.Lock()
		now := l.subscribers()
		l.mu.Unlock()
		if !reflect.DeepEqual(now, told) {
			begin := time.Now()
			one, end := context.WithTimeout(ctx, longestJoin)
			left, err := l.plans.Join(one, now)
			end()
			if told = now; err == nil && left > 0 {
				err = fmt.Errorf("there is no room for %d users with a speed", left)
			}
			l.mu.Lock()
			if l.unjoined = err; err != nil {
				told, wait = nil, joinRetry
			}
			l.mu.Unlock()
			if err != nil && ctx.Err() == nil {
				l.log.Error("cannot give users their speed", "error", err)
			}
			wait = max(wait, joinPause, joinShare*time.Since(begin))
		}
		var again <-chan time.Time
		if told == nil && now != nil {
			again = time.After(wait)
		} else if wait > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-l.ratesWoken:
		case <-again:
		}
	}
}

// wakeRates has it looked at who has a speed.
func (l *Login) wakeRates() {
	select {
	case l.ratesWoken <- struct{}{}:
	default:
	}
}

// takeRate takes the speed that a RADIUS server gives into a session: WISPr-Bandwidth-Max-Down and -Up in bit/s, or
// Mikrotik-Rate-Limit, whose first word is "rx/tx" as the router sees it: from the user, then to the user.
func (s *Session) takeRate(p *radius.Packet) {
	rate := s.Rate
	if text := mikrotik.MikrotikRateLimit_GetString(p); text != "" {
		word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		up, down, two := strings.Cut(word, "/")
		if !two {
			down = up
		}
		rate = config.LoginRate{Down: mikrotikRate(down), Up: mikrotikRate(up)}
	}
	if n := wispr.WISPrBandwidthMaxDown_Get(p); n > 0 {
		rate.Down = config.Rate(n)
	}
	if n := wispr.WISPrBandwidthMaxUp_Get(p); n > 0 {
		rate.Up = config.Rate(n)
	}
	if rate.In() && rate != s.Rate {
		s.Rate, s.Given = rate, true
	}
}

// mikrotikRate is a number with k, M or G; 0 for what is none.
func mikrotikRate(text string) config.Rate {
	unit := config.Rate(1)
	if n := len(text); n > 0 {
		if u, ok := map[byte]config.Rate{'k': 1e3, 'K': 1e3, 'm': 1e6, 'M': 1e6, 'G': 1e9, 'g': 1e9}[text[n-1]]; ok {
			unit, text = u, text[:n-1]
		}
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return config.Rate(n) * unit
}
