// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"syscall"
)

// Secrets are passwords and keys by name. They live in a file of their own, a
// plain list of name: value, so that the configuration can be shown, mailed and
// kept in version control. The values never leave through printing, logging or
// encoding: each of those gives the same placeholder, and a message about the
// file names a line, never its text.

// redacted is what every way of printing secrets gives.
const redacted = "(secrets)"

// maxSecrets is the biggest secrets file that is read, in bytes.
const maxSecrets = 256 << 10

// secretName is the form of a secret's name.
var secretName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// Secrets holds secrets by name. The zero value holds none.
type Secrets struct {
	names   []string
	value   func(name string) string // a function, because fmt prints unexported maps of a structure around
	unknown bool                     // the names can't be read: every name may exist
	file    string                   // where they were looked for, "" when they come from no file
	absent  bool                     // there is no such file
}

// place says where secrets are written, for messages.
func (s Secrets) place() string {
	switch {
	case s.file == "":
		return "the secrets file"
	case s.absent:
		return s.file + " (which does not exist)"
	}
	return s.file
}

// UnreadSecrets stands for a secrets file that the caller may not read, as in a
// check without root: Check then takes every name for known.
func UnreadSecrets() Secrets { return Secrets{unknown: true} }

// LoadSecrets reads a secrets file. A missing file holds no secrets. A file that
// others may read, or that belongs to neither root nor the current user, is
// refused; the error then wraps fs.ErrPermission.
func LoadSecrets(path string) (Secrets, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Secrets{file: path, absent: true}, nil
	}
	if err != nil {
		return Secrets{}, fmt.Errorf("read secrets: %w", err)
	}
	defer file.Close()
	if err := checkSecretsFile(file); err != nil {
		return Secrets{}, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSecrets+1))
	if err != nil {
		return Secrets{}, fmt.Errorf("read secrets: %w", err)
	}
	return ParseSecrets(path, data)
}

// checkSecretsFile looks at the open file, not at its name, so that it can't be exchanged in between.
func checkSecretsFile(file *os.File) error {
	st, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read secrets: %w", err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("secrets file %s is not a regular file", file.Name())
	}
	if mode := st.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("secrets file %s has mode %04o and others may use it; run: chmod 0600 %s: %w", file.Name(), mode, file.Name(), fs.ErrPermission)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Uid != 0 && int(sys.Uid) != os.Geteuid() {
		return fmt.Errorf("secrets file %s belongs to user %d; run: chown root %s: %w", file.Name(), sys.Uid, file.Name(), fs.ErrPermission)
	}
	return nil
}

// ParseSecrets decodes the text of a secrets file. file is its name in messages,
// which hold no text of the file.
func ParseSecrets(file string, data []byte) (Secrets, error) {
	ps := &problems{source: &source{file: file}} // without lines: none is ever shown
	if len(data) > maxSecrets {
		ps.add(position{}, Problem{Message: "the secrets file is too big", Expected: fmt.Sprintf("at most %d kB", maxSecrets>>10)})
		return Secrets{}, ps.err()
	}
	_, text, found := newSource(file, data)
	found.copyPlaces(ps)
	if len(ps.list) > 0 {
		return Secrets{}, ps.err()
	}
	found = &problems{source: ps.source}
	root := readYAML(text, found)
	if found.copyPlaces(ps); len(ps.list) > 0 {
		return Secrets{}, ps.err()
	}
	values := map[string]string{}
	if root.kind != section {
		ps.add(root.at, Problem{Message: "not a list of secrets", Expected: "name: value, one per line"})
	}
	for _, e := range root.entries {
		if p := takeSecret(values, e); p.Message != "" {
			ps.add(e.key.at, p)
		}
	}
	if err := ps.err(); err != nil {
		return Secrets{}, err
	}
	return Secrets{file: file, names: slices.Sorted(maps.Keys(values)), value: func(name string) string { return values[name] }}, nil
}

// takeSecret adds one entry or says what is wrong with it. Names that are no names are
// not repeated: a value with wrong indentation may have become one.
func takeSecret(values map[string]string, e entry) Problem {
	switch {
	case !secretName.MatchString(e.key.text):
		return Problem{Message: "the name of this secret has invalid characters", Expected: "letters, digits, dots, dashes and underscores, at most 63"}
	case e.value.kind != scalar || e.value.text == "":
		return Problem{Message: "the value of this secret is not text", Expected: "name: value; a value with : # or quotes in it goes in quotes"}
	}
	if _, again := values[e.key.text]; again {
		return Problem{Message: "the file has this secret twice", Expected: "each name once"}
	}
	for _, r := range e.value.text {
		if r < ' ' || r == 0x7F {
			return Problem{Message: "this secret has a line break or control character", Expected: "printable text on one line"}
		}
	}
	values[e.key.text] = e.value.text
	return Problem{}
}

// copyPlaces notes in to where these problems are, without their words, which may quote the file.
func (ps *problems) copyPlaces(to *problems) {
	for _, p := range ps.list {
		to.add(position{p.Line, p.Column}, Problem{Message: "not readable", Expected: "name: value, one per line; a value with : # or quotes in it goes in quotes"})
	}
}

// Get returns the value of a secret and whether there is one of that name.
func (s Secrets) Get(name string) (string, bool) {
	if _, known := slices.BinarySearch(s.names, name); !known {
		return "", false
	}
	return s.value(name), true
}

// Names returns the names in order.
func (s Secrets) Names() []string { return slices.Clone(s.names) }

// has reports whether a name may be used.
func (s Secrets) has(name string) bool {
	_, ok := s.Get(name)
	return ok || s.unknown
}

// String returns a placeholder.
func (s Secrets) String() string { return redacted }

// GoString returns a placeholder.
func (s Secrets) GoString() string { return redacted }

// Format writes a placeholder whatever the verb.
func (s Secrets) Format(f fmt.State, _ rune) { io.WriteString(f, redacted) }

// MarshalJSON returns a placeholder.
func (s Secrets) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalText returns a placeholder.
func (s Secrets) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns a placeholder.
func (s Secrets) LogValue() slog.Value { return slog.StringValue(redacted) }
