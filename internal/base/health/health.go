// SPDX-License-Identifier: Apache-2.0

// Package health is the one book of what is wrong with a running router. Whoever watches a
// part of it (the filter, the fast path, links, services, the clock) writes here what is not as it
// should be, and strikes it out when it is right again; minne status, the log and the API read it.
//
// Two kinds of entries:
//
//   - A fault lasts: it stands in the book, by the key of who found it, until it is cleared.
//   - A repair is over: somebody changed what Minne owns, and Minne put it back. The last ones
//     are kept, so that an operator sees who works against the router.
//
// Each entry is logged once, when it appears and when it goes, however often it is told.
package health

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// keptRepairs bounds the list of repairs.
const keptRepairs = 32

// Fault is something that is not as it should be: an alarm, to operators.
type Fault struct {
	ID           string           `json:"id"`  // of the key: the same each time, also after a restart
	Key          string           `json:"key"` // who found it, and of what: "firewall", "port lan"
	Text         string           `json:"text"`
	Since        time.Time        `json:"since"`
	Severity     Severity         `json:"severity"`
	Do           string           `json:"do"` // a command that shows more
	Acknowledged *Acknowledgement `json:"acknowledged,omitempty"`
}

// Acknowledgement says that somebody knows of a fault. It goes with the fault, and with a restart of the daemon.
type Acknowledgement struct {
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// Repair is something that was changed by others and put back.
type Repair struct {
	Key  string    `json:"key"`
	Text string    `json:"text"` // what was changed, by whom if that is known
	Time time.Time `json:"time"`
}

// Book holds the faults and the last repairs of one router. Its methods may be called at any time
// from anywhere.
type Book struct {
	log *slog.Logger

	mu       sync.Mutex
	faults   []Fault // the oldest first
	repairs  []Repair
	repaired uint64
	events   events
}

// NewBook returns an empty book that tells log.
func NewBook(log *slog.Logger) *Book { return &Book{log: log} }

// Fault writes down what is wrong. A fault of the same key takes the place of the former one; text
// "" clears it.
func (b *Book) Fault(key, text string) {
	if text == "" {
		b.Clear(key)
		return
	}
	b.mu.Lock()
	i := slices.IndexFunc(b.faults, func(f Fault) bool { return f.Key == key })
	fresh := i < 0 || b.faults[i].Text != text
	switch {
	case i < 0:
		f := Fault{ID: idOf(key), Key: key, Text: text, Since: time.Now()}
		f.Severity, f.Do = wordsOf(key)
		b.faults = append(b.faults, f)
		b.events.add(Raised, f)
	case fresh:
		b.faults[i].Text = text
		b.events.add(Changed, b.faults[i])
	}
	b.mu.Unlock()
	if fresh {
		b.log.Warn("degraded", "part", key, "reason", text)
	}
}

// Clear strikes out the fault of a key; without one it does nothing.
func (b *Book) Clear(key string) {
	b.mu.Lock()
	i := slices.IndexFunc(b.faults, func(f Fault) bool { return f.Key == key })
	var was Fault
	if i >= 0 {
		was = b.faults[i]
		b.events.add(Cleared, was)
		b.faults = slices.Delete(b.faults, i, i+1)
	}
	b.mu.Unlock()
	if i >= 0 {
		b.log.Info("recovered", "part", key, "was", was.Text, "for", time.Since(was.Since).Round(time.Millisecond))
	}
}

// Repaired writes down that something was changed by others and is as it was again.
func (b *Book) Repaired(key, text string) {
	b.mu.Lock()
	b.repairs = append(b.repairs, Repair{Key: key, Text: text, Time: time.Now()})
	if len(b.repairs) > keptRepairs {
		b.repairs = slices.Delete(b.repairs, 0, len(b.repairs)-keptRepairs)
	}
	b.repaired++
	b.mu.Unlock()
	b.log.Warn("repaired a change by another program", "part", key, "changed", text)
}

// Acknowledge marks the fault with an ID, or all of them for "all", as known to somebody, and returns those that were not.
func (b *Book) Acknowledge(id, by string) (list []Fault, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.faults {
		f := &b.faults[i]
		if id != "all" && f.ID != id {
			continue
		}
		found = true
		if f.Acknowledged == nil {
			f.Acknowledged = &Acknowledgement{By: by, Time: time.Now()}
			b.events.add(Acked, *f)
			list = append(list, *f)
		}
	}
	return list, found
}

// Faults returns what is wrong now, the oldest first.
func (b *Book) Faults() []Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.faults)
}

// Repairs returns the last repairs, the oldest first, and how many there were in all.
func (b *Book) Repairs() (last []Repair, all uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.repairs), b.repaired
}
