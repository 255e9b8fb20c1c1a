// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gaissmai/bart"

	"minne/internal/lab/fulltable"
)

// The Internet's table, read once for all tests.
var internet = sync.OnceValues(func() ([2][]netip.Prefix, error) {
	v4, v6, err := fulltable.Load()
	return [2][]netip.Prefix{v4, v6}, err
})

func prefixesOf(t *testing.T, family int) []netip.Prefix {
	t.Helper()
	all, err := internet()
	if err != nil {
		t.Fatal(err)
	}
	return all[family/6]
}

// second is another implementation's table, to compare with.
type second struct{ bart.Table[uint16] }

func (s *second) answer(a netip.Addr) uint16 {
	hop, _ := s.Lookup(a)
	return hop
}

// fillFull puts a table of random next hops into both.
func fillFull(t *testing.T, f interface {
	Replace(func(func(Route) bool)) error
}, s *second, prefixes []netip.Prefix, rng *rand.Rand) {
	t.Helper()
	err := f.Replace(func(yield func(Route) bool) {
		for _, p := range prefixes {
			hop := uint16(1 + rng.IntN(300))
			s.Insert(p, hop)
			if !yield(Route{Prefix: p, NextHop: hop}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// replacer lets Table4 and Table6 be filled alike.
type replacer struct{ f anyTable }

func (r replacer) Replace(routes func(func(Route) bool)) error {
	switch f := r.f.(type) {
	case *Table4:
		return f.Replace(routes)
	case *Table6:
		return f.Replace(routes)
	}
	return errors.New("unknown table")
}

// somewhere is a random address: any, or inside a prefix, or at its edge.
func somewhere(rng *rand.Rand, prefixes []netip.Prefix) netip.Addr {
	p := prefixes[rng.IntN(len(prefixes))]
	b := p.Addr().AsSlice()
	from := p.Bits()
	switch rng.IntN(4) {
	case 0:
		return p.Addr()
	case 1:
		return last(p)
	case 2:
		from = 0
	}
	for i := from; i < len(b)*8; i++ {
		if rng.Uint32()&1 != 0 {
			b[i/8] ^= 1 << (7 - i%8)
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// TestFullTableWhileItChanges compares ten million answers with another implementation's while a
// hundred thousand updates come in batches, as BGP sends them.
func TestFullTableWhileItChanges(t *testing.T) {
	batches, perBatch, lookups := 100, 500, 50_000 // of each family
	if testing.Short() {
		batches /= 10
	}
	for name, f := range map[string]anyTable{
		"IPv4": open4(t, Default, Full, Options{}),
		"IPv6": open6(t, Full, Options{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			family := int(name[3] - '0')
			prefixes := prefixesOf(t, family)
			rng := rand.New(rand.NewPCG(uint64(family), 7))
			s := &second{}
			fillFull(t, replacer{f}, s, prefixes, rng)
			for batch := range batches {
				for range perBatch {
					p := prefixes[rng.IntN(len(prefixes))]
					if rng.IntN(3) == 0 {
						f.Delete(p)
						s.Delete(p)
						continue
					}
					hop := uint16(1 + rng.IntN(300))
					if err := f.Set(p, hop); err != nil {
						t.Fatal(err)
					}
					s.Insert(p, hop)
				}
				if err := f.Publish(); err != nil {
					t.Fatal(err)
				}
				for range lookups {
					a := somewhere(rng, prefixes)
					if got, want := f.Lookup(a), s.answer(a); got != want {
						t.Fatalf("batch %d: %v: image says %d, bart %d", batch, a, got, want)
					}
				}
			}
			for _, p := range prefixes {
				for _, a := range []netip.Addr{p.Addr(), last(p)} {
					if got, want := f.Lookup(a), s.answer(a); got != want {
						t.Fatalf("edge of %v: %v: image says %d, bart %d", p, a, got, want)
					}
				}
			}
			if got := f.Stats().Routes; got != s.Size() {
				t.Fatalf("%d routes counted, bart has %d", got, s.Size())
			}
		})
	}
}

// TestMemoryComesBack makes a million updates to the full table: afterwards, with the same routes
// as before, no more of the image may be in use than a few percent.
func TestMemoryComesBack(t *testing.T) {
	t.Parallel()
	prefixes := prefixesOf(t, 6)
	graces := 0
	f := open6(t, Full, Options{Grace: func() { graces++ }})
	rng := rand.New(rand.NewPCG(4, 4))
	hops := make([]uint16, len(prefixes))
	err := f.Replace(func(yield func(Route) bool) {
		for i, p := range prefixes {
			hops[i] = uint16(1 + rng.IntN(300))
			if !yield(Route{Prefix: p, NextHop: hops[i]}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	before := f.Stats()
	steps := 1_000_000
	if testing.Short() {
		steps /= 10
	}
	for n := range steps {
		p := prefixes[rng.IntN(len(prefixes))]
		if n%2 == 0 {
			f.Delete(p)
		} else if err := f.Set(p, uint16(1+rng.IntN(300))); err != nil {
			t.Fatal(err)
		}
		if n%1000 == 999 {
			if err := f.Publish(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, p := range prefixes {
		if err := f.Set(p, hops[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	f.Reclaim()
	after := f.Stats()
	if after.UsedBytes > before.UsedBytes*12/10 || after.RetiredBytes != 0 || after.Routes != before.Routes {
		t.Fatalf("before %+v\nafter  %+v", before, after)
	}
	if after.UsedBytes+after.FreeBytes != after.ImageBytes {
		t.Fatalf("memory lost: %+v", after)
	}
	if graces == 0 {
		t.Fatal("memory was reused without a grace period")
	}
	for _, p := range prefixes {
		f.Delete(p)
	}
	if err := f.Publish(); err != nil {
		t.Fatal(err)
	}
	f.Reclaim()
	if s := f.Stats(); s.Stages != 0 || s.Leaves != 0 || s.FreeBytes != s.LargestFree {
		t.Fatalf("an empty table keeps %+v", s)
	}
}

// readers is a grace period as RCU has it: it ends when every lookup that runs has ended.
type readers struct{ sync.RWMutex }

func (r *readers) grace() {
	r.Lock()
	defer r.Unlock() // it waits, no more
}

// TestReaderSeesNoFalseAnswer looks addresses up without pause while other prefixes, before, behind
// and around them, come and go.
func TestReaderSeesNoFalseAnswer(t *testing.T) {
	t.Parallel()
	prefixes := prefixesOf(t, 4)
	var rcu readers
	f := open4(t, Default, Full, Options{Grace: rcu.grace})
	rng := rand.New(rand.NewPCG(9, 9))
	fixed, moving := &second{}, &second{}
	var movable []netip.Prefix
	err := f.Replace(func(yield func(Route) bool) {
		for i, p := range prefixes {
			hop := uint16(1 + rng.IntN(300))
			if i%2 == 0 {
				fixed.Insert(p, hop)
			} else {
				moving.Insert(p, hop)
				movable = append(movable, p)
			}
			if !yield(Route{Prefix: p, NextHop: hop}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	type known struct {
		a   netip.Addr
		hop uint16
	}
	var watched []known // addresses that a fixed prefix decides, whatever the moving ones do
	for len(watched) < 200_000 {
		a := somewhere(rng, prefixes)
		p, hop, ok := fixed.LookupPrefixLPM(netip.PrefixFrom(a, a.BitLen()))
		if !ok {
			continue
		}
		if q, _, ok := moving.LookupPrefixLPM(netip.PrefixFrom(a, a.BitLen())); !ok || q.Bits() < p.Bits() {
			watched = append(watched, known{a, hop})
		}
	}
	var wrong, seen atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for at := 0; ; at++ {
			select {
			case <-stop:
				return
			default:
			}
			rcu.RLock()
			for range 64 {
				at = (at + 1) % len(watched)
				if f.Lookup(watched[at].a) != watched[at].hop {
					wrong.Add(1)
				}
			}
			rcu.RUnlock()
			seen.Add(64)
		}
	}()
	for n := 0; n < 150_000 || seen.Load() < 500_000; n++ {
		p := movable[rng.IntN(len(movable))]
		if rng.IntN(2) == 0 {
			f.Delete(p)
		} else if err := f.Set(p, uint16(1+rng.IntN(300))); err != nil {
			t.Fatal(err)
		}
		if n%50 == 0 {
			if err := f.Publish(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	<-stopped
	if wrong.Load() != 0 {
		t.Fatalf("%d of %d lookups got an answer that was never right", wrong.Load(), seen.Load())
	}
}
