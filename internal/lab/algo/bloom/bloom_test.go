// SPDX-License-Identifier: Apache-2.0

package bloom

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"minne/internal/subsystem/fastpath/tableimage"
)

func number(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// TestHash compares with the published values of MurmurHash3_x86_32.
func TestHash(t *testing.T) {
	for _, c := range []struct {
		key        string
		seed, want uint32
	}{
		{"", 0, 0},
		{"", 1, 0x514e28b7},
		{"", 0xffffffff, 0x81f16f39},
		{"\xff\xff\xff\xff", 0, 0x76293b50},
		{"!Ce\x87", 0, 0xf55b516b},
		{"!Ce", 0, 0x7e4a8634},
		{"!C", 0, 0xa0f7b07a},
		{"!", 0, 0x72661cf4},
		{"Hello, world!", 0x9747b28c, 0x24884cba},
		{"The quick brown fox jumps over the lazy dog", 0x9747b28c, 0x2fa826cd},
	} {
		s := shape{seeds: [2]uint32{c.seed, c.seed}}
		if got := s.hash([]byte(c.key)); got.a != c.want || got.b != c.want {
			t.Errorf("%q under %#x: %#x, expected %#x", c.key, c.seed, got.a, c.want)
		}
	}
}

// TestFalsePositives measures what the theory says: a million keys, 10 bits each, within 5 %.
func TestFalsePositives(t *testing.T) {
	const keys, asked = 1_000_000, 4_000_000
	for name, p := range map[string]Parameters{
		"classic":                {Keys: keys, BitsPerKey: 10},
		"classic, another seed":  {Keys: keys, BitsPerKey: 10, Seed: 0x0123456789abcdef},
		"classic, 3 hashes":      {Keys: keys, BitsPerKey: 10, Hashes: 3},
		"blocked":                {Keys: keys, BitsPerKey: 10, Blocked: true},
		"blocked, another seed":  {Keys: keys, BitsPerKey: 10, Blocked: true, Seed: 77},
		"blocked, 4 hashes":      {Keys: keys, BitsPerKey: 10, Blocked: true, Hashes: 4},
		"blocked, 8 bits":        {Keys: keys, BitsPerKey: 8, Blocked: true},
		"classic, few keys":      {Keys: 1000, BitsPerKey: 6},
		"blocked, 14 bits a key": {Keys: keys, BitsPerKey: 14, Blocked: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range p.Keys {
				if err := f.Add(number(uint64(i))); err != nil {
					t.Fatal(err)
				}
			}
			for i := range p.Keys {
				if !f.Has(number(uint64(i))) {
					t.Fatalf("key %d was added and is not found", i)
				}
			}
			wrong := 0
			for i := range asked {
				if f.Has(number(uint64(keys + i))) {
					wrong++
				}
			}
			want, err := p.FalsePositives()
			if err != nil {
				t.Fatal(err)
			}
			got := float64(wrong) / asked
			t.Logf("%d hashes, %.1f %% of the bits set: %.4f %% false positives, theory %.4f %%: %+.1f %%", f.Hashes(), 100*f.Fill(), 100*got, 100*want, 100*(got/want-1))
			if math.Abs(got/want-1) > 0.05 {
				t.Errorf("%.4f %% false positives, theory %.4f %%", 100*got, 100*want)
			}
			if now := f.FalsePositives(); now != want {
				t.Errorf("the full filter expects %g, its parameters %g", now, want)
			}
		})
	}
}

// TestFalsePositivesOfCounters does it for counting filters, of which half the keys were taken back.
func TestFalsePositivesOfCounters(t *testing.T) {
	const keys, asked = 200_000, 4_000_000
	for name, p := range map[string]Parameters{
		"classic": {Keys: keys, BitsPerKey: 10},
		"blocked": {Keys: keys, BitsPerKey: 10, Blocked: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := NewCounting(p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 * keys {
				if err := c.Add(number(uint64(i))); err != nil {
					t.Fatal(err)
				}
			}
			for i := range keys {
				if !c.Remove(number(uint64(2 * i))) {
					t.Fatalf("key %d was added and can't be taken back", 2*i)
				}
			}
			for i := range keys {
				if !c.Has(number(uint64(2*i + 1))) {
					t.Fatalf("key %d was added and is not found", 2*i+1)
				}
			}
			wrong := 0
			for i := range asked {
				if c.Has(number(uint64(2*keys + i))) {
					wrong++
				}
			}
			got, want := float64(wrong)/asked, c.FalsePositives()
			t.Logf("%d hashes: %.4f %% false positives, theory %.4f %%; %d counters stuck", c.Hashes(), 100*got, 100*want, c.Stuck())
			if math.Abs(got/want-1) > 0.05 {
				t.Errorf("%.4f %% false positives, theory %.4f %%", 100*got, 100*want)
			}
		})
	}
}

