// SPDX-License-Identifier: Apache-2.0

// Package certfile reads certificates and their keys from files, and notices when somebody renews them.
package certfile

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files are those of a certificate, with those above it, and of its key (PEM).
type Files struct{ Certificate, Key string }

// lookAgain is how old the knowledge of the files may become, so that a renewed certificate is used without a commit.
const lookAgain = time.Minute

// Reader knows the certificates that it has read. It is safe for concurrent use.
type Reader struct {
	title string
	log   *slog.Logger

	mu    sync.Mutex
	known map[Files]*certificate
}

type certificate struct {
	tls    tls.Certificate
	looked time.Time
}

// New returns a reader. title says whose certificates they are, as "the web page".
func New(title string, log *slog.Logger) *Reader {
	return &Reader{title: title, log: log, known: map[Files]*certificate{}}
}

// Read reads the files anew, and says why they can't be used.
func (r *Reader) Read(f Files) (*tls.Certificate, error) {
	r.mu.Lock()
	delete(r.known, f)
	r.mu.Unlock()
	return r.Get(f)
}

// Get reads the files, or knows them. When they were readable and no longer are, the former certificate serves on.
func (r *Reader) Get(f Files) (*tls.Certificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.known[f]
	if c != nil && time.Since(c.looked) < lookAgain {
		return &c.tls, nil
	}
	pair, err := r.read(f)
	switch {
	case err == nil:
		r.known[f] = &certificate{tls: pair, looked: time.Now()}
	case c == nil:
		return nil, err
	default:
		c.looked = time.Now()
		r.log.Error("cannot read the certificate of "+r.title+"; the former one is used", "error", err)
	}
	return &r.known[f].tls, nil
}

// Known are the certificates that were read.
func (r *Reader) Known() (list []*tls.Certificate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.known {
		list = append(list, &c.tls)
	}
	return list
}

func (r *Reader) read(f Files) (pair tls.Certificate, err error) {
	st, err := os.Stat(f.Key)
	if err != nil {
		return pair, fmt.Errorf("key of %s: %w", r.title, err)
	}
	if mode := st.Mode().Perm(); mode&0o077 != 0 {
		return pair, fmt.Errorf("key of %s: %s has mode %04o and others may use it; run: chmod 0600 %s", r.title, f.Key, mode, f.Key)
	}
	if pair, err = tls.LoadX509KeyPair(f.Certificate, f.Key); err != nil {
		return pair, fmt.Errorf("certificate of %s (%s, %s): %w", r.title, f.Certificate, f.Key, err)
	}
	return pair, nil
}
