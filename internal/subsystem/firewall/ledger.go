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
	"strconv"
	"strings"
	"time"

	"github.com/gaissmai/bart"

	"minne/internal/base/atomicfile"
)

// The ledger of the live elements: in memory a table of prefixes for each set, on
// disk a journal with a line for each change:
//
//	#boot 0c6b3a0e-6a30-4b9f-8f5b-4b0a5b3f7c11
//	blocked 2026-11-21T17:00:00.5Z@5025500000000 -192.0.2.1 +192.0.2.2 +2001:db8::/64
//
// the set, when the time of what is added is up ("-" for never), what goes and what
// comes. A change costs what it holds,
// however many elements there are. When most of the journal speaks of elements that
// are gone, it is written anew.
//
// A time is kept twice, by the wall's clock and in nanoseconds since the boot named above.
// In that boot the second one holds, which nobody can set; in another the first. What
// has come from another boot follows the wall's clock until that is synchronised, since
// a router may boot with a wrong one.
//
// No two elements of a set overlap.

// record is a change of a set, a line of the journal.
type record struct {
	Set    string
	Delete []netip.Prefix // before Add
	Add    []netip.Prefix
	Until  until // of Add
}

// until is when the time of an element is up.
type until struct {
	at   time.Duration // since boot; 0 for never
	wall bool          // by the wall's clock, as it is of another boot
}

func (r *record) line(c clockwork) []byte {
	line := append([]byte(r.Set), " -"...)
	if r.Until.at != 0 {
		line = c.wallAt(r.Until.at).UTC().AppendFormat(line[:len(line)-1], time.RFC3339Nano)
		if !r.Until.wall {
			line = strconv.AppendInt(append(line, '@'), int64(r.Until.at), 10)
		}
	}
	for _, p := range r.Delete {
		line = p.AppendTo(append(line, " -"...))
	}
	for _, p := range r.Add {
		line = p.AppendTo(append(line, " +"...))
	}
	return append(line, '\n')
}

// parseRecord reads a line. thisBoot says that it was written in this boot.
func parseRecord(line string, c clockwork, thisBoot bool) (r record, err error) {
	set, rest, _ := strings.Cut(line, " ")
	when, rest, _ := strings.Cut(rest, " ")
	r.Set = set
	if when != "-" {
		if r.Until, err = parseUntil(when, c, thisBoot); err != nil {
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

func parseUntil(text string, c clockwork, thisBoot bool) (until, error) {
	wall, since, both := strings.Cut(text, "@")
	if both && thisBoot {
		n, err := strconv.ParseInt(since, 10, 64)
		return until{at: time.Duration(n)}, err
	}
	t, err := time.Parse(time.RFC3339Nano, wall)
	if err != nil {
		return until{}, err
	}
	at := c.sinceBoot() + t.Sub(c.wall())
	return until{at: max(at, 1), wall: true}, nil
}

// elements are live elements and when their time is up.
type elements = bart.Table[until]

type ledger struct {
	clock   clockwork
	offset  time.Duration // of the wall's clock to the time since boot, when elements of other boots were timed
	path    string
	sets    map[string]*elements
	due     deadlines
	file    *os.File // the journal, once something was written
	written int      // elements in the journal
	boot    bool     // the journal names this boot
}

// deadlines is a heap of what was added with a timeout, the earliest first.
type deadlines []record

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].Until.at < d[j].Until.at }
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
func readLedger(path string, c clockwork) (*ledger, error) {
	l := &ledger{clock: c, offset: c.offset(), path: path, sets: map[string]*elements{}}
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
		if boot, ok := strings.CutPrefix(line, bootHead); ok {
			l.boot = boot == c.bootID()
			continue
		}
		var r record
		if r, err = parseRecord(line, c, l.boot); err != nil {
			l.written = torn
			break
		}
		l.enter(r)
	}
	if err != nil {
		return l, fmt.Errorf("live elements of sets: %s: %w", path, err)
	}
	l.expire(l.now())
	return l, nil
}

// bootHead begins a line that names the boot in which the next ones were written.
const bootHead = "#boot "

// now is the time that deadlines are kept in.
func (l *ledger) now() time.Duration { return l.clock.sinceBoot() }

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
	if len(r.Add) > 0 && r.Until.at != 0 {
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
func (l *ledger) expire(now time.Duration) (gone []record) {
	for len(l.due) > 0 && l.due[0].Until.at <= now {
		due := heap.Pop(&l.due).(record)
		s := l.set(due.Set)
		past := record{Set: due.Set}
		for _, p := range due.Add {
			if until, ok := s.Get(p); ok && until == due.Until {
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

// deadline is when expire has something to do next; 0 for never.
func (l *ledger) deadline() time.Duration {
	if len(l.due) == 0 {
		return 0
	}
	return l.due[0].Until.at
}

// clockSet takes in that the wall's clock has been set. What was timed in this boot is not touched;
// what came from another is timed anew, until the clock is synchronised. The journal gets the times
// of the new clock.
func (l *ledger) clockSet() error {
	by := l.offset - l.clock.offset()
	l.offset -= by
	synchronised := l.clock.synchronised()
	timed := false
	l.due = nil
	for name, s := range l.sets {
		for p, u := range s.AllSorted() {
			if u.at == 0 {
				continue
			}
			timed = true
			if u.wall {
				u = until{at: max(u.at+by, 1), wall: !synchronised}
			}
			l.sets[name].Insert(p, u)
		}
	}
	if !timed {
		return nil
	}
	for r := range l.records() {
		if r.Until.at != 0 {
			l.due = append(l.due, r)
		}
	}
	heap.Init(&l.due)
	return l.rewrite()
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
			l.written = torn
			return err
		}
	}
	line := r.line(l.clock)
	if !l.boot {
		line = append([]byte(bootHead+l.clock.bootID()+"\n"), line...)
	}
	_, err := l.file.Write(line)
	l.boot = err == nil
	if err != nil {
		l.written = torn
	}
	return err
}

// whole writes the journal anew if the last change is not in it.
func (l *ledger) whole() error {
	if l.written < torn {
		return nil
	}
	return l.rewrite()
}

// rewrite replaces the journal in one step by one that has what is live and nothing else.
func (l *ledger) rewrite() error {
	l.written = torn // until it is done
	var b bytes.Buffer
	written := 0
	b.WriteString(bootHead + l.clock.bootID() + "\n")
	for r := range l.records() {
		b.Write(r.line(l.clock))
		written += len(r.Add)
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(l.path, b.Bytes(), 0o600, atomicfile.Fleeting); err != nil {
		return err
	}
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
	l.written, l.boot = written, true
	return nil
}

// records are the live elements, those of a set with the same deadline together.
func (l *ledger) records() iter.Seq[record] {
	return func(yield func(record) bool) {
		for name, s := range l.sets {
			byTime := map[until]*record{}
			for p, u := range s.AllSorted() {
				r := byTime[u]
				if r == nil {
					r = &record{Set: name, Until: u}
					byTime[u] = r
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
