// SPDX-License-Identifier: Apache-2.0

package lpmbench

import (
	"fmt"
	"iter"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/lab/algo/kernelfib"
	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/bench/benchrun"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/mapped"
	"minne/internal/subsystem/fastpath/tableimage"
)

// KeyCount is how many keys a Bench has.
const KeyCount = 1 << 20

// Values of ask in bpf/lpmbench.bpf.c.
const (
	askNothing       = 0
	askFIB           = 1
	askKernel        = 2
	askTreeBitmap    = 3
	askShapeShifting = 4
	askTrie          = 5
)

// Bench is what all contenders share: keys, answers and the order of a run. One contender runs at a time.
type Bench struct {
	arrays *mapped.Arrays
	run    *benchrun.Run
	// Keys are what is looked up; the caller fills them.
	Keys []lpm.Key
	// Answers are what Contender.Check leaves.
	Answers []uint32
}

// NewBench makes the arrays. Root (or CAP_BPF) is needed.
func NewBench() (*Bench, error) {
	spec, err := loadLpmbench()
	if err != nil {
		return nil, err
	}
	a, err := mapped.NewArrays(spec, "run", "keys", "answers")
	if err != nil {
		return nil, err
	}
	return &Bench{
		arrays:  a,
		run:     &mapped.View[benchrun.Run](a.Memory("run"))[0],
		Keys:    mapped.View[lpm.Key](a.Memory("keys"))[:KeyCount],
		Answers: mapped.View[uint32](a.Memory("answers"))[:KeyCount],
	}, nil
}

// Close gives the arrays back. Their contenders must be closed before.
func (b *Bench) Close() { b.arrays.Close() }

// Contender is one way to look up, for one family.
type Contender struct {
	bench   *Bench
	family  lpm.Family
	objs    *ebpf.Collection
	mapping []byte               // of the table
	in      *kernelfib.Namespace // that the programs run in; nil: the calling thread's
}

// load loads the programs; memory is the array that holds the table, when there is one, and tries are how many entries the kernel's
// own maps have, when one is asked.
func (b *Bench) load(f lpm.Family, ask uint32, memory string, size uint32, set, tries map[string]uint32) (*Contender, error) {
	spec, err := loadLpmbench()
	if err != nil {
		return nil, err
	}
	// What this load does not ask needs no memory; the programs still refer to it.
	for _, l := range []fib.Layout{fib.Layout4(fib.Default, fib.Small), fib.Layout6(fib.Small)} {
		if err := constants(spec, l.Constants()); err != nil {
			return nil, err
		}
		spec.Maps[l.MapName()].ValueSize = l.ImageBytes()
	}
	if memory != "" {
		spec.Maps[memory].ValueSize = size
	}
	for name, entries := range tries {
		spec.Maps[name].MaxEntries = entries
	}
	if err := constants(spec, set); err != nil {
		return nil, err
	}
	if err := constants(spec, map[string]uint32{"ask": ask}); err != nil {
		return nil, err
	}
	objs, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: b.arrays.Maps})
	if err != nil {
		return nil, fmt.Errorf("load the programs for longest prefix match: %w", err)
	}
	c := &Contender{bench: b, family: f, objs: objs}
	if memory != "" {
		if c.mapping, err = mapped.Memory(objs.Maps[memory]); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

func constants(spec *ebpf.CollectionSpec, set map[string]uint32) error {
	for name, v := range set {
		if err := spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// Image is a contender that searches a table image, whose kind says how.
func (b *Bench) Image(f lpm.Family, m *tableimage.Image) (*Contender, error) {
	ask := map[tableimage.Kind]uint32{tableimage.TreeBitmap: askTreeBitmap, tableimage.ShapeShifting: askShapeShifting}[m.Kind]
	if ask == 0 {
		return nil, fmt.Errorf("a table image of kind %d: expected one for longest prefix match", m.Kind)
	}
	set := map[string]uint32{"lpm_mask": uint32(len(m.Words) - 1)}
	c, err := b.load(f, ask, "lpm_image", uint32(4*len(m.Words)), set, nil)
	if err != nil {
		return nil, err
	}
	copy(mapped.View[uint32](c.mapping), m.Words)
	return c, nil
}

// FIB is a contender that searches the router's own structure; the routes' next hops must fit it. used is the
// memory of the table in bytes. structure is ignored for IPv6.
func (b *Bench) FIB(f lpm.Family, structure fib.Structure, routes []lpm.Route) (c *Contender, used int, err error) {
	l := fib.Layout6(fib.Full)
	if f == lpm.IPv4 {
		l = fib.Layout4(structure, fib.Full)
	}
	if c, err = b.load(f, askFIB, l.MapName(), l.ImageBytes(), l.Constants(), nil); err != nil {
		return nil, 0, err
	}
	used, err = fillFIB(f, l, c.mapping, routes)
	if err != nil {
		c.Close()
		return nil, 0, err
	}
	return c, used, nil
}

func fillFIB(f lpm.Family, l fib.Layout, memory []byte, routes []lpm.Route) (used int, err error) {
	if f == lpm.IPv4 {
		t, err := fib.NewTable4(memory, l, fib.Options{})
		if err == nil {
			err = t.Replace(fibRoutes(routes))
		}
		if err != nil {
			return 0, err
		}
		return t.Stats().UsedBytes, nil
	}
	t, err := fib.NewTable6(memory, l, fib.Options{})
	if err == nil {
		err = t.Replace(fibRoutes(routes))
	}
	if err != nil {
		return 0, err
	}
	return t.Stats().UsedBytes, nil
}

func fibRoutes(routes []lpm.Route) iter.Seq[fib.Route] {
	return func(yield func(fib.Route) bool) {
		for _, r := range routes {
			if !yield(fib.Route{Prefix: r.Prefix, NextHop: uint16(r.NextHop)}) {
				return
			}
		}
	}
}

// Kernel is a contender that asks bpf_fib_lookup about packets that come in by the interface of a namespace, which has the
// routes. The namespace must be closed after it.
func (b *Bench) Kernel(f lpm.Family, in *kernelfib.Namespace) (*Contender, error) {
	c, err := b.load(f, askKernel, "", 0, map[string]uint32{"ingress": uint32(in.Interface)}, nil)
	if err != nil {
		return nil, err
	}
	c.in = in
	return c, nil
}

// Loop is a contender that looks nothing up: what all others' times include.
func (b *Bench) Loop(f lpm.Family) (*Contender, error) { return b.load(f, askNothing, "", 0, nil, nil) }

// Close unloads the programs and the table.
func (c *Contender) Close() {
	if c.mapping != nil {
		_ = unix.Munmap(c.mapping) // can't fail: it was mapped by us
	}
	c.objs.Close()
}

// Time looks up count keys (at most 1 << 23) from key number first on; the result is nanoseconds per lookup. When dependent, each
// key depends on the answer before.
func (c *Contender) Time(first, count uint32, dependent bool) (ns float64, err error) {
	err = c.there(func() (err error) {
		ns, err = c.bench.run.Time(c.objs, fmt.Sprintf("bench%d", c.family), first, count, dependent)
		return err
	})
	return ns, err
}

// there runs something where the programs must run.
func (c *Contender) there(do func() error) error {
	if c.in == nil {
		return do()
	}
	return c.in.Do(do)
}

// Check looks up the first count keys and leaves what it found in Bench.Answers.
func (c *Contender) Check(count int) error {
	return c.there(func() error { return c.bench.run.Check(c.objs, fmt.Sprintf("check%d", c.family), count) })
}