// TestCountersStay: one key is added more often than a counter counts.
func TestCountersStay(t *testing.T) {
	c, err := NewCounting(Parameters{Keys: 100, BitsPerKey: 10})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if err := c.Add([]byte("again")); err != nil {
			t.Fatal(err)
		}
	}
	if c.Stuck() == 0 {
		t.Error("no counter is at its end")
	}
	for range 40 {
		if !c.Remove([]byte("again")) {
			t.Fatal("a key that was added is not found")
		}
	}
	if !c.Has([]byte("again")) {
		t.Error("a counter that was at its end has been counted down")
	}
	if c.Remove([]byte("never")) {
		t.Error("a key was taken back that never was added")
	}
}

// TestBestHashes: the number that is chosen is better than its neighbours.
func TestBestHashes(t *testing.T) {
	for _, p := range []Parameters{
		{Keys: 1000, BitsPerKey: 10}, {Keys: 1000, BitsPerKey: 10, Blocked: true},
		{Keys: 1000, BitsPerKey: 16}, {Keys: 1000, BitsPerKey: 1}, {Keys: 10, BitsPerKey: 60},
	} {
		s, err := p.shape(bitsOfWord)
		if err != nil {
			t.Fatal(err)
		}
		best, _ := p.FalsePositives()
		for _, k := range []int{int(s.hashes) - 1, int(s.hashes) + 1} {
			if p.Hashes = k; k < 1 || k > MaxHashes {
				continue
			}
			if other, _ := p.FalsePositives(); other < best {
				t.Errorf("%+v: %g false positives with %d hashes, %g with %d", p, best, s.hashes, other, k)
			}
		}
	}
	s, err := Parameters{Keys: 1_000_000, BitsPerKey: 10}.shape(bitsOfWord)
	if err != nil || s.hashes != 7 {
		t.Errorf("10 bits per key: %d hashes, %v; expected 7", s.hashes, err)
	}
}

func TestRefused(t *testing.T) {
	for want, p := range map[string]Parameters{
		"for 0 keys":         {BitsPerKey: 10},
		"0 bits per key":     {Keys: 1},
		"NaN bits per key":   {Keys: 1, BitsPerKey: math.NaN()},
		"1000 bits per key":  {Keys: 100_000_000, BitsPerKey: 1000},
		"with 33 hashes":     {Keys: 1, BitsPerKey: 10, Hashes: 33},
		"with -1 hashes":     {Keys: 1, BitsPerKey: 10, Hashes: -1},
		"for -5 keys":        {Keys: -5, BitsPerKey: 1},
		"-1 bits per key":    {Keys: 1, BitsPerKey: -1},
		"+Inf bits per key ": {Keys: 1, BitsPerKey: math.Inf(1)},
	} {
		if _, err := New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, expected %q", p, err, want)
		}
		if _, err := p.CountingFalsePositives(); err == nil {
			t.Errorf("%+v: a rate was told", p)
		}
	}
	f, err := New(Parameters{Keys: 1, BitsPerKey: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Add(make([]byte, 65)); err == nil || !strings.Contains(err.Error(), "65 bytes: at most 64") {
		t.Errorf("long key: %v", err)
	}
	if f.Has(make([]byte, 65)) {
		t.Error("a key was found that can't have been added")
	}
}

// filters are of all shapes, filled with keys, which are of all lengths.
func filters(t *testing.T, keys [][]byte) map[string]interface {
	Has([]byte) bool
	Image() (*tableimage.Image, error)
} {
	t.Helper()
	all := map[string]interface {
		Has([]byte) bool
		Image() (*tableimage.Image, error)
	}{}
	for _, blocked := range []bool{false, true} {
		for _, per := range []float64{0.3, 4, 10, 25} {
			p := Parameters{Keys: len(keys), BitsPerKey: per, Blocked: blocked, Seed: 99}
			f, err := New(p)
			if err != nil {
				t.Fatal(err)
			}
			c, err := NewCounting(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				if err := f.Add(k); err != nil {
					t.Fatal(err)
				}
				if err := c.Add(k); err != nil {
					t.Fatal(err)
				}
			}
			all[fmt.Sprintf("Bloom filter, %g bits, blocked %v", per, blocked)] = f
			all[fmt.Sprintf("counting Bloom filter, %g counters, blocked %v", per, blocked)] = c
		}
	}
	return all
}

func randomKeys(n int, rng *rand.Rand) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = make([]byte, i%(MaxKey+1))
		for j := range keys[i] {
			keys[i][j] = byte(rng.Uint32())
		}
	}
	return keys
}

