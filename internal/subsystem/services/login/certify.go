// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"minne/internal/base/acme"
	"minne/internal/base/atomicfile"
	"minne/internal/base/certfile"
	"minne/internal/base/listen"
	"minne/internal/base/medium"
	"minne/internal/model/config"
)

// Certificates by ACME lie in the directory acme beside the configuration: a file NAME.pem with key and certificate, so that they are
// replaced at once, and account.key. A certificate is renewed when a third of its time is left. Who fails tries again after a minute,
// then after two, four, … up to six hours: authorities count failures.

const (
	obtainWithin  = 5 * time.Minute
	firstRetry    = time.Minute
	lastRetry     = 6 * time.Hour
	certifyEvery  = 10 * time.Minute // looked at, also for a clock that was set
	mostAuthority = 1 << 20          // bytes of a file with certificates
)

// authority is where a login has its certificate from.
type authority struct {
	directory  string
	email      string
	interfaces []string // without the login's own
	roots      *x509.CertPool
	account    string // file
}

// attempt is what became of a login's certificate.
type attempt struct {
	name   string // that it was for
	failed error
	tries  int
	next   time.Time
}

// readAuthority reads what a configuration says of one. dir is the directory of the configuration.
func readAuthority(dir string, l *config.Login) (*authority, certfile.Files, error) {
	a, file := l.ACME, filepath.Join(dir, "acme", l.Name+".pem")
	list := slices.DeleteFunc(slices.Clone(a.Interfaces), func(i string) bool { return slices.Contains(l.Interfaces, i) })
	out := &authority{directory: a.Directory, email: a.Email, interfaces: list, account: filepath.Join(dir, "acme", "account.key")}
	if a.CACertificate != "" {
		path := place(dir, a.CACertificate)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, certfile.Files{}, err
		}
		if out.roots = x509.NewCertPool(); len(text) > mostAuthority || !out.roots.AppendCertsFromPEM(text) {
			return nil, certfile.Files{}, fmt.Errorf("%s: no certificate (PEM)", path)
		}
	}
	return out, certfile.Files{Certificate: file, Key: file}, nil
}

// certify obtains and renews certificates until ctx ends.
func (l *Login) certify(ctx context.Context) {
	for {
		l.mu.Lock()
		settings := l.settings
		l.mu.Unlock()
		wait := certifyEvery
		for login, s := range settings {
			if s.Authority != nil && ctx.Err() == nil {
				wait = min(wait, l.certified(ctx, login, s))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-l.certifyWoken:
		case <-time.After(wait):
		}
	}
}

// certified obtains a login's certificate if it is time, and says when to look again.
func (l *Login) certified(ctx context.Context, login string, s Settings) time.Duration {
	l.mu.Lock()
	last := l.attempts[login]
	l.mu.Unlock()
	if last.name != s.Login.Name {
		last = attempt{name: s.Login.Name}
	}
	now := l.clock()
	if pair, err := l.files.Get(s.Files); err == nil && now.Before(renewal(pair.Leaf)) {
		l.mu.Lock()
		delete(l.attempts, login)
		l.mu.Unlock()
		return certifyEvery
	}
	if wait := last.next.Sub(now); wait > 0 && wait <= lastRetry {
		return wait
	}
	err := l.obtain(ctx, login, s)
	if ctx.Err() != nil {
		return 0
	}
	if last.failed = err; err != nil {
		wait := min(firstRetry<<min(last.tries, 16), lastRetry)
		last.tries, last.next = last.tries+1, l.clock().Add(wait)
		l.log.Error("no certificate for the login page", "login", login, "name", s.Login.Name, "error", err, "next try in", wait)
	} else {
		last = attempt{name: s.Login.Name, next: l.clock().Add(firstRetry)} // one that is old at once is not asked for all the time
		l.log.Info("got a certificate for the login page", "login", login, "name", s.Login.Name)
	}
	l.mu.Lock()
	l.attempts[login] = last
	l.mu.Unlock()
	return firstRetry
}

// renewal is when a certificate is to be renewed.
func renewal(c *x509.Certificate) time.Time { return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3) }

// obtain gets a certificate and puts it where the portal reads it.
func (l *Login) obtain(ctx context.Context, login string, s Settings) (err error) {
	ctx, end := context.WithTimeout(ctx, obtainWithin)
	defer end()
	account, err := accountKey(s.Authority.account)
	if err != nil {
		return err
	}
	for _, iface := range s.Authority.interfaces { // on the login's own, the portal answers
		socket, err := listen.On(ctx, iface, portHTTP)
		if err != nil {
			return fmt.Errorf("listen for the certificate authority on %s: %w", iface, err)
		}
		answers := &http.Server{Handler: &l.proofs, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: mostHeader, ErrorLog: quiet}
		go func() { _ = answers.Serve(newBounded(socket)) }()
		defer answers.Close()
	}
	text, err := acme.Obtain(ctx, acme.Request{Directory: s.Authority.directory, Roots: s.Authority.roots, Account: account, Email: s.Authority.email, Name: s.Login.Name, Proofs: &l.proofs})
	if err != nil {
		return err
	}
	if err := keep(s.Files.Key, text); err != nil {
		return err
	}
	_, err = l.files.Read(s.Files)
	return err
}

// accountKey reads the key of the router's account, or makes it.
func accountKey(path string) (crypto.Signer, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		key, err := acme.ReadKey(text)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return key, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := acme.NewKey()
	if err != nil {
		return nil, err
	}
	if text, err = acme.KeyPEM(key); err == nil {
		err = keep(path, text)
	}
	return key, err
}

// keep writes a file with a key.
func keep(path string, text []byte) (err error) {
	done, err := medium.Writable(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o600, atomicfile.Durable)
}

// uncertified says which portals wait for their certificate, or for its renewal. The caller holds mu.
func (l *Login) uncertified() (list []string) {
	for login, s := range l.settings {
		if a := l.attempts[login]; s.Authority != nil && a.failed != nil {
			list = append(list, fmt.Sprintf("login %s: no new certificate for %s: %v", login, s.Login.Name, a.failed))
		}
	}
	slices.Sort(list)
	return list
}
