// SPDX-License-Identifier: Apache-2.0

package dhcprelay

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"minne/internal/subsystem/services/service"
)

// book has the counts of all interfaces, since the daemon began.
type book struct {
	mu     sync.Mutex
	counts map[string]*counts
}

// counts are what became of the messages of one interface.
type counts struct {
	mu                sync.Mutex
	requests, answers uint64 // passed on
	dropped           map[reason]uint64
}

func (c *counts) request(why reason) { c.count(&c.requests, why) }
func (c *counts) answer(why reason)  { c.count(&c.answers, why) }

func (c *counts) count(passed *uint64, why reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if why == "" {
		*passed++
		return
	}
	c.dropped[why]++
}

// of returns the counts of an interface.
func (b *book) of(name string) *counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counts[name] == nil {
		b.counts[name] = &counts{dropped: map[reason]uint64{}}
	}
	return b.counts[name]
}

// Relayed is what became of the messages of one interface since the daemon began.
type Relayed struct {
	Interface string            `json:"interface"`
	Requests  uint64            `json:"requests"` // passed on to the servers
	Answers   uint64            `json:"answers"`  // passed on to hosts
	Dropped   map[string]uint64 `json:"dropped"`  // by reason
}

// Observed is what became of the messages of all interfaces that the relay serves or has served.
type Observed struct {
	Interfaces []Relayed `json:"interfaces"`
}

// Observe reads the counts.
func (r *Relay) Observe(context.Context) (Observed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []Relayed{}
	for _, name := range slices.Sorted(maps.Keys(r.counts)) {
		c := r.counts[name]
		c.mu.Lock()
		one := Relayed{Interface: name, Requests: c.requests, Answers: c.answers, Dropped: map[string]uint64{}}
		for why, n := range c.dropped {
			one.Dropped[string(why)] = n
		}
		c.mu.Unlock()
		list = append(list, one)
	}
	return Observed{list}, nil
}

// table prints it, a line for each reason.
func table(o Observed) service.Table {
	t := service.Table{Head: []string{"Interface", ">Requests", ">Answers", ">Dropped", "~Why"}, Empty: "no DHCP relay (there is no section services.dhcp-relay in the configuration)"}
	for _, one := range o.Interfaces {
		name, requests, answers := one.Interface, strconv.FormatUint(one.Requests, 10), strconv.FormatUint(one.Answers, 10)
		if len(one.Dropped) == 0 {
			t.Rows = append(t.Rows, []string{name, requests, answers, "0", "-"})
		}
		for _, why := range slices.Sorted(maps.Keys(one.Dropped)) {
			t.Rows = append(t.Rows, []string{name, requests, answers, strconv.FormatUint(one.Dropped[why], 10), why})
			name, requests, answers = "", "", ""
		}
	}
	return t
}
