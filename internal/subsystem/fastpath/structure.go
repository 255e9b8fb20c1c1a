// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"minne/internal/subsystem/fastpath/fib"
)

// What `structure: auto` means. As long as the IPv4 table is small it is the default, which then takes 2 MiB that any
// cache holds parts of. A large table gets what was measured to be the fastest on this machine. A measurement
// exchanges no program by itself: it counts when the next one is loaded.

// Chosen is the structure for a large IPv4 table and why it is the one, in words for an operator.
type Chosen struct {
	Structure fib.Structure
	Why       string
}

// ChooseBy lets `structure: auto` be what choose answers each time that a program is loaded. It is to be called before the
// fast path is used.
func (f *FastPath) ChooseBy(choose func() Chosen) { f.choose = choose }

func (f *FastPath) chosen() Chosen {
	if f.choose == nil {
		return Chosen{fib.Default, "the default of this release"}
	}
	return f.choose()
}

// structureFor is what an image of some size should be.
func (f *FastPath) structureFor(c fib.Capacity) fib.Structure {
	switch {
	case !f.desired.Auto:
		return f.desired.Structure
	case c == fib.Small:
		return fib.Default
	}
	return f.chosen().Structure
}

// restructured is a shape for the structure that an apply asks for. What auto means may have changed since the program
// was loaded; that alone is no reason to load another one.
func (f *FastPath) restructured(s shape) shape {
	if !f.desired.Auto || !f.automatic {
		s.structure = f.structureFor(s.capacity4)
	}
	return s
}

// loadNext loads a program for the structure that auto means now. When this kernel refuses it, the default has
// to do: a measured choice must not cost the fast path.
func (f *FastPath) loadNext(s shape) (*program, error) {
	if !f.desired.Auto {
		return f.load(s, f.prog.lastingFor(s))
	}
	s.structure = f.structureFor(s.capacity4)
	next, err := f.load(s, f.prog.lastingFor(s))
	if err == nil || s.structure == fib.Default {
		return next, err
	}
	f.log.Warn("cannot load the fastest structure that was measured; using the default", "structure", s.structure, "error", err)
	s.structure = fib.Default
	return f.load(s, f.prog.lastingFor(s))
}

// structureWhy says why the IPv4 table has its structure.
func (f *FastPath) structureWhy() string {
	if !f.desired.Auto {
		return "configured"
	}
	chosen := f.chosen()
	switch now := f.prog.structure; {
	case f.prog.capacity4 == fib.Small:
		return "the table is small: the default does"
	case now != chosen.Structure:
		return "until the tables are built anew; then " + chosen.Structure.String() + ": " + chosen.Why
	}
	return chosen.Why
}
