// SPDX-License-Identifier: Apache-2.0

package bloombench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"minne/internal/lab/algo/bloom"
	"minne/internal/subsystem/fastpath/tableimage"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// filter is a Bloom filter of either kind.
type filter interface {
	Add(key []byte) error
	Has(key []byte) bool
	Image() (*tableimage.Image, error)
}

func newFilter(t *testing.T, p bloom.Parameters, counting bool) filter {
	t.Helper()
	var f filter
	var err error
	if counting {
		f, err = bloom.NewCounting(p)
	} else {
		f, err = bloom.New(p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestInEBPF compares the programs' answers with Go's: keys of several lengths, every fifth of which is in the filter.
func TestInEBPF(t *testing.T) {
	const asked = 100_000
	for _, length := range []int{1, 3, 4, 13, 16, 64} {
		b, err := NewBench(length)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(6, uint64(length)))
		keys := make([][]byte, asked)
		for i := range keys {
			keys[i] = make([]byte, length)
			for j := range keys[i] {
				keys[i][j] = byte(rng.Uint32())
			}
			b.SetKey(i, keys[i])
		}
		for _, counting := range []bool{false, true} {
			for _, blocked := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d bytes, counting %v, blocked %v", length, counting, blocked), func(t *testing.T) {
					f := newFilter(t, bloom.Parameters{Keys: asked / 5, BitsPerKey: 7, Blocked: blocked, Seed: 3}, counting)
					for i := 0; i < asked; i += 5 {
						if err := f.Add(keys[i]); err != nil {
							t.Fatal(err)
						}
					}
					b.agree(t, f, keys)
				})
			}
		}
		b.Close()
	}
}

func (b *Bench) agree(t *testing.T, f filter, keys [][]byte) {
	t.Helper()
	m, err := f.Image()
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Image(m)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Check(len(keys)); err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		if want := f.Has(k); (b.Answers[i] == 1) != want || b.Answers[i] > 1 {
			t.Fatalf("key %x: eBPF says %d, Go %v", k, b.Answers[i], want)
		}
	}
	if ns, err := c.Time(0, 1000, true); err != nil || ns <= 0 {
		t.Errorf("%g ns, %v", ns, err)
	}
}

// TestUpdatesInEBPF adds keys and takes them back, which leaves the filter as it was.
func TestUpdatesInEBPF(t *testing.T) {
	b, err := NewBench(4)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	f := newFilter(t, bloom.Parameters{Keys: 1000, BitsPerKey: 10}, true)
	for i := range 10_000 {
		k := []byte{byte(i), byte(i >> 8), 1, 2}
		b.SetKey(i, k)
		if i < 1000 {
			if err := f.Add(k); err != nil {
				t.Fatal(err)
			}
		}
	}
	m, err := f.Image()
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Updates(m)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Check(10_000); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(b.Answers[:10_000], 0) {
		t.Error("a key that was just added was not found")
	}
	if !slices.Equal(c.Words(), m.Words) {
		t.Error("the filter is not what it was")
	}
}

func TestRefused(t *testing.T) {
	for _, length := range []int{0, 65} {
		if _, err := NewBench(length); err == nil {
			t.Errorf("keys of %d bytes were taken", length)
		}
	}
	b, err := NewBench(4)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	m := tableimage.New(tableimage.TreeBitmap)
	if err := m.Seal(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Image(m); err == nil {
		t.Error("a tree bitmap was taken")
	}
	if _, err := b.Updates(m); err == nil {
		t.Error("a tree bitmap was taken for updates")
	}
}
