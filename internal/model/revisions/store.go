// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"minne/internal/base/atomicfile"
	"minne/internal/base/medium"
)

// Keep is how many revisions a store holds.
const Keep = 100

// Store is the directory of revisions of one router, with their content in
// memory. Its methods may be called at the same time.
type Store struct {
	dir string
	log *slog.Logger

	// Fault is called at the named points of a write ("write" before it, "temp"
	// when the temporary file is complete, "renamed" when it took its place) and
	// may fail the write there. Nil outside tests.
	Fault func(point string) error

	mu        sync.Mutex
	revisions map[int]Revision
	highest   int // highest number ever seen here, damaged files included
	damaged   []int
}

var fileRE = regexp.MustCompile(`^(\d{6,})\.rev$`)

// Open reads the revisions below dir, which is made if absent. Damaged files are
// reported to log and left where they are, for inspection. Files that can't be
// read at all are an error: acting on half of the history could undo a commit.
func Open(dir string, log *slog.Logger) (*Store, error) {
	if err := tidy(dir, log); errors.Is(err, medium.ErrReadOnly) {
		log.Error("nothing can be committed until the medium is replaced", "error", err)
	} else if err != nil {
		return nil, fmt.Errorf("revisions: %w", err)
	}
	return read(dir, log)
}

// tidy makes the directory and removes what was never completed. It writes only if it must.
func tidy(dir string, log *slog.Logger) (err error) {
	leftovers, err := atomicfile.Leftovers(dir, "*.rev")
	if err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil && len(leftovers) == 0 {
		return nil
	}
	done, err := medium.Writable(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, name := range leftovers {
		log.Info("removing a revision that was never completed", "file", name)
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// Read is Open for a look from outside: it changes nothing on disk.
func Read(dir string) (*Store, error) {
	return read(dir, slog.New(slog.DiscardHandler))
}

// ReadAll is what a directory holds, oldest first, for a look from outside.
func ReadAll(dir string) ([]Revision, error) {
	s, err := Read(dir)
	if err != nil {
		return nil, err
	}
	return s.List(), nil
}

func read(dir string, log *slog.Logger) (*Store, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) && medium.On(dir) {
		err = nil // a medium that can't be written, and never was
	}
	if err != nil {
		return nil, fmt.Errorf("revisions: %w", err)
	}
	s := &Store{dir: dir, log: log, revisions: make(map[int]Revision)}
	for _, e := range entries {
		m := fileRE.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		number, err := strconv.Atoi(m[1])
		if err != nil {
			continue // more digits than a number: not ours
		}
		s.highest = max(s.highest, number)
		r, err := readFile(filepath.Join(dir, e.Name()), number)
		switch {
		case errors.Is(err, ErrDamaged):
			s.damaged = append(s.damaged, number)
			log.Error("revision file is damaged, using the one before", "revision", number, "file", filepath.Join(dir, e.Name()), "error", err)
		case err != nil:
			return nil, fmt.Errorf("revisions: %w", err)
		default:
			s.revisions[number] = r
		}
	}
	return s, nil
}

func readFile(path string, number int) (Revision, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, unix.EIO) { // the medium failed: as good as torn
		return Revision{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return Revision{}, err
	}
	r, err := decode(content)
	if err != nil {
		return Revision{}, fmt.Errorf("%s: %w", path, err)
	}
	if r.Number != number {
		return Revision{}, fmt.Errorf("%s: %w: holds revision %d", path, ErrDamaged, r.Number)
	}
	return r, nil
}

// Damaged returns the numbers of the revisions whose files are there but can't be read.
func (s *Store) Damaged() []int { return slices.Clone(s.damaged) }

// List returns all readable revisions, oldest first.
func (s *Store) List() []Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted()
}

func (s *Store) sorted() []Revision {
	return slices.SortedFunc(maps.Values(s.revisions), func(a, b Revision) int { return cmp.Compare(a.Number, b.Number) })
}

// Get returns the revision of that number.
func (s *Store) Get(number int) (Revision, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.revisions[number]
	return r, ok
}

// Newest returns the newest revision.
func (s *Store) Newest() (Revision, bool) {
	all := s.List()
	if len(all) == 0 {
		return Revision{}, false
	}
	return all[len(all)-1], true
}

// Confirmed returns the newest confirmed revision with a number below before;
// before 0 means no bound.
func (s *Store) Confirmed(before int) (Revision, bool) {
	for _, r := range slices.Backward(s.List()) {
		if r.State == Confirmed && (before == 0 || r.Number < before) {
			return r, true
		}
	}
	return Revision{}, false
}

// Add stores a new revision under the next free number and returns it with that
// number. The oldest revisions beyond Keep are removed, but never the newest
// confirmed one.
func (s *Store) Add(r Revision) (Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Number = s.highest + 1
	done, err := s.writable()
	if err != nil {
		return Revision{}, fmt.Errorf("revision %d: %w", r.Number, err)
	}
	defer done()
	if err := s.write(r); err != nil {
		return Revision{}, err
	}
	s.highest = r.Number
	s.revisions[r.Number] = r
	s.prune()
	return r, nil
}

// Update replaces a stored revision, typically by one in another state. When it
// fails, the one before is still there, in memory and on disk.
func (s *Store) Update(r Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.revisions[r.Number]; !ok {
		return fmt.Errorf("revision %d: not stored here", r.Number)
	}
	done, err := s.writable()
	if err != nil {
		return fmt.Errorf("revision %d: %w", r.Number, err)
	}
	defer done()
	if err := s.write(r); err != nil {
		return err
	}
	s.revisions[r.Number] = r
	return nil
}

func (s *Store) path(number int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%06d.rev", number))
}

// writable makes the medium writable until done. What was written is on it by then,
// so that a medium which can't be made read-only again fails no commit.
func (s *Store) writable() (done func(), err error) {
	shut, err := medium.Writable(s.dir)
	if err != nil {
		return nil, err
	}
	return func() {
		if err := shut(); err != nil {
			s.log.Error("after a revision was written", "error", err)
		}
	}, nil
}

// write replaces the file of r, all or nothing.
func (s *Store) write(r Revision) error {
	content, err := encode(r)
	if err != nil {
		return err
	}
	path := s.path(r.Number)
	if err := s.replace(path, content); err != nil {
		return fmt.Errorf("revision %d: write %s: %w", r.Number, path, err)
	}
	return nil
}

func (s *Store) replace(path string, content []byte) error {
	if err := s.fault("write"); err != nil {
		return err
	}
	next, err := atomicfile.Prepare(path, content, 0o640, atomicfile.Durable)
	if err != nil {
		return err
	}
	if err := s.fault("temp"); err != nil {
		next.Drop()
		return err
	}
	return errors.Join(atomicfile.Place(next), s.fault("renamed"))
}

func (s *Store) fault(point string) error {
	if s.Fault == nil {
		return nil
	}
	return s.Fault(point)
}

// prune removes the oldest files beyond Keep. A failure costs only space.
func (s *Store) prune() {
	all := s.sorted()
	confirmed := 0
	for _, r := range all {
		if r.State == Confirmed {
			confirmed = r.Number
		}
	}
	for _, r := range all {
		if len(s.revisions) <= Keep {
			return
		}
		if r.Number == confirmed {
			continue
		}
		if err := os.Remove(s.path(r.Number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("can't remove an old revision", "revision", r.Number, "error", err)
		}
		delete(s.revisions, r.Number)
	}
}
