// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"errors"
	"fmt"

	"minne/internal/lab/closedloop"
	"minne/internal/lab/destinations"
	"minne/internal/lab/device"
	"minne/internal/lab/result"
)

// Three loads of growing difficulty for a route lookup, on one processor: the
// slide "fib_trie performance comparison" of the talk about ten years in production.
// All four routers (kernel and Minne, each with 5 and with 123,000 routes) stand
// side by side in the closed loop, so that every ratio is of alternating trials.

// Tables of the slide, as names of package destinations: parts of today's Internet table.
const (
	fewRoutes  = "ipv4:5"
	manyRoutes = "ipv4:123000"
)

// Rows of fibTrie. The slide calls the loads "5 r single flow", "5 r rDoS" and "123kr rDoS".
const (
	single5 = "5 routes, one flow"
	rDoS5   = "5 routes, rDoS"
	rDoS123 = "123,000 routes, rDoS"
)

// keptBy is the row of what remains of the single flow's rate under another load.
func keptBy(load string) string { return "rate with " + load + " ÷ " + single5 }

// overKernel is the row that compares the two routers.
func overKernel(load string) string { return "rate of minne ÷ kernel, " + load }

var fibTrie = Preset{
	Name:      "fib-trie",
	Short:     "5 routes one flow, 5 routes rDoS, 123,000 routes rDoS on one processor",
	Source:    "Over 10 years in production, slide \"fib_trie performance comparison\" (Linux 2.6.16, one Opteron 1.6 GHz, e1000)",
	QuickTime: "1 min", Time: "2 min",
	Comparable: "how much of the rate remains from one load to the next, in each router: in the slide, too, one processor did all the work and no route " +
		"cache helped (it was patched out; today's kernel has none). The kernel of today still uses the fib_trie that the slide introduces.",
	Not: "the rates. The slide is a graph whose numbers are not in the text, of a processor of 2005 that received from a card; here generator and sink " +
		"take their share of the same processor, which also makes the ratios between loads look closer to 1 than those of the router alone. The table is a part of today's Internet table drawn by lot: its prefixes are " +
		"longer and farther apart than those of the 123,000 routes of that time. The slide's fib_hash left the kernel in 2.6.39 and is not measured.",
	rows: append(each(
		said(single5, "kpps", onlyDrawn), said(rDoS5, "kpps", onlyDrawn), said(rDoS123, "kpps", onlyDrawn),
		said(keptBy(rDoS5), "", onlyDrawn), said(keptBy(rDoS123), "", onlyDrawn),
	),
		said(overKernel(single5), "", "Minne's fast path did not exist"),
		said(overKernel(rDoS5), "", "Minne's fast path did not exist"),
		said(overKernel(rDoS123), "", "Minne's fast path did not exist")),
	run: runFibTrie,
}

// lookup is one of the slide's loads.
type lookup struct {
	name, place string // place: which of a router's two tables
	load        *closedloop.Load
}

// place names a router with a table in the rig.
func place(d device.Spec, size string) string { return string(d.Kind) + size }

func runFibTrie(ctx context.Context, e *experiment) (err error) {
	e.session.Step("building four routers: kernel and minne, with 5 and with 123,000 routes")
	r, err := e.lookupRig(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	loads, err := e.lookups(ctx, r)
	if err != nil {
		return err
	}
	side := func(d device.Spec, l lookup) closedloop.Side {
		return closedloop.Side{Path: r.Path(place(d, l.place)), Load: l.load}
	}
	kernel, minne := routers[0], routers[1]
	for _, l := range loads {
		c, err := e.compare(ctx, l.name, side(kernel, l), side(minne, l), kernel.String(), minne.String())
		if err != nil {
			return err
		}
		e.found(of(kernel, l.name), exactly(c.RateA*toKilo))
		e.found(of(minne, l.name), exactly(c.RateB*toKilo))
		e.found(overKernel(l.name), c.Ratio)
	}
	for _, d := range routers {
		for _, l := range loads[1:] {
			c, err := e.compare(ctx, d.String()+", "+l.name, side(d, loads[0]), side(d, l), of(d, loads[0].name), of(d, l.name))
			if err != nil {
				return err
			}
			e.found(of(d, keptBy(l.name)), c.Ratio)
		}
	}
	return nil
}

// exactly is a figure without an interval.
func exactly(v float64) result.Interval { return result.Interval{Median: v, Low: v, High: v} }

func (e *experiment) lookupRig(ctx context.Context) (*closedloop.Rig, error) {
	var places []closedloop.Place
	for _, d := range routers {
		for _, t := range []struct{ size, table string }{{"5", fewRoutes}, {"123", manyRoutes}} {
			table, err := destinations.Named(t.table)
			if err != nil {
				return nil, err
			}
			places = append(places, closedloop.Place{Name: place(d, t.size), Device: d, Routes: table.IPv4})
		}
	}
	r, err := closedloop.NewRig(ctx, e.means, places...)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		facts, err := r.Device(p.Name).Facts(ctx)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		facts.Remark = fmt.Sprintf("with %d routes", len(p.Routes))
		e.session.Update(func(res *result.Result) { res.Devices = append(res.Devices, facts) })
	}
	e.session.Update(func(res *result.Result) { res.Tester = r.Tester() })
	e.session.Note("Closed loop: generator, router and sink take turns on one processor, and the rates contain all three.")
	return r, nil
}

// lookups prepares the loads and waits until the fast paths forward them.
func (e *experiment) lookups(ctx context.Context, r *closedloop.Rig) ([]lookup, error) {
	loads := []lookup{{name: single5, place: "5"}, {name: rDoS5, place: "5"}, {name: rDoS123, place: "123"}}
	for i, text := range []string{"one-flow table=" + fewRoutes, "rdos table=" + fewRoutes, "rdos table=" + manyRoutes} {
		load, err := r.Load(words(text))
		if err != nil {
			return nil, err
		}
		loads[i].load = load
		if err := r.Path(place(routers[1], loads[i].place)).AwaitFast(ctx, load); err != nil {
			return nil, err
		}
	}
	return loads, nil
}

// compare measures two sides by turns and enters the comparison.
func (e *experiment) compare(ctx context.Context, what string, a, b closedloop.Side, nameA, nameB string) (result.Comparison, error) {
	e.session.Step("closed loop: %s", what)
	found, err := closedloop.Compare(ctx, a, b, e.pace.rounds)
	if err != nil {
		return result.Comparison{}, err
	}
	c := result.Comparison{
		Subject: a.Load.Subject, A: nameA, B: nameB, RateA: found.A.PacketsPerSecond, RateB: found.B.PacketsPerSecond,
		Ratio: found.Ratio, SameSame: found.SameSame, Rounds: found.Rounds, Voided: found.Voided, Lost: found.Lost,
	}
	if a.Load != b.Load {
		c.Traffic = "loads as named"
	}
	c.Verdict = verdict(c)
	e.session.Update(func(r *result.Result) { r.Comparisons = append(r.Comparisons, c) })
	return c, nil
}
