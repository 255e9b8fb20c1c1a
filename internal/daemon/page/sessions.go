// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"minne/internal/subsystem/services/web"
)

// How long a login lasts without a request, and in all; how many logins there may be.
const (
	idleLogin    = 30 * time.Minute
	longestLogin = 12 * time.Hour
	mostLogins   = 256
)

// cookie is the name of the session's; the prefix makes browsers refuse it from anybody but this host, by HTTPS, for all
// paths (RFC 6265bis, section 4.1.3.2).
const cookie = "__Host-minne"

// session is one login of a browser.
type session struct {
	web.Identity
	form  string // what each form of the session carries, against requests that another site makes
	began time.Time
	used  time.Time
}

// sessions are all of them, by the hash of what the cookie holds: who reads the daemon's memory in a dump has no cookie.
type sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*session
}

func newSessions() *sessions { return &sessions{all: map[[sha256.Size]byte]*session{}} }

// begin makes a session. Its secret is new whatever cookie the browser had.
func (s *sessions) begin(w http.ResponseWriter, id web.Identity) {
	secret, now := rand.Text(), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, one := range s.all {
		if one.over(now) {
			delete(s.all, key)
		}
	}
	for len(s.all) >= mostLogins {
		var oldest [sha256.Size]byte
		var used time.Time
		for key, one := range s.all {
			if used.IsZero() || one.used.Before(used) {
				oldest, used = key, one.used
			}
		}
		delete(s.all, oldest)
	}
	s.all[sha256.Sum256([]byte(secret))] = &session{Identity: id, form: rand.Text(), began: now, used: now}
	setCookie(w, secret, 0)
}

func setCookie(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: value, Path: "/", MaxAge: age, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
}

func (s *session) over(now time.Time) bool {
	return now.Sub(s.used) > idleLogin || now.Sub(s.began) > longestLogin
}

// of finds the session of a request, nil without one. A page that keeps itself up to date is no sign of a person: it does
// not renew the session.
func (s *sessions) of(r *http.Request, renew bool) *session {
	c, err := r.Cookie(cookie)
	if err != nil {
		return nil
	}
	key, now := sha256.Sum256([]byte(c.Value)), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[key]
	if one == nil {
		return nil
	}
	if one.over(now) {
		delete(s.all, key)
		return nil
	}
	if renew {
		one.used = now
	}
	return one
}

// end forgets the session of a request.
func (s *sessions) end(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookie); err == nil {
		s.mu.Lock()
		delete(s.all, sha256.Sum256([]byte(c.Value)))
		s.mu.Unlock()
	}
	setCookie(w, "", -1)
}
