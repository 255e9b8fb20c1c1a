// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"testing"
	"time"

	"minne/internal/model/policy"
)

// What the kernel's clocks show at a local time is in the hours of a schedule
// exactly when the time is in the schedule: over all minutes of a week, for zones
// on both sides of Greenwich, one of them with half an hour, and a kernel that
// counts its days by another.
func TestClocks(t *testing.T) {
	schedules := []*policy.Schedule{
		{Name: "lessons", Windows: []policy.Window{{From: 1*policy.Day + 480, To: 1*policy.Day + 780}, {From: 3*policy.Day + 480, To: 3*policy.Day + 780}}},
		{Name: "nights", Windows: []policy.Window{{From: 0, To: 360}, {From: 5*policy.Day + 1320, To: 6*policy.Day + 360}, {From: 6*policy.Day + 1320, To: policy.Week}}},
		{Name: "always", Windows: []policy.Window{{From: 0, To: policy.Week}}},
	}
	sunday := time.Date(2026, 11, 22, 0, 0, 30, 0, time.UTC)
	for _, c := range []clocks{{0, 0}, {3600, 0}, {-8 * 3600, 0}, {19800, 0}, {14 * 3600, 0}, {7200, 3600}, {-3600, -3600}} {
		local, kernel := time.FixedZone("local", c.local), time.FixedZone("kernel", c.kernel)
		for _, s := range schedules {
			list := c.times(s)
			for minute := range policy.Week {
				at := sunday.Add(time.Duration(minute) * time.Minute)
				second, day, shown := minute%policy.Day*60+30, int(at.In(kernel).Weekday()), false
				for _, h := range list {
					for _, d := range h.days {
						shown = shown || d == day && h.from <= second && second < h.to
					}
				}
				if holds := s.Holds(at.In(local)); holds != shown {
					t.Fatalf("%s at %v, clocks %+v: holds %t, the kernel sees %t: %v", s.Name, at.In(local), c, holds, shown, list)
				}
			}
		}
	}
	if got := fmt.Sprint((clocks{}).times(schedules[2])[0].match()); got != "" {
		t.Errorf("always is %q", got)
	}
	if got := (clocks{local: 3600}).times(schedules[0])[0].match(); got != "meta day { 1, 3 } meta hour 25200-43199" {
		t.Errorf("lessons are %q", got)
	}
}

// A minute after the time zone's difference to UTC has changed, the table is another.
func TestClockChange(t *testing.T) {
	f, d := fresh(t), school(t)
	must(t, f.Apply(t.Context(), d))
	defer func() { time.Local = time.UTC }()
	time.Local = time.FixedZone("summer", 3600)
	writes := f.Writes()
	f.clockStrikes()
	if f.Writes() != writes+1 {
		t.Errorf("%d writes", f.Writes()-writes)
	}
	if f.clock == nil {
		t.Error("nobody looks at the clock again")
	}
	must(t, f.Apply(t.Context(), Desired{}))
	if f.clock != nil {
		t.Error("the clock is looked at for nothing")
	}
}
