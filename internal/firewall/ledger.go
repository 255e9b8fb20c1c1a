// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"bytes"
	"container/heap"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gaissmai/bart"
)

// The ledger of the live elements: in memory a table of prefixes for each set, on
// disk a journal with a line for each change:
//
//	blocked 2026-11-21T17:00:00.5Z -192.0.2.1 +192.0.2.2 +2001:db8::/64
//
// the set, when the time of what is added is up ("-" for never), what goes and what
// comes. A change costs what it holds,
// however many elements there are. When most of the journal speaks of elements that
// are gone, it is written anew.
//
// No two elements of a set overlap.

// record is a change of a set, a line of the journal.
type record struct {
	Set    string
	Delete []netip.Prefix // before Add
	Add    []netip.Prefix
	Until  time.Time // of Add; zero for ever
}

func (r *record) line() []byte {
	line := append([]byte(r.Set), " -"...)
	if !r.Until.IsZero() {
		line = r.Until.UTC().AppendFormat(line[:len(line)-1], time.RFC3339Nano)
	}
	for _, p := range r.Delete {
		line = p.AppendTo(append(line, " -"...))
	}
	for _, p := range r.Add {
		line = p.AppendTo(append(line, " +"...))
	}
	return append(line, '\n')
}

func parseRecord(line string) (r record, err error) {
	set, rest, _ := strings.Cut(line, " ")
	until, rest, _ := strings.Cut(rest, " ")
	r.Set = set
	if until != "-" {
		if r.Until, err = time.Parse(time.RFC3339Nano, until); err != nil {
			return r, err
		}
	}
	for word := range strings.FieldsSeq(rest) {
		p, err := netip.ParsePrefix(word[1:])
		if err != nil {
			return r, err
		}
		switch word[0] {
		case '-':
			r.Delete = append(r.Delete, p)
		case '+':
			r.Add = append(r.Add, p)
		default:
			return r, fmt.Errorf("%q neither comes nor goes", word)
		}
	}
	return r, nil
}

// elements are live elements and when their time is up; zero for never.
type elements = bart.Table[time.Time]

type ledger struct {
	path    string
	sets    map[string]*elements
	due     deadlines
	file    *os.File // the journal, once something was written
	written int      // elements in the journal
}

// deadlines is a heap of what was added with a timeout, the earliest first.
type deadlines []record

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].Until.Before(d[j].Until) }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(r any)        { *d = append(*d, r.(record)) }
func (d *deadlines) Pop() any {
	last := len(*d) - 1
	r := (*d)[last]
	(*d)[last] = record{}
	*d = (*d)[:last]
	return r
}

// readLedger reads a journal. Its last line may be cut short, by a loss of power; the change was
// not answered then. With an error, what comes with it is the ledger as far as it could be read.
func readLedger(path string) (*ledger, error) {
	l := &ledger{path: path, sets: map[string]*elements{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	for line := range strings.Lines(string(data)) {
		whole := false
		if line, whole = strings.CutSuffix(line, "\n"); !whole {
			l.written = torn
			break
		}
		var r record
		if r, err = parseRecord(line); err != nil {
			l.written = torn
			break
		}
		l.enter(r)
	}
	if err != nil {
		return l, fmt.Errorf("live elements of sets: %s: %w", path, err)
	}
	l.expire(time.Now())
	return l, nil
}

// set is the live elements of a set.
func (l *ledger) set(name string) *elements {
	if s := l.sets[name]; s != nil {
		return s
	}
	return &elements{}
}

// enter makes a change in memory.
func (l *ledger) enter(r record) {
	s := l.set(r.Set)
	for _, p := range r.Delete {
		s.Delete(p)
	}
	for _, p := range r.Add {
		s.Insert(p, r.Until)
	}
	l.keep(r.Set, s)
	if len(r.Add) > 0 && !r.Until.IsZero() {
		heap.Push(&l.due, r)
	}
	l.written += len(r.Add) + len(r.Delete)
}

func (l *ledger) keep(name string, s *elements) {
	if s.Size() == 0 {
		delete(l.sets, name)
	} else {
		l.sets[name] = s
	}
}

// expire forgets elements whose time is up and returns them; nftables removes them itself.
func (l *ledger) expire(now time.Time) (gone []record) {
	for len(l.due) > 0 && !l.due[0].Until.After(now) {
		due := heap.Pop(&l.due).(record)
		s := l.set(due.Set)
		past := record{Set: due.Set}
		for _, p := range due.Add {
			if until, ok := s.Get(p); ok && until.Equal(due.Until) {
				s.Delete(p)
				past.Delete = append(past.Delete, p)
			}
		}
		l.keep(due.Set, s)
		if len(past.Delete) > 0 {
			gone = append(gone, past)
		}
	}
	return gone
}

// deadline is when expire has something to do next; zero for never.
func (l *ledger) deadline() time.Time {
	if len(l.due) == 0 {
		return time.Time{}
	}
	return l.due[0].Until
}

// spare is how many elements that are gone the journal may always have.
const spare = 10_000

// torn, in the place of how many elements the journal has, has it written anew by the next change:
// there may be half a line.
const torn = 1 << 30

// write makes a change in memory and on disk.
func (l *ledger) write(r record) error {
	l.enter(r)
	live := 0
	for _, s := range l.sets {
		live += s.Size()
	}
	if l.written > 2*live+spare {
		return l.rewrite()
	}
	if l.file == nil {
		err := os.MkdirAll(filepath.Dir(l.path), 0o755)
		if err == nil {
			l.file, err = os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		}
		if err != nil {
			return err
		}
	}
	_, err := l.file.Write(r.line())
	if err != nil {
		l.written = torn
	}
	return err
}

// rewrite replaces the journal in one step by one that has what is live and nothing else.
func (l *ledger) rewrite() error {
	var b bytes.Buffer
	written := 0
	for r := range l.records() {
		b.Write(r.line())
		written += len(r.Add)
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(l.path+".new", b.Bytes(), 0o600); err != nil {
		return err
	}
	if err := os.Rename(l.path+".new", l.path); err != nil {
		return err
	}
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	l.written = written
	return nil
}

// records are the live elements, those of a set with the same deadline together.
func (l *ledger) records() iter.Seq[record] {
	return func(yield func(record) bool) {
		for name, s := range l.sets {
			byTime := map[int64]*record{}
			for p, until := range s.AllSorted() {
				r := byTime[until.UnixNano()]
				if r == nil {
					r = &record{Set: name, Until: until}
					byTime[until.UnixNano()] = r
				}
				r.Add = append(r.Add, p)
			}
			for _, r := range byTime {
				if !yield(*r) {
					return
				}
			}
		}
	}
}

// sorted are the live elements of a set by address.
func (l *ledger) sorted(name string) []netip.Prefix {
	list := make([]netip.Prefix, 0, l.set(name).Size())
	for p := range l.set(name).AllSorted() {
		list = append(list, p)
	}
	return slices.Clip(list)
}
