// SPDX-License-Identifier: Apache-2.0

// Package admin gives the user admin the password of the configuration, as a hash:
// neither the configuration nor the router knows the password itself. It touches
// /etc/shadow of the host that the router owns, and only that one line.
//
// On the router's image /etc is made anew at each boot; so the password lives in
// the secrets beside the configuration, and this package puts it in place with the
// first revision.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"minne/internal/base/atomicfile"
	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/service"
)

// Service is the password to the other parts.
var Service = service.Descriptor{
	Name: "admin",
	New:  func(h service.Host) service.Running { return service.Of(New(h.Own, h.Log), Render) },
}

// User is the user's name.
const User = "admin"

// shadowFile is where the host keeps the hashes, shadow(5).
const shadowFile = "/etc/shadow"

// Desired is the hash to have, "" to leave what is there, and whether keys log in.
type Desired struct {
	hash string
	keys bool // by SSH: then the account must not be locked
}

// Empty says whether nothing is asked for.
func (d Desired) Empty() bool { return d == Desired{} }

// LogValue and the like: a hash is a secret too.
func (d Desired) String() string       { return "(hash)" }
func (d Desired) GoString() string     { return "(hash)" }
func (d Desired) LogValue() slog.Value { return slog.StringValue("(hash)") }

// Render takes the hash from the secrets.
func Render(cfg *config.Config, secrets config.Secrets) (Desired, error) {
	d := Desired{keys: cfg.Services.SSH != nil && len(cfg.System.Admin.SSHKeys) > 0}
	if name := cfg.System.Admin.Password; name != "" {
		d.hash, _ = secrets.Get(name)
		if strings.ContainsAny(d.hash, ":\n") {
			return Desired{}, fmt.Errorf("system.admin.password: the secret %s is not a password hash (make one: mkpasswd)", name)
		}
	}
	return d, nil
}

// Password is the password of admin on this host.
type Password struct {
	file string
	own  bool
	log  *slog.Logger
}

// New returns the password. A router that does not own its host has none to set.
func New(ownHost bool, log *slog.Logger) *Password {
	return &Password{file: shadowFile, own: ownHost, log: log}
}

// Plan says whether the password would change, not to what.
func (p *Password) Plan(_ context.Context, d Desired) ([]plan.Change, error) {
	_, now, next, err := p.compare(d)
	if err != nil || now == next {
		return nil, err
	}
	object := "password of " + User
	if next == noPassword {
		object = "account of " + User + ": not locked, for logins by key; no password"
	}
	return []plan.Change{{Subsystem: "services", Action: plan.Modify, Object: object}}, nil
}

// noPassword is a hash that no password has, of an account that is not locked.
const noPassword = "*"

// compare returns the file with the hash that is there and the one to have instead.
//
// OpenSSH without PAM, as it runs here, lets nobody into an account whose hash begins with an
// exclamation mark, keys or not. useradd makes accounts so, which only means that there is no
// password: that becomes noPassword. A mark in front of a hash is somebody's will (usermod -L).
func (p *Password) compare(d Desired) (text, now, next string, err error) {
	if d.Empty() || !p.own && !d.keys {
		return "", "", "", nil
	}
	text, now, err = p.read()
	switch {
	case errors.Is(err, errNoUser) && d.hash == "":
		return "", "", "", nil // the SSH login says so
	case !p.own && (err != nil || os.Geteuid() != 0):
		return "", "", "", nil // not ours to know
	case err != nil:
		return "", "", "", err
	case p.own && d.hash != "":
		return text, now, d.hash, nil
	case !d.keys || !strings.HasPrefix(now, "!"):
		return text, now, now, nil
	case !p.own:
		return "", "", "", fmt.Errorf("SSH login: the account %s is locked, and sshd refuses locked accounts; unlock it without a password: usermod -p '*' %s", User, User)
	case strings.Trim(now, "!*") == "":
		return text, now, noPassword, nil
	}
	return "", "", "", fmt.Errorf("SSH login: the account %s is locked (usermod -L), and sshd refuses locked accounts; unlock it: usermod -U %s", User, User)
}

// Apply sets the hash.
func (p *Password) Apply(_ context.Context, d Desired) error {
	text, now, next, err := p.compare(d)
	if err != nil || now == next {
		return err
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if f := strings.Split(line, ":"); f[0] == User && len(f) > 2 {
			f[1] = next
			lines[i] = strings.Join(f, ":")
		}
	}
	if err := p.replace(strings.Join(lines, "")); err != nil {
		return fmt.Errorf("password of %s: %w", User, err)
	}
	p.log.Info("password set, or the account unlocked for keys", "user", User)
	return nil
}

// errNoUser is wrapped when the host has no such user.
var errNoUser = errors.New("no such user on this host")

// read returns the file and the hash that is there.
func (p *Password) read() (text, hash string, err error) {
	b, err := os.ReadFile(p.file)
	if err != nil {
		return "", "", fmt.Errorf("password of %s: %w", User, err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, ":"); f[0] == User && len(f) > 2 {
			return string(b), f[1], nil
		}
	}
	return "", "", fmt.Errorf("password of %s: %w; create it (adduser %s), or remove system.admin.password", User, errNoUser, User)
}

// replace writes the file as a whole, with the owner and mode that it has.
func (p *Password) replace(text string) error {
	st, err := os.Stat(p.file)
	if err != nil {
		return err
	}
	sys := st.Sys().(*syscall.Stat_t)
	return atomicfile.Write(p.file, []byte(text), st.Mode().Perm(), atomicfile.Durable, atomicfile.Owner(int(sys.Uid), int(sys.Gid)))
}
