// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"minne/internal/subsystem/kernel"
)

// ShapeView answers show shape.
type ShapeView struct {
	Lines       []kernel.ShapedLine      `json:"lines"`
	Subscribers []kernel.SubscriberState `json:"subscribers"`
}

// SubscribersView answers show subscribers.
type SubscribersView struct {
	Subscribers []kernel.SubscriberState `json:"subscribers"`
}

// Shape prints the shaped lines, and each direction of each subscriber.
func Shape(w io.Writer, v ShapeView) error {
	if len(v.Lines)+len(v.Subscribers) == 0 {
		_, err := fmt.Fprintln(w, "No line is shaped: interfaces.NAME.shape does that, and plans of subscribers")
		return err
	}
	if len(v.Lines) > 0 {
		if err := lines(w, v); err != nil || len(v.Subscribers) == 0 {
			return err
		}
		fmt.Fprintln(w)
	}
	t := table{head: []string{"Subscriber", "Interface", "Direction", ">Rate", "Queue", ">Packets", ">Sent", ">Dropped", ">Marked", ">Waiting", "~Problem"}}
	for _, s := range v.Subscribers {
		for _, side := range []struct {
			words string
			of    kernel.SubscriberSide
		}{{"down", s.Down}, {"up", s.Up}} {
			n := side.of
			t.row(s.Name, s.Interface, side.words, bits(float64(n.Rate)), cmp.Or(n.Queue, "-"), count(n.Packets), bytes(n.Bytes), count(n.Dropped), count(n.Marked), bytes(uint64(n.Waiting)), cmp.Or(n.Problem, "-"))
		}
	}
	t.ifAny("~Problem")
	return t.write(w)
}

// Subscribers prints who has which plan, and what it is known by.
func Subscribers(w io.Writer, v SubscribersView) error {
	if len(v.Subscribers) == 0 {
		_, err := fmt.Fprintln(w, "There are no subscribers: the sections plans and subscribers name them")
		return err
	}
	const most = 3
	t := table{head: []string{"Subscriber", "Plan", ">Down", ">Up", "Interface", "Known by", ">Received", ">Sent", "~Problem"}}
	for _, s := range v.Subscribers {
		known := strings.Join(s.Known[:min(most, len(s.Known))], " ")
		if more := len(s.Known) - most; more > 0 {
			known += fmt.Sprintf(" and %d more", more)
		}
		t.row(s.Name, s.Plan, bits(float64(s.Down.Rate)), bits(float64(s.Up.Rate)), s.Interface, cmp.Or(known, "the interface"), bytes(s.Down.Bytes), bytes(s.Up.Bytes),
			cmp.Or(s.Down.Problem, s.Up.Problem, "-"))
	}
	t.ifAny("~Problem")
	return t.write(w)
}

// lines are a row for each priority of each direction.
func lines(w io.Writer, v ShapeView) error {
	t := table{head: []string{"Line", "Direction", ">Rate", "Priority", ">Packets", ">Sent", ">Dropped", ">Marked", "|>Delay peak", ">Average", ">Base", ">Flows", "~Problem"}}
	for _, l := range v.Lines {
		rate := bits(float64(l.Rate))
		if l.Problem != "" {
			t.row(l.Interface, l.Direction, rate, "-", "-", "-", "-", "-", "-", "-", "-", "-", l.Problem)
		}
		for _, n := range l.Tins {
			t.row(l.Interface, l.Direction, rate, n.Name, count(n.Packets), bytes(n.Bytes), count(n.Dropped), count(n.Marked),
				milli(n.Peak), milli(n.Average), milli(n.Base), count(n.Sparse+n.Bulk+n.Unresponsive), "-")
		}
	}
	t.ifAny("~Problem")
	return t.write(w)
}

// milli is a delay in milliseconds.
func milli(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
