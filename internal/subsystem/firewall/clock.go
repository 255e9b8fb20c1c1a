// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"minne/internal/model/policy"
)

// Schedules in nftables. The kernel's clock is UTC: "meta hour" is seconds of the
// UTC day. nft translates hours by the time zone of the moment, but not the days,
// and turns a time that crosses midnight by that into its opposite. So the times
// are written as numbers here, cut at the midnights of both clocks. "meta day" is
// a third clock: the kernel's own time zone (settimeofday(2)), which systemd sets
// where the hardware clock is in local time.
//
// What is loaded holds until the difference to UTC changes; then the table is
// loaded anew. When a schedule ends, the connections that only it permitted do.

// clocks are the differences of the clocks to UTC, in seconds: east is positive.
type clocks struct {
	local  int // of the router's time zone, now
	kernel int // of the kernel's days
}

func readClocks(now time.Time) clocks {
	var c clocks
	_, c.local = now.Zone()
	zone := struct{ west, dst int32 }{} // struct timezone, minutes
	if _, _, errno := unix.Syscall(unix.SYS_GETTIMEOFDAY, 0, uintptr(unsafe.Pointer(&zone)), 0); errno == 0 {
		c.kernel = -60 * int(zone.west)
	}
	return c
}

const (
	daySeconds  = policy.Day * 60
	weekSeconds = policy.Week * 60
)

// hours is a time of the UTC day on some of the kernel's days.
type hours struct {
	from, to int // seconds, to not included
	days     []int
}

// times are the windows of a schedule as the kernel's clocks show them.
func (c clocks) times(s *policy.Schedule) (list []hours) {
	modulo := func(n int) int { return (n%weekSeconds + weekSeconds) % weekSeconds }
	for _, w := range s.Windows {
		for at, left := w.From*60-c.local, (w.To-w.From)*60; left > 0; {
			utc, day := modulo(at), modulo(at+c.kernel)
			length := min(left, daySeconds-utc%daySeconds, daySeconds-day%daySeconds)
			from := utc % daySeconds
			list = addHours(list, from, from+length, day/daySeconds)
			at, left = at+length, left-length
		}
	}
	slices.SortFunc(list, func(a, b hours) int { return cmp.Or(a.from-b.from, a.to-b.to) })
	return list
}

func addHours(list []hours, from, to, day int) []hours {
	i := slices.IndexFunc(list, func(h hours) bool { return h.from == from && h.to == to })
	if i < 0 {
		list, i = append(list, hours{from: from, to: to}), len(list)
	}
	if !slices.Contains(list[i].days, day) {
		list[i].days = append(list[i].days, day)
		slices.Sort(list[i].days)
	}
	return list
}

// match is the time as a match of nftables.
func (h hours) match() string {
	text := ""
	if len(h.days) < 7 {
		var days []string
		for _, d := range h.days {
			days = append(days, strconv.Itoa(d))
		}
		text = "meta day " + oneOf(days)
	}
	if h.from > 0 || h.to < daySeconds {
		text += fmt.Sprintf(" meta hour %d-%d", h.from, h.to-1)
	}
	return text
}

// times are the alternatives of a rule's schedule: one that says nothing for always.
func (t *text) times(r *policy.Rule) (list []string) {
	if r.Schedule == nil {
		return []string{""}
	}
	for _, h := range t.clocks.times(r.Schedule) {
		list = append(list, h.match())
	}
	return list
}

// clockLook is how often the clock is looked at while there are schedules: it may be set.
const clockLook = time.Minute

// watchClock waits for the next minute, if the policy asks for the time. The caller holds mu.
func (f *Firewall) watchClock() {
	if f.clock != nil {
		f.clock.Stop()
		f.clock = nil
	}
	p := f.desired.Policy
	if p == nil || !slices.ContainsFunc(p.Rules, func(r policy.Rule) bool { return r.Schedule != nil }) {
		return
	}
	if f.holding == nil {
		f.holding = holding(p)
	}
	f.clock = f.after(clockLook-time.Duration(time.Now().UnixNano())%clockLook, f.clockStrikes)
}

// clockStrikes loads the table anew when its hours are others now, and ends what
// schedules no longer permit.
func (f *Firewall) clockStrikes() {
	f.order.Lock()
	defer f.order.Unlock()
	f.mu.Lock()
	d, last := f.desired, f.holding
	f.mu.Unlock()
	if d.Policy == nil {
		return
	}
	err := f.apply(context.Background(), d, true)
	if missing := (*missingError)(nil); errors.As(err, &missing) && f.InForce(d.Policy) {
		err = nil // that is said elsewhere, and not each minute
	}
	now := holding(d.Policy)
	if err == nil && !slices.Equal(now, last) {
		err = f.endForbidden(d.Policy, nil)
	}
	f.mu.Lock()
	f.holding = now
	f.mu.Unlock()
	if err != nil {
		f.log.Error("cannot update the firewall for its schedules", "error", err)
	}
}

// holding tells which rules hold now.
func holding(p *policy.Policy) (list []bool) {
	for i := range p.Rules {
		s := p.Rules[i].Schedule
		list = append(list, s == nil || s.Holds(time.Now()))
	}
	return list
}