// TestNative: the C lookup answers as Go does, under sanitizers.
func TestNative(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := randomKeys(5000, rng)
	asked := append(randomKeys(20_000, rng), in...)
	for name, f := range filters(t, in) {
		t.Run(name, func(t *testing.T) {
			m, err := f.Image()
			if err != nil {
				t.Fatal(err)
			}
			what := byte('?')
			if m.Kind == tableimage.CountingBloom {
				what = 'c'
			}
			var list []step
			for _, k := range asked {
				list = append(list, step{what, k})
			}
			answers, after := obey(t, m.Words, list)
			for i, k := range asked {
				if want := f.Has(k); answers[i] != want {
					t.Fatalf("key %x: the C lookup says %v, Go %v", k, answers[i], want)
				}
				if i >= 20_000 && !answers[i] {
					t.Fatalf("key %x was added and is not found", k)
				}
			}
			if !slices.Equal(after, m.Words) {
				t.Error("lookups changed the image")
			}
		})
	}
}

// TestNativeCounting: the same keys are added and taken back in C and in Go, which makes the same counters.
func TestNativeCounting(t *testing.T) {
	for _, blocked := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(3, 4))
		c, err := NewCounting(Parameters{Keys: 300, BitsPerKey: 3, Blocked: blocked})
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Image()
		if err != nil {
			t.Fatal(err)
		}
		keys := randomKeys(1000, rng)
		var list []step
		var want []bool
		for range 50_000 { // so that counters get stuck
			s := step{"c++-"[rng.IntN(4)], keys[rng.IntN(len(keys))]}
			list = append(list, s)
			switch s.what {
			case 'c':
				want = append(want, c.Has(s.key))
			case '+':
				want = append(want, true)
				if err := c.Add(s.key); err != nil {
					t.Fatal(err)
				}
			case '-':
				want = append(want, c.Remove(s.key))
			}
		}
		answers, after := obey(t, m.Words, list)
		if !slices.Equal(answers, want) {
			t.Error("the C program answers otherwise than Go")
		}
		if c.Stuck() == 0 {
			t.Error("no counter got stuck: the test is too easy")
		}
		if !slices.Equal(after[c.first:len(c.words)], c.words[c.first:]) {
			t.Error("the C program counted otherwise than Go")
		}
	}
}

// TestCorruptImages: whatever the words are, lookups and changes end, and stay in the image.
func TestCorruptImages(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	in := randomKeys(300, rng)
	var list []step
	for i, k := range append(randomKeys(500, rng), in...) {
		list = append(list, step{"?c+-"[i%4], k})
	}
	for _, f := range filters(t, in) {
		m, err := f.Image()
		if err != nil {
			t.Fatal(err)
		}
		obey(t, m.Words, list, "500")
		for size := 1; size < len(m.Words); size *= 4 {
			obey(t, m.Words[:size], list, "5")
		}
	}
}

// FalsePositives is the rate at which other keys are found in a Bloom filter with these parameters when
// all its keys have been added, in theory.
func (p Parameters) FalsePositives() (float64, error) { return p.falsePositives(bitsOfWord) }

// CountingFalsePositives is FalsePositives of a counting filter.
func (p Parameters) CountingFalsePositives() (float64, error) { return p.falsePositives(countOfWord) }

func (p Parameters) falsePositives(perWord int) (float64, error) {
	s, err := p.shape(perWord)
	if err != nil {
		return 0, err
	}
	return s.falsePositives(p.Keys), nil
}
