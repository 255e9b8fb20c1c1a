// SPDX-License-Identifier: Apache-2.0

package fibbench

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/lab/bench/benchrun"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/mapped"
)

// Values of ask in bpf/fibbench.bpf.c.
const (
	askNothing = 0
	askImage   = 1
	askKernel  = 2
)

// keyCount is how many keys of each family there are.
const keyCount = 1 << 20

// key6 is an IPv6 destination in two halves, each in the CPU's byte order.
type key6 struct{ hi, lo uint64 }

// shared are the arrays that every load of the programs uses: keys, answers and the order of a run.
type shared struct {
	*mapped.Arrays
	run     *benchrun.Run
	keys4   []uint32
	keys6   []key6
	answers []uint16
}

func newShared() (*shared, error) {
	spec, err := loadFibbench()
	if err != nil {
		return nil, err
	}
	a, err := mapped.NewArrays(spec, "run", "keys4", "keys6", "answers")
	if err != nil {
		return nil, err
	}
	return &shared{
		Arrays:  a,
		run:     &mapped.View[benchrun.Run](a.Memory("run"))[0],
		keys4:   mapped.View[uint32](a.Memory("keys4"))[:keyCount],
		keys6:   mapped.View[key6](a.Memory("keys6"))[:keyCount],
		answers: mapped.View[uint16](a.Memory("answers"))[:keyCount],
	}, nil
}

// candidate is one load of the programs: one way to look up.
type candidate struct {
	shared *shared
	objs   *ebpf.Collection
	image4 []byte
	image6 []byte
}

// newCandidate loads the programs for what to ask, with images of these layouts.
func newCandidate(s *shared, ask, ingress uint32, l4, l6 fib.Layout) (*candidate, error) {
	spec, err := loadFibbench()
	if err != nil {
		return nil, err
	}
	set := map[string]uint32{"ask": ask, "ingress": ingress}
	for _, l := range []fib.Layout{l4, l6} {
		spec.Maps[l.MapName()].ValueSize = l.ImageBytes()
		for name, v := range l.Constants() {
			set[name] = v
		}
	}
	for name, v := range set {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	objs, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: s.Maps})
	if err != nil {
		return nil, fmt.Errorf("load the FIB programs: %w", err)
	}
	c := &candidate{shared: s, objs: objs}
	if c.image4, err = mapped.Memory(objs.Maps[l4.MapName()]); err == nil {
		c.image6, err = mapped.Memory(objs.Maps[l6.MapName()])
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *candidate) close() {
	if c.image4 != nil {
		_ = unix.Munmap(c.image4)
	}
	if c.image6 != nil {
		_ = unix.Munmap(c.image6)
	}
	c.objs.Close()
}

// bench times count lookups of a family from key number `first` on; the result is nanoseconds per lookup.
func (c *candidate) bench(family int, first, count uint32, dependent bool) (float64, error) {
	return c.shared.run.Time(c.objs, fmt.Sprintf("bench%d", family), first, count, dependent)
}
