// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"context"

	"minne/internal/lab/algo/kernelfib"
	"minne/internal/lab/bench/fibbench"
	"minne/internal/lab/bench/flowlogbench"
	"minne/internal/lab/closedloop"
	"minne/internal/lab/device"
	"minne/internal/lab/failover"
	"minne/internal/lab/fulltable"
	"minne/internal/lab/programcost"
)

// Options say what to measure with.
type Options struct {
	Means    device.Means
	Rounds   int               // of each comparison
	Only     []string          // ids of figures, or what they begin with before a dot; none is all
	Progress func(text string) // is told what is being done
}

// Bench is the equipment of all figures. What takes long to build is built once,
// when it is first asked for; if that fails, all who ask get the same error.
type Bench struct {
	Options

	tables      once[*closedloop.Tables]
	policies    once[*closedloop.Policies]
	translators once[*closedloop.Translators]
	bridges     once[*closedloop.Bridges]
	programs    once[*programcost.Bed]
	shaped      once[*shapedBench]
	failing     once[*failover.Bed]
	cores       once[*coresBench]
	log         once[*flowlogbench.Log]
	lookups     once[*fibbench.Report]
	teardowns   []func() error
}

// once is a thing, or why it isn't there.
type once[T any] struct {
	done  bool
	value T
	err   error
}

func (o *once[T]) get(make func() (T, error)) (T, error) {
	if !o.done {
		o.value, o.err = make()
		o.done = true
	}
	return o.value, o.err
}

// Tables returns two Minne routers in a closed loop, one with a single route and one with the Internet's table.
func (b *Bench) Tables(ctx context.Context) (*closedloop.Tables, error) {
	return b.tables.get(func() (*closedloop.Tables, error) {
		b.Progress("building two routers, one with a single route per family, one with the full table")
		v4, v6, err := fulltable.Load()
		if err != nil {
			return nil, err
		}
		t, err := closedloop.NewTables(ctx, b.Means, append(v4, v6...))
		if err != nil {
			return nil, err
		}
		b.teardowns = append(b.teardowns, t.Close)
		return t, nil
	})
}

// Lookups returns what lookups in the fast path's structures and in the kernel's take.
func (b *Bench) Lookups(ctx context.Context) (*fibbench.Report, error) {
	return b.lookups.get(func() (*fibbench.Report, error) {
		b.release() // a third copy of the full table would be too much for small machines
		return fibbench.Measure(ctx, kernelfib.Install(b.Means.Load), b.Progress)
	})
}

// release takes down what was built. The figures that need it come before those that don't.
func (b *Bench) release() {
	for _, f := range b.teardowns {
		if err := f(); err != nil {
			b.Progress("taking the routers down: " + err.Error())
		}
	}
	b.teardowns = nil
}
