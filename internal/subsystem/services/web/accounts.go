// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/go-crypt/crypt/algorithm/shacrypt"

	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/admin"
)

// tokenMark stands in front of a token's name, where users and tokens are named: no user is called so.
const tokenMark = "token:"

// account is somebody who may ask: a person with a password, or a program with a token.
type account struct {
	name   string
	token  bool
	role   api.Role
	secret string // $6$… of a password, sha256:… of a token
}

// LogValue and the like: a hash is a secret, too.
func (a account) String() string       { return a.name }
func (a account) GoString() string     { return a.name }
func (a account) LogValue() slog.Value { return slog.StringValue(a.name) }

// accounts are all of them by name.
type accounts map[string]account

var roles = map[string]api.Role{"read": api.Read, "operate": api.Operate, "admin": api.Admin}

// accountsOf are those of a configuration. One whose secret is not there can't log in.
func accountsOf(cfg *config.Config, secrets config.Secrets) accounts {
	all := accounts{}
	add := func(a account, secret string) {
		if a.secret, _ = secrets.Get(secret); a.secret != "" {
			all[a.name] = a
		}
	}
	w := cfg.Services.Web
	if name := cfg.System.Admin.Password; name != "" && w.Users[admin.User] == nil {
		add(account{name: admin.User, role: api.Admin}, name)
	}
	for name, u := range w.Users {
		add(account{name: name, role: roles[u.Role]}, u.Secret)
	}
	for name, t := range w.Tokens {
		add(account{name: tokenMark + name, token: true, role: roles[t.Role]}, t.Secret)
	}
	return all
}

// Identity is somebody who has proved who he is.
type Identity struct {
	Name string
	Role api.Role
	mark [sha256.Size]byte // of the account as it was then
}

// Peer is what the API knows of him: it never takes him for a user of the host.
func (i Identity) Peer() api.Peer {
	return api.Peer{UID: api.NoUID, User: i.Name + "@web", Role: i.Role, Remote: true}
}

func (a account) identity() Identity {
	return Identity{Name: a.name, Role: a.role, mark: sha256.Sum256([]byte(fmt.Sprint(a.role, a.name, a.secret)))}
}

// Valid says whether an identity still is what the configuration in force says of it.
func (s *Server) Valid(i Identity) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.all[i.Name]
	return ok && a.identity() == i
}

// The reasons why somebody is not let in.
var (
	ErrWrong = errors.New("wrong name or password")
	ErrBusy  = errors.New("too many log in at this moment: try again")
)

// longestPassword bounds what is hashed, in bytes.
const longestPassword = 256

// Login checks a name and a password from an address. Whoever fails too often waits. For a name that nobody has a hash
// is computed, too.
func (s *Server) Login(ctx context.Context, from netip.Addr, name, password string) (Identity, error) {
	now := time.Now()
	if left := s.throttle.wait(now, from, name); left > 0 {
		s.log.Warn("login refused: too many failures", "audit", "login", "user", printable(name), "from", from, "for", left.Round(time.Second))
		return Identity{}, &Waiting{left}
	}
	select { // one at a time: a flood of logins costs a part of one CPU
	case s.hashing <- struct{}{}:
	case <-time.After(5 * time.Second):
		return Identity{}, ErrBusy
	case <-ctx.Done():
		return Identity{}, ctx.Err()
	}
	defer func() { <-s.hashing }()
	s.mu.Lock()
	a, ok := s.all[name]
	s.mu.Unlock()
	ok = ok && !a.token && len(password) <= longestPassword
	if !ok {
		a = account{secret: nobody()}
	}
	if !matches(a.secret, password) || !ok {
		s.throttle.failed(time.Now(), from, name)
		s.log.Warn("login failed", "audit", "login", "user", printable(name), "from", from)
		return Identity{}, ErrWrong
	}
	s.throttle.succeeded(from, name)
	s.log.Info("login", "audit", "login", "user", name, "from", from, "role", a.role)
	return a.identity(), nil
}

// Waiting is the error for who has failed too often.
type Waiting struct{ Left time.Duration }

func (w *Waiting) Error() string {
	return fmt.Sprintf("too many failed logins: try again in %v", w.Left.Round(time.Second))
}

// nobody is a hash that costs as much as another; its password was forgotten at once.
var nobody = sync.OnceValue(func() string {
	hash, err := Hash(rand.Text())
	if err != nil {
		panic(err) // of constants and random numbers
	}
	return hash
})

// matches says whether a hash is the password's.
func matches(hash, password string) bool {
	if len(password) > longestPassword {
		return false
	}
	digest, err := shacrypt.Decode(hash)
	return err == nil && digest.Match(password)
}

// rounds of SHA-512 for a new password's hash: about 100 ms on a small board.
const rounds = 50_000

// Hash is what is kept of a password, in the format of crypt(5).
func Hash(password string) (string, error) {
	if len(password) > longestPassword {
		return "", fmt.Errorf("the password is longer than %d bytes", longestPassword)
	}
	h, err := shacrypt.New(shacrypt.WithVariant(shacrypt.VariantSHA512), shacrypt.WithIterations(rounds))
	if err != nil {
		return "", err
	}
	digest, err := h.Hash(password)
	if err != nil {
		return "", err
	}
	return digest.Encode(), nil
}

// NewToken makes a token, of 130 random bits, and what is kept of it.
func NewToken() (token, kept string) {
	token = "minne-" + strings.ToLower(rand.Text())
	return token, sum(token)
}

func sum(token string) string {
	hash := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(hash[:])
}

// Token finds whose a token is.
func (s *Server) Token(from netip.Addr, token string) (Identity, error) {
	if left := s.throttle.wait(time.Now(), from, tokenMark); left > 0 {
		return Identity{}, &Waiting{left}
	}
	hash := []byte(sum(token))
	s.mu.Lock()
	var found *account
	for _, a := range s.all {
		if a.token && subtle.ConstantTimeCompare([]byte(a.secret), hash) == 1 {
			found = &a
		}
	}
	s.mu.Unlock()
	if found == nil {
		s.throttle.failed(time.Now(), from, tokenMark)
		s.log.Warn("unknown token", "audit", "login", "from", from)
		return Identity{}, errors.New("no such token")
	}
	return found.identity(), nil
}

// printable is what a stranger calls himself, for the log.
func printable(name string) string {
	if len(name) > 40 {
		name = name[:40] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '.'
		}
		return r
	}, name)
}
