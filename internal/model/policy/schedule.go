// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"minne/internal/model/config"
)

// Schedules: times of the week by the clock on the wall. What they are in the
// kernel's time changes with daylight saving, so they stay local here.

// Schedule is some times of the week.
type Schedule struct {
	Name    string
	Windows []Window // in their order, none touching another
}

// Window is a time of the week: minutes from Sunday 00:00, local time, From included, To not.
type Window struct{ From, To int }

// Minutes.
const (
	Day  = 24 * 60
	Week = 7 * Day
)

// Holds reports whether a time is in the schedule; the zero time is now.
func (s *Schedule) Holds(at time.Time) bool {
	if at.IsZero() {
		at = time.Now()
	}
	minute := int(at.Weekday())*Day + at.Hour()*60 + at.Minute()
	return slices.ContainsFunc(s.Windows, func(w Window) bool { return w.From <= minute && minute < w.To })
}

// dayWords are the days, by time.Weekday.
var dayWords = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (c *compiler) schedules() {
	c.times = map[string]*Schedule{}
	for _, name := range words(c.cfg.Firewall.Schedules) {
		path := "firewall.schedules." + name
		s := c.cfg.Firewall.Schedules[name]
		if len(s.Days) == 0 && !c.cfg.Written(path+".from") && !c.cfg.Written(path+".to") {
			c.report.Refuse(path, "the schedule has no time", "days, from or to", "")
			continue
		}
		if err := plainText(word{text: name}); err != nil || strings.Contains(name, " ") {
			c.report.Refuse(path, fmt.Sprintf("%q can't name a schedule", abridge(name)), "a plain word", "")
		}
		c.times[name] = &Schedule{Name: name, Windows: c.windows(path, s)}
	}
}

// windows are the times of a schedule.
func (c *compiler) windows(path string, s *config.FirewallSchedule) (list []Window) {
	from, ok1 := c.clock(path+".from", s.From)
	to, ok2 := c.clock(path+".to", s.To)
	if !ok1 || !ok2 {
		return nil
	}
	switch {
	case from == Day:
		c.report.Refuse(path+".from", "a day ends at 24:00", "00:00 on the next day", "00:00")
	case from == to:
		c.report.Refuse(path+".to", "the schedule ends when it begins", "another time, or neither from nor to for the whole day", "")
	case to < from:
		to += Day
	}
	for _, day := range c.days(path+".days", s.Days) {
		w := Window{day*Day + from, day*Day + to}
		if w.To > Week { // Saturday night
			list = append(list, Window{0, w.To - Week})
			w.To = Week
		}
		list = append(list, w)
	}
	return mergeWindows(list)
}

func mergeWindows(list []Window) (merged []Window) {
	slices.SortFunc(list, func(a, b Window) int { return a.From - b.From })
	for _, w := range list {
		if last := len(merged) - 1; last >= 0 && w.From <= merged[last].To {
			merged[last].To = max(merged[last].To, w.To)
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

// clock reads a time of the day, in minutes.
func (c *compiler) clock(path, text string) (minutes int, ok bool) {
	if text == "24:00" {
		return Day, true
	}
	t, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		near := ""
		if t, err := time.Parse("15:4", strings.Replace(text, ".", ":", 1)); err == nil {
			near = t.Format("15:04")
		}
		c.report.Refuse(path, fmt.Sprintf("%q is not a time of day", abridge(text)), "hours and minutes as 08:00, up to 24:00", near)
		return 0, false
	}
	return t.Hour()*60 + t.Minute(), true
}

// days reads days and ranges of days; no words are every day.
func (c *compiler) days(path string, list []string) (days []int) {
	if len(list) == 0 {
		list = []string{"sun-sat"}
	}
	for i, text := range list {
		first, last, isRange := strings.Cut(text, "-")
		a := slices.Index(dayWords, first)
		b := a
		if isRange {
			b = slices.Index(dayWords, last)
		}
		if a < 0 || b < 0 {
			near := ""
			if lower := strings.ToLower(text); len(lower) > 3 && slices.Contains(dayWords, lower[:3]) && !isRange {
				near = lower[:3]
			} else if !isRange {
				near = config.Nearest(lower, dayWords)
			}
			c.report.Refuse(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("%q is not a day of the week", abridge(text)), "mon, tue, wed, thu, fri, sat, sun, or a range as mon-fri", near)
			continue
		}
		for d := a; ; d = (d + 1) % 7 {
			days = append(days, d)
			if d == b {
				break
			}
		}
	}
	slices.Sort(days)
	return slices.Compact(days)
}

// names finds what rules call by name.
func (c *compiler) names() names { return names{set: c.findSet, schedule: c.findSchedule} }

func (c *compiler) findSchedule(w word) (*Schedule, *wordError) {
	if s := c.times[w.text]; s != nil && !w.quoted {
		return s, nil
	}
	all := words(c.times)
	near := config.Nearest(w.text, all)
	expected := "a schedule under firewall.schedules"
	if near == "" && len(all) > 0 {
		expected = "one of " + strings.Join(all, ", ")
	}
	return nil, wrong(w, expected, near, "there is no schedule %q", abridge(w.text))
}
