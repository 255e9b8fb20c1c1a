// SPDX-License-Identifier: Apache-2.0

package login

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-crypt/crypt"
	"github.com/go-crypt/crypt/algorithm/bcrypt"
	"github.com/go-crypt/crypt/algorithm/scrypt"
	"github.com/go-crypt/crypt/algorithm/shacrypt"
)

// Local users: a file with a line NAME:HASH for each.

const (
	mostUsers   = 4 << 20 // bytes of the file
	longestUse  = 64      // bytes of a name
	longestPass = 128
)

// errWrong is the one answer to a wrong name, password or voucher: it does not say which.
var errWrong = refusal("That is not right. Check what you typed.")

// crypts reads the kinds of hashes that are not broken.
var crypts = func() *crypt.Decoder {
	d := crypt.NewDecoder()
	for _, register := range []func(*crypt.Decoder) error{
		func(d *crypt.Decoder) error { return shacrypt.RegisterDecoder(d) },
		func(d *crypt.Decoder) error { return bcrypt.RegisterDecoder(d) },
		func(d *crypt.Decoder) error { return scrypt.RegisterDecoder(d) },
	} {
		if err := register(d); err != nil {
			panic(err)
		}
	}
	return d
}()

// readUsers reads a file of users.
func readUsers(dir, name string) (map[string]string, error) {
	path := place(dir, name)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular() || st.Size() > mostUsers:
		return nil, fmt.Errorf("%s is not a file of at most %d MB", path, mostUsers>>20)
	case st.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %04o and others may read it; run: chmod 0600 %[1]s", path, st.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, mostUsers))
	if err != nil {
		return nil, err
	}
	users := map[string]string{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		user, hash, _ := strings.Cut(line, ":")
		hash, _, _ = strings.Cut(hash, ":") // shadow(5) has more
		_, twice := users[user]
		switch _, err := crypts.Decode(hash); {
		case !validName(user):
			return nil, fmt.Errorf("%s:%d: not a name of 1 to %d bytes without spaces, before a colon", path, number, longestUse)
		case twice:
			return nil, fmt.Errorf("%s:%d: the name %s is there twice", path, number, user)
		case err != nil: // whose words may quote the hash
			return nil, fmt.Errorf("%s:%d: behind the name there is no hash; expected what minne login hash prints, as $6$…", path, number)
		}
		users[user] = hash
	}
	return users, nil
}

func validName(name string) bool {
	return name != "" && len(name) <= longestUse && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// nobody's hash is compared with when a user is not known, which takes as long.
var nobody = sync.OnceValue(func() string {
	h, err := NewHash(token(16))
	if err != nil {
		panic(err)
	}
	return h
})

// NewHash is the hash of a password for a file of users.
func NewHash(password string) (string, error) {
	if password == "" || len(password) > longestPass {
		return "", fmt.Errorf("expected a password of 1 to %d bytes", longestPass)
	}
	h, err := shacrypt.New(shacrypt.WithSHA512(), shacrypt.WithIterations(10000))
	if err != nil {
		return "", err
	}
	d, err := h.Hash(password)
	if err != nil {
		return "", err
	}
	return d.Encode(), nil
}

// turns bounds how many hashes are computed at once, so that a flood of logins leaves the router some of its processor.
var turns = make(chan struct{}, 2)

var errBusy = refusal("Too many people log in at this moment. Try again in a few seconds.")

// right says whether a password belongs to a hash.
func right(hash, password string) (bool, error) {
	select {
	case turns <- struct{}{}:
	case <-time.After(5 * time.Second):
		return false, errBusy
	}
	defer func() { <-turns }()
	d, err := crypts.Decode(hash)
	if err != nil {
		return false, errors.New("a hash can't be read")
	}
	return d.MatchAdvanced(password)
}

// local says whether a local user has a password.
func local(users map[string]string, name, password string) error {
	hash, known := users[name]
	if !known {
		hash = nobody()
	}
	ok, err := right(hash, password)
	if err != nil {
		return err
	}
	if !ok || !known {
		return errWrong
	}
	return nil
}
