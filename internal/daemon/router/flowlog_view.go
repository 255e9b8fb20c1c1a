// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/subsystem/flowlog"
	"minne/internal/subsystem/flows"
)

// LogQuery is what show flows log asks.
type LogQuery struct {
	Host     string `json:"host,omitempty" flag:"host" doc:"'address' or prefix of either end, on either side of a translation"`
	Port     string `json:"port,omitempty" flag:"port" doc:"'number' of a port of either end"`
	Protocol string `json:"proto,omitempty" flag:"proto" doc:"'protocol': tcp, udp, icmp or a number"`
	NAT      string `json:"nat,omitempty" flag:"nat" doc:"who had this public 'address:port', or address:port@time"`
	From     string `json:"from,omitempty" flag:"from" doc:"'time' from which on: 2026-11-20T10:15, 10:15 for today, or 2h for two hours ago"`
	To       string `json:"to,omitempty" flag:"to" doc:"'time' until which"`
	Top      int    `json:"top" flag:"top" default:"100" doc:"'number' of records at most, the latest, up to 10000"`
}

// FlowLog is show flows log.
var FlowLog = View[LogQuery, show.FlowLogAnswer]{
	Text: Text{Path: "flows/log", Short: "Show who spoke with whom, from the flow log",
		Long: `Show records of the flow log (section flow-log): each connection that ended, and at every interval those that
last. A record matches when the connection lasted at the time that is asked for.

Who had a public address and port at a time: --nat 203.0.113.7:40123@2026-11-20T10:15
Times are the router's local time; with Z behind, UTC.`},
	Read: func(ctx context.Context, d *Daemon, q LogQuery) (show.FlowLogAnswer, error) {
		asked, err := q.question(time.Now())
		if err != nil {
			return show.FlowLogAnswer{}, api.Misused(err)
		}
		store, err := d.parts.flowLog.opened()
		if err != nil {
			return show.FlowLogAnswer{}, err
		}
		begun := time.Now()
		found, err := store.Find(ctx, asked)
		if err != nil {
			return show.FlowLogAnswer{}, fmt.Errorf("flow log: %w", err)
		}
		a := show.FlowLogRecords(found.Records)
		a.More, a.Blocks, a.Read, a.Seconds = found.More, found.Blocks, found.Read, time.Since(begun).Seconds()
		a.Log, a.Recorded, a.Dropped = store.Stats(), d.parts.flowLog.recorder.Stats(), d.parts.flowLog.dropped()
		return a, nil
	},
	Print: only[LogQuery](show.FlowLog),
}

func (f *flowLog) dropped() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

func (q LogQuery) question(now time.Time) (a flowlog.Question, err error) {
	words := []string{}
	for _, w := range [][2]string{{"host", q.Host}, {"port", q.Port}, {"proto", q.Protocol}} {
		if w[1] != "" {
			words = append(words, w[0], w[1])
		}
	}
	var s flows.Selection
	if err = s.Words(words); err != nil {
		return a, err
	}
	f, err := s.Filter()
	if err != nil {
		return a, err
	}
	a.Host, a.Port, a.Protocols = f.Host, f.Port, f.Protocols
	if a.Most = q.Top; a.Most < 1 || a.Most > flows.MaxTop {
		return a, fmt.Errorf("top %d: expected a number from 1 to %d", q.Top, flows.MaxTop)
	}
	if q.From != "" {
		if a.From, err = readTime(q.From, now); err != nil {
			return a, fmt.Errorf("from: %w", err)
		}
	}
	if q.To != "" {
		if a.To, err = readTime(q.To, now); err != nil {
			return a, fmt.Errorf("to: %w", err)
		}
	}
	if !a.To.IsZero() && a.To.Before(a.From) {
		return a, fmt.Errorf("to %s is before from %s", q.To, q.From)
	}
	end, at, timed := strings.Cut(q.NAT, "@")
	if q.NAT == "" {
		return a, nil
	}
	if a.Translated, err = readEnd(end); err != nil {
		return a, err
	}
	if timed {
		if q.From != "" || q.To != "" {
			return a, fmt.Errorf("nat %s: it has a time, so neither from nor to", q.NAT)
		}
		if a.From, err = readTime(at, now); err != nil {
			return a, fmt.Errorf("nat: %w", err)
		}
		a.To = a.From
		if a.From.Second() == 0 && a.From.Nanosecond() == 0 { // a time in minutes is a whole minute
			a.To = a.From.Add(time.Minute - time.Millisecond)
		}
	}
	return a, nil
}

// readEnd reads an address, with a port or without.
func readEnd(text string) (netip.AddrPort, error) {
	if e, err := netip.ParseAddrPort(text); err == nil {
		return netip.AddrPortFrom(e.Addr().Unmap(), e.Port()), nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("nat %q: expected an address with a port, as 203.0.113.7:40123 or [2001:db8::7]:40123", text)
	}
	return netip.AddrPortFrom(a.Unmap(), 0), nil
}

// readTime reads a time as an operator writes it.
func readTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	text = strings.Replace(text, " ", "T", 1)
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: expected 2026-11-20T10:15, 2026-11-20, 10:15, or 2h for two hours ago", text)
}
