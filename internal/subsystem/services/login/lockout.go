// SPDX-License-Identifier: Apache-2.0

package login

import (
	"fmt"
	"time"

	"minne/internal/model/config"
)

// Who guesses has to wait: after some failed logins within window, a host or an account is locked for a time. The paper's login boxes
// take three in 60 seconds, and 900 seconds.

const (
	window    = time.Minute
	mostTries = 50_000 // hosts and accounts that are remembered
)

// tries are the failed logins of a host, or with an account.
type tries struct {
	at    []time.Time
	until time.Time // locked
}

// keysOf are what a login counts for: the host, and the account if there is one.
func keysOf(login string, mac config.MAC, account string) []string {
	keys := []string{login + " " + mac.String()}
	if account != "" {
		keys = append(keys, login+" account "+account)
	}
	return keys
}

// locked says how long a host, or an account, has to wait. The caller holds mu.
func (l *Login) locked(keys []string) (wait time.Duration) {
	for _, k := range keys {
		if t := l.tries[k]; t != nil {
			wait = max(wait, t.until.Sub(l.clock()))
		}
	}
	return wait
}

func waitWords(d time.Duration) refusal {
	return refusal(fmt.Sprintf("Too many failed logins. Wait %d minutes.", int((d+time.Minute-1)/time.Minute)))
}

// failed counts a failed login. The caller holds mu.
func (l *Login) failed(s *config.Login, keys []string) {
	now := l.clock()
	l.counters.Refused++
	for _, k := range keys {
		t := l.tries[k]
		if t == nil {
			if len(l.tries) >= mostTries {
				l.sweep(now)
			}
			t = &tries{}
			l.tries[k] = t
		}
		for len(t.at) > 0 && now.Sub(t.at[0]) > window {
			t.at = t.at[1:]
		}
		if t.at = append(t.at, now); len(t.at) >= s.Attempts {
			t.until, t.at = now.Add(s.Lockout.Std()), nil
			l.counters.Lockouts++
			l.log.Warn("too many failed logins", "who", k, "locked for", s.Lockout)
		}
	}
}

// sweep forgets what is over; when that is not enough, anything that is not locked, and then everything.
func (l *Login) sweep(now time.Time) {
	for k, t := range l.tries {
		if t.until.Before(now) && (len(t.at) == 0 || now.Sub(t.at[len(t.at)-1]) > window) {
			delete(l.tries, k)
		}
	}
	for _, locked := range []bool{false, true} {
		for k, t := range l.tries {
			if len(l.tries) < mostTries {
				return
			}
			if locked || t.until.Before(now) {
				delete(l.tries, k)
			}
		}
	}
}
