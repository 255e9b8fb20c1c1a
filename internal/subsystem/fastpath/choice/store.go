// SPDX-License-Identifier: Apache-2.0

package choice

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"minne/internal/base/atomicfile"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/fastpath/fib"
)

// File is the name of the file in an instance's state directory.
const File = "structure.json"

// Store is where the choice of one instance is kept.
type Store struct {
	path   string
	spare  string // in its place while the state directory is read-only, until the next boot
	write  func(path string, text []byte, d atomicfile.Durability) error
	key    Key
	memory uint64
	log    *slog.Logger

	mu     sync.Mutex
	warned string // what the last warning was about
}

// NewStore is the store in a state directory, for a version of Minne on this machine. Where that is read-only, as on the image,
// the run directory holds the file until the next boot.
func NewStore(stateDir, runDir, version string, log *slog.Logger) *Store {
	key, memory := Here(version)
	return &Store{path: filepath.Join(stateDir, File), spare: filepath.Join(runDir, File), write: write, key: key, memory: memory, log: log}
}

// ErrNone says that nothing is stored that holds for this machine.
var ErrNone = errors.New("not measured on this machine yet")

// Read returns what is stored. fresh is false when it was measured with another kernel or another release. The error is
// ErrNone when there is nothing, or only something about another machine; a damaged file is another error.
func (s *Store) Read() (c Choice, fresh bool, err error) {
	text, err := os.ReadFile(s.spare)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(s.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, ErrNone
	}
	if err != nil {
		return c, false, err
	}
	if c, err = parse(text); err != nil {
		return c, false, fmt.Errorf("%s: %w", s.path, err)
	}
	structure, err := fib.ParseStructure(c.Structure)
	if err != nil || !c.Key.sameMachine(s.key) || !slices.Contains(Candidates(s.memory), structure) {
		return c, false, ErrNone // another machine, other memory, or a structure that another release had
	}
	return c, c.Key.equal(s.key), nil
}

// parse reads a file and checks that it is whole.
func parse(text []byte) (c Choice, err error) {
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("it is damaged: %w", err)
	}
	named := slices.ContainsFunc(c.Figures, func(f Figure) bool { return f.Structure == c.Structure })
	switch {
	case c.Schema != Schema:
		return c, fmt.Errorf("its form is number %d: expected %d", c.Schema, Schema)
	case !named || c.Measured.IsZero():
		return c, errors.New("it is damaged: it has no figure for the structure that it names")
	case slices.ContainsFunc(c.Figures, func(f Figure) bool { return !(f.Ns > 0) }):
		return c, errors.New("it is damaged: a figure is no time")
	}
	return c, nil
}

// Write stores a choice: the file is the old one or the new one, whatever happens.
func (s *Store) Write(c Choice) (err error) {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	err = s.write(s.path, append(text, '\n'), atomicfile.Durable)
	if errors.Is(err, unix.EROFS) {
		return s.write(s.spare, append(text, '\n'), atomicfile.Fleeting)
	}
	if gone := os.Remove(s.spare); err == nil && gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		return gone
	}
	return err
}

func write(path string, text []byte, d atomicfile.Durability) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o644, d)
}

// Path is where the file is.
func (s *Store) Path() string {
	if _, err := os.Stat(s.spare); err == nil {
		return s.spare
	}
	return s.path
}

// Choose answers what `structure: auto` means now. A damaged file is as good as none, and logged once.
func (s *Store) Choose() fastpath.Chosen {
	c, _, err := s.Read()
	if err == nil {
		structure, _ := fib.ParseStructure(c.Structure) // Read has parsed it
		return fastpath.Chosen{Structure: structure, Why: c.Words()}
	}
	why := ErrNone.Error()
	if !errors.Is(err, ErrNone) {
		why = err.Error()
		s.warn(why)
	}
	return fastpath.Chosen{Structure: fib.Default, Why: "the default of this release: " + why}
}

func (s *Store) warn(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warned != what {
		s.warned = what
		s.log.Warn("ignoring the stored choice of a structure", "reason", what, "fix", "minne bench structure --store measures anew")
	}
}
