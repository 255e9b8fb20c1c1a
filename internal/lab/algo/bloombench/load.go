// SPDX-License-Identifier: Apache-2.0

package bloombench

import (
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/lab/algo/bloom"
	"minne/internal/lab/bench/benchrun"
	"minne/internal/subsystem/fastpath/mapped"
	"minne/internal/subsystem/fastpath/tableimage"
)

// KeyCount is how many keys a Bench has.
const KeyCount = 1 << 20

// ask says what is asked of a load of the programs: ASK_ of bpf/bloombench.bpf.c.
type ask uint32

const (
	askNothing  ask = 0
	askBloom    ask = 1
	askCounting ask = 2
	askUpdate   ask = 3
)

// Bench is what all contenders share: keys, answers and the order of a run. One contender runs at a time.
type Bench struct {
	length int
	stride int
	spec   *ebpf.CollectionSpec
	arrays *mapped.Arrays
	run    *benchrun.Run
	keys   []byte
	// Answers are what Contender.Check leaves: 0 or 1.
	Answers []uint32
}

// NewBench makes arrays for keys of so many bytes. Root (or CAP_BPF) is needed.
func NewBench(length int) (*Bench, error) {
	if length < 1 || length > bloom.MaxKey {
		return nil, fmt.Errorf("keys of %d bytes: expected 1 to %d", length, bloom.MaxKey)
	}
	b := &Bench{length: length}
	shift := max(2, bits.Len(uint(length-1)))
	b.stride = 1 << shift
	spec, err := loadBloombench()
	if err != nil {
		return nil, err
	}
	b.spec = spec
	spec.Maps["keys"].ValueSize = uint32(KeyCount*b.stride + bloom.MaxKey)
	if err := b.set(map[string]uint32{"length": uint32(length), "stride_shift": uint32(shift)}); err != nil {
		return nil, err
	}
	if b.arrays, err = mapped.NewArrays(spec, "run", "keys", "answers"); err != nil {
		return nil, err
	}
	b.run = &mapped.View[benchrun.Run](b.arrays.Memory("run"))[0]
	b.keys = b.arrays.Memory("keys")
	b.Answers = mapped.View[uint32](b.arrays.Memory("answers"))[:KeyCount]
	return b, nil
}

func (b *Bench) set(values map[string]uint32) error {
	for name, v := range values {
		if err := b.spec.Variables[name].Set(v); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// SetKey makes a key of the length that the Bench was made for the i-th one.
func (b *Bench) SetKey(i int, key []byte) { copy(b.keys[i*b.stride:][:b.length], key) }

// Close gives the arrays back. Their contenders must be closed before.
func (b *Bench) Close() { b.arrays.Close() }

// Contender is a filter in the kernel.
type Contender struct {
	bench   *Bench
	objs    *ebpf.Collection
	mapping []byte // of the filter
}

// load loads the programs over an image.
func (b *Bench) load(a ask, words []uint32) (*Contender, error) {
	b.spec.Maps["filter"].ValueSize = uint32(4 * len(words))
	if err := b.set(map[string]uint32{"ask": uint32(a), "filter_mask": uint32(len(words) - 1)}); err != nil {
		return nil, err
	}
	objs, err := ebpf.NewCollectionWithOptions(b.spec, ebpf.CollectionOptions{MapReplacements: b.arrays.Maps})
	if err != nil {
		return nil, fmt.Errorf("load the programs for Bloom filters: %w", err)
	}
	c := &Contender{bench: b, objs: objs}
	if c.mapping, err = mapped.Memory(objs.Maps["filter"]); err != nil {
		c.Close()
		return nil, err
	}
	copy(mapped.View[uint32](c.mapping), words)
	return c, nil
}

// Image is a contender that asks a filter, of either kind.
func (b *Bench) Image(m *tableimage.Image) (*Contender, error) {
	a, known := map[tableimage.Kind]ask{tableimage.Bloom: askBloom, tableimage.CountingBloom: askCounting}[m.Kind]
	if !known {
		return nil, fmt.Errorf("a table image of kind %d: expected a Bloom filter", m.Kind)
	}
	return b.load(a, m.Words)
}

// Updates is a contender that adds each key to a counting filter and takes it back; its answers are 1.
func (b *Bench) Updates(m *tableimage.Image) (*Contender, error) {
	if m.Kind != tableimage.CountingBloom {
		return nil, fmt.Errorf("a table image of kind %d: expected a counting Bloom filter", m.Kind)
	}
	return b.load(askUpdate, m.Words)
}

// Loop is a contender that only hashes keys: what all others' times include.
func (b *Bench) Loop() (*Contender, error) {
	return b.load(askNothing, make([]uint32, tableimage.HeadEnd))
}

// Words are the filter's image as it is in the kernel.
func (c *Contender) Words() []uint32 { return mapped.View[uint32](c.mapping) }

// Close unloads the programs and the filter.
func (c *Contender) Close() {
	if c.mapping != nil {
		_ = unix.Munmap(c.mapping) // can't fail: it was mapped by us
	}
	c.objs.Close()
}

// Time asks for count keys (at most 1 << 23) from key number first on, round the array of KeyCount; the result is
// nanoseconds per key. When dependent, each key depends on the answer before.
func (c *Contender) Time(first, count uint32, dependent bool) (float64, error) {
	return c.bench.run.Time(c.objs, "bench", first, count, dependent)
}

// Check asks for the first count keys and leaves what it found in Bench.Answers.
func (c *Contender) Check(count int) error { return c.bench.run.Check(c.objs, "check", count) }
