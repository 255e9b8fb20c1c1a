// SPDX-License-Identifier: Apache-2.0

package classbench

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/lab/bench/benchrun"
	"minne/internal/subsystem/fastpath/addrset"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/mapped"
)

// keyCount is how many keys there are, KEYS of bpf/classbench.bpf.c.
const keyCount = 1 << 16

// members is for how many members the sets are laid out.
const members = 120_000

// bed is one load of the programs with the memory they share.
type bed struct {
	objs    *ebpf.Collection
	memory  [][]byte
	run     *benchrun.Run
	keys    []classify.Key
	answers []uint32
	policy  *classify.Shared
	set     *addrset.Set // all sets
}

// newBed loads the programs with room for policies of a capacity.
func newBed(c classify.Capacity) (*bed, error) {
	spec, err := loadClassbench()
	if err != nil {
		return nil, err
	}
	l := classify.LayoutOf(c)
	spec.Maps[classify.ImageMap].ValueSize = l.ImageBytes()
	for name, v := range l.Constants() {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	sl := addrset.LayoutFor(members)
	spec.Maps[addrset.ImageMap].ValueSize = sl.ImageBytes()
	for name, v := range sl.Constants() {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	objs, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the classifier programs (root is needed): %w", err)
	}
	b := &bed{objs: objs}
	memory := map[string][]byte{}
	for _, name := range []string{"run", "keys", "answers", classify.ImageMap, classify.ActiveMap, addrset.ImageMap} {
		if memory[name], err = mapped.Memory(objs.Maps[name]); err != nil {
			b.close()
			return nil, err
		}
		b.memory = append(b.memory, memory[name])
	}
	b.run = &mapped.View[benchrun.Run](memory["run"])[0]
	b.keys = mapped.View[classify.Key](memory["keys"])[:keyCount]
	b.answers = mapped.View[uint32](memory["answers"])[:keyCount]
	if b.policy, err = l.Open(memory[classify.ImageMap], memory[classify.ActiveMap], mapped.WaitForReaders); err == nil {
		b.set, err = sl.New(memory[addrset.ImageMap], mapped.WaitForReaders)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bed) close() {
	for _, m := range b.memory {
		_ = unix.Munmap(m)
	}
	b.objs.Close()
}

// time returns the nanoseconds for each of count rounds of a program from key number first on.
func (b *bed) time(program string, first, count uint32, dependent bool) (float64, error) {
	return b.run.Time(b.objs, program, first, count, dependent)
}
