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
	"path/filepath"
	"strings"
	"syscall"

	"minne/internal/config"
	"minne/internal/plan"
)

// User is the user's name.
const User = "admin"

// shadowFile is where the host keeps the hashes, shadow(5).
const shadowFile = "/etc/shadow"

// Desired is the hash to have; "" leaves what is there.
type Desired struct {
	hash string
}

// Empty says whether nothing is asked for.
func (d Desired) Empty() bool { return d.hash == "" }

// LogValue and the like: a hash is a secret too.
func (d Desired) String() string       { return "(hash)" }
func (d Desired) GoString() string     { return "(hash)" }
func (d Desired) LogValue() slog.Value { return slog.StringValue("(hash)") }

// Render takes the hash from the secrets.
func Render(cfg *config.Config, secrets config.Secrets) (Desired, error) {
	name := cfg.System.Admin.Password
	if name == "" {
		return Desired{}, nil
	}
	hash, _ := secrets.Get(name)
	if strings.ContainsAny(hash, ":\n") {
		return Desired{}, fmt.Errorf("system.admin.password: the secret %s is no hash of a password", name)
	}
	return Desired{hash}, nil
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
	if !p.own || d.Empty() {
		return nil, nil
	}
	_, now, err := p.read()
	if err != nil || now == d.hash {
		return nil, err
	}
	return []plan.Change{{Subsystem: "services", Action: plan.Modify, Object: "password of " + User}}, nil
}

// Apply sets the hash.
func (p *Password) Apply(_ context.Context, d Desired) error {
	if !p.own || d.Empty() {
		return nil
	}
	text, now, err := p.read()
	if err != nil || now == d.hash {
		return err
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if f := strings.Split(line, ":"); f[0] == User && len(f) > 2 {
			f[1] = d.hash
			lines[i] = strings.Join(f, ":")
		}
	}
	if err := p.replace(strings.Join(lines, "")); err != nil {
		return fmt.Errorf("password of %s: %w", User, err)
	}
	p.log.Info("password set", "user", User)
	return nil
}

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
	return "", "", fmt.Errorf("password of %s: there is no such user on this host; make it (adduser %s), or remove system.admin.password", User, User)
}

// replace writes the file as a whole, with the owner and mode that it has.
func (p *Password) replace(text string) error {
	st, err := os.Stat(p.file)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(p.file), ".shadow-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(text)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		err = errors.Join(err, tmp.Chown(int(sys.Uid), int(sys.Gid)))
	}
	if err = errors.Join(err, tmp.Chmod(st.Mode().Perm()), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), p.file)
}
