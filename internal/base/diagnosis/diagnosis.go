// SPDX-License-Identifier: Apache-2.0

// Package diagnosis runs checks that depend on each other: a tree, in which a check is made only when the one above
// it went well. So the first thing that is wrong stands alone, and what follows from it is skipped with the reason.
// It knows nothing of routers.
package diagnosis

import (
	"context"
	"sync"
)

// Result is what became of a check.
type Result string

// The results.
const (
	OK      Result = "ok"
	Warning Result = "warning" // works, but not as it should, or not for long
	Failed  Result = "failed"
	Skipped Result = "skipped" // could not be checked, or need not be
)

// Finding is what a check found.
type Finding struct {
	Result Result
	Text   string // what was found, for an operator
	Fix    string // a command that says more or puts it right, or keys to write; "" when there is nothing to do
}

// Check is one thing to look at. Look is called once, if the check above went well.
type Check struct {
	Name string
	Look func(context.Context) Finding
	Then []Check // only when this one is OK or a Warning
}

// Outcome is a check that was made, or skipped.
type Outcome struct {
	Name   string    `json:"name"`
	Result Result    `json:"result"`
	Text   string    `json:"text"`
	Fix    string    `json:"fix,omitempty"`
	Then   []Outcome `json:"then,omitempty"`
}

// Run makes the checks, those beside each other at the same time, and returns what came out, in their order.
func Run(ctx context.Context, checks []Check) []Outcome {
	list := make([]Outcome, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { list[i] = c.run(ctx) })
	}
	all.Wait()
	return list
}

func (c Check) run(ctx context.Context) Outcome {
	f := c.Look(ctx)
	o := Outcome{Name: c.Name, Result: f.Result, Text: f.Text, Fix: f.Fix}
	switch f.Result {
	case Failed, Skipped:
		o.Then = skip(c.Then, c.Name+" "+string(f.Result))
	default:
		o.Then = Run(ctx, c.Then)
	}
	return o
}

// skip is what becomes of checks below one that did not go well.
func skip(checks []Check, why string) (list []Outcome) {
	for _, c := range checks {
		list = append(list, Outcome{Name: c.Name, Result: Skipped, Text: "not checked: " + why, Then: skip(c.Then, why)})
	}
	return list
}

// Counts is how many checks ended how.
type Counts struct {
	OK       int `json:"ok"`
	Warnings int `json:"warnings"`
	Failed   int `json:"failed"`
	Skipped  int `json:"skipped"`
}

// Count counts outcomes with all that stand below them.
func Count(list []Outcome) (c Counts) {
	for _, o := range list {
		switch o.Result {
		case OK:
			c.OK++
		case Warning:
			c.Warnings++
		case Failed:
			c.Failed++
		default:
			c.Skipped++
		}
		below := Count(o.Then)
		c.OK, c.Warnings, c.Failed, c.Skipped = c.OK+below.OK, c.Warnings+below.Warnings, c.Failed+below.Failed, c.Skipped+below.Skipped
	}
	return c
}
