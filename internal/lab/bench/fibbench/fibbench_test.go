// SPDX-License-Identifier: Apache-2.0

package fibbench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/gaissmai/bart"

	"minne/internal/lab/fulltable"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/mapped"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// judge is another implementation's table.
type judge = bart.Table[uint16]

// bed is the eBPF programs over one table of each family, and what judges them.
type bed struct {
	*testing.T
	s  *shared
	c  *candidate
	f4 *fib.Table4
	f6 *fib.Table6
	by judge
}

func newBed(t *testing.T, structure fib.Structure) *bed {
	t.Helper()
	s, err := newShared()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	l4, l6 := fib.Layout4(structure, fib.Full), fib.Layout6(fib.Full)
	c, err := newCandidate(s, askImage, 0, l4, l6)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	b := &bed{T: t, s: s, c: c}
	if b.f4, err = fib.NewTable4(c.image4, l4, fib.Options{Grace: mapped.WaitForReaders}); err != nil {
		t.Fatal(err)
	}
	if b.f6, err = fib.NewTable6(c.image6, l6, fib.Options{Grace: mapped.WaitForReaders}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bed) set(p netip.Prefix, hop uint16) {
	b.Helper()
	set := b.f6.Set
	if p.Addr().Is4() {
		set = b.f4.Set
	}
	if err := set(p, hop); err != nil {
		b.Fatal(err)
	}
	b.by.Insert(p, hop)
}

func (b *bed) delete(p netip.Prefix) {
	if p.Addr().Is4() {
		b.f4.Delete(p)
	} else {
		b.f6.Delete(p)
	}
	b.by.Delete(p)
}

func (b *bed) publish() {
	b.Helper()
	for _, publish := range []func() error{b.f4.Publish, b.f6.Publish} {
		if err := publish(); err != nil {
			b.Fatal(err)
		}
	}
}

// address is key number i of a family.
func (b *bed) address(family, i int) netip.Addr {
	if family == 4 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], b.s.keys4[i])
		return netip.AddrFrom4(a)
	}
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], b.s.keys6[i].hi)
	binary.BigEndian.PutUint64(a[8:], b.s.keys6[i].lo)
	return netip.AddrFrom16(a)
}

// agree asks the eBPF program about the first n keys of both families.
func (b *bed) agree(n int) {
	b.Helper()
	for _, family := range []int{4, 6} {
		if err := b.c.check(family, n); err != nil {
			b.Fatal(err)
		}
		for i := range n {
			a := b.address(family, i)
			if want, _ := b.by.Lookup(a); b.s.answers[i] != want {
				b.Fatalf("%v: eBPF says %d, bart %d", a, b.s.answers[i], want)
			}
		}
	}
}

// aim makes the keys: random addresses, and ones inside and at the edges of the prefixes.
func (b *bed) aim(v4, v6 []netip.Prefix, rng *rand.Rand) {
	for i := range keyCount {
		b.s.keys4[i] = rng.Uint32()
		b.s.keys6[i] = key6{rng.Uint64(), rng.Uint64()}
		p4, p6 := v4[rng.IntN(len(v4))], v6[rng.IntN(len(v6))]
		k4 := binary.BigEndian.Uint32(p4.Addr().AsSlice())
		free4 := uint32(uint64(1)<<(32-p4.Bits()) - 1)
		switch i % 4 {
		case 1:
			b.s.keys4[i] = k4 | b.s.keys4[i]&free4
			b.s.keys6[i] = inside(p6, rng)
		case 2:
			b.s.keys4[i] = k4
			b.s.keys6[i] = halves(p6.Addr())
		case 3:
			b.s.keys4[i] = k4 | free4
			b.s.keys6[i] = end(p6)
		}
	}
}

func halves(a netip.Addr) key6 {
	b := a.As16()
	return key6{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// end is the last address of an IPv6 prefix.
func end(p netip.Prefix) key6 {
	k := halves(p.Addr())
	if n := p.Bits(); n < 64 {
		k.hi |= ^uint64(0) >> n
		k.lo = ^uint64(0)
	} else {
		k.lo |= ^uint64(0) >> (n - 64)
	}
	return k
}

func randomHops(by *judge, prefixes []netip.Prefix, rng *rand.Rand) iter.Seq[fib.Route] {
	return func(yield func(fib.Route) bool) {
		for _, p := range prefixes {
			hop := uint16(1 + rng.IntN(300))
			by.Insert(p, hop)
			if !yield(fib.Route{Prefix: p, NextHop: hop}) {
				return
			}
		}
	}
}

// TestFullTableInEBPF compares the programs' answers over the full table with another
// implementation's, before and after batches of updates in place.
func TestFullTableInEBPF(t *testing.T) {
	v4, v6, err := fulltable.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, structure := range fib.Structures {
		t.Run(structure.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, uint64(structure)))
			b := newBed(t, structure)
			if err := b.f4.Replace(randomHops(&b.by, v4, rng)); err != nil {
				t.Fatal(err)
			}
			if err := b.f6.Replace(randomHops(&b.by, v6, rng)); err != nil {
				t.Fatal(err)
			}
			b.aim(v4, v6, rng)
			b.agree(keyCount)
			for range 4 {
				for range 5000 {
					for _, prefixes := range [][]netip.Prefix{v4, v6} {
						p := prefixes[rng.IntN(len(prefixes))]
						if rng.IntN(3) == 0 {
							b.delete(p)
						} else {
							b.set(p, uint16(1+rng.IntN(300)))
						}
					}
				}
				b.publish()
				b.agree(keyCount / 4)
			}
		})
	}
}

// TestDeepTablesInEBPF takes the program to its last stage, into both halves of an address and
// through leaves of every kind and size.
func TestDeepTablesInEBPF(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := newBed(t, fib.Default)
	var v4, v6 []netip.Prefix
	base := halves(netip.MustParseAddr("2001:db8:1234:5678:9abc:def0:1234:5678"))
	for i := range 40_000 {
		// Crowds within crowds: each keeps 8 more bits of the base than the one around it.
		keep := 16 + 8*(i%12)
		k := key6{rng.Uint64(), rng.Uint64()}
		if keep < 64 {
			k.hi = base.hi ^ k.hi>>keep
		} else {
			k = key6{base.hi, base.lo ^ k.lo>>(keep-64)}
		}
		var a [16]byte
		binary.BigEndian.PutUint64(a[:8], k.hi)
		binary.BigEndian.PutUint64(a[8:], k.lo)
		v6 = append(v6, netip.PrefixFrom(netip.AddrFrom16(a), min(128, keep+rng.IntN(20))).Masked())
		h := [4]byte{203, 0, 113, 0}
		keep4 := 8 * (i % 4)
		r := rng.Uint32() >> keep4
		binary.BigEndian.PutUint32(h[:], binary.BigEndian.Uint32(h[:])^r)
		v4 = append(v4, netip.PrefixFrom(netip.AddrFrom4(h), min(32, keep4+rng.IntN(32))).Masked())
	}
	b.aim(v4, v6, rng)
	for i := range v6 {
		b.set(v4[i], uint16(1+rng.IntN(65535)))
		b.set(v6[i], uint16(1+rng.IntN(65535)))
		if i%8000 == 7999 {
			b.publish()
			b.agree(keyCount / 8)
		}
	}
	if depth := b.f6.Stats().Depth; depth < 4 {
		t.Fatalf("the table is only %d stages deep", depth)
	}
	for i := range v6[:30_000] {
		b.delete(v4[i])
		b.delete(v6[i])
	}
	b.set(netip.MustParsePrefix("0.0.0.0/0"), 77)
	b.set(netip.MustParsePrefix("::/0"), 78)
	b.publish()
	b.agree(keyCount / 2)
}

// TestProgramSeesNoFalseAnswer runs the program again and again over addresses that keep their
// answer while routes around them change in place.
func TestProgramSeesNoFalseAnswer(t *testing.T) {
	_, v6, err := fulltable.Load()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	b := newBed(t, fib.Default)
	if err := b.f6.Replace(randomHops(&b.by, v6, rng)); err != nil {
		t.Fatal(err)
	}
	var moving judge
	var movable []netip.Prefix
	for i, p := range v6 {
		if i%2 == 1 {
			moving.Insert(p, 1)
			movable = append(movable, p)
		}
	}
	var want []uint16
	for len(want) < 1<<16 {
		k := inside(v6[rng.IntN(len(v6))], rng)
		b.s.keys6[len(want)] = k
		a := b.address(6, len(want))
		host := netip.PrefixFrom(a, 128)
		p, hop, ok := b.by.LookupPrefixLPM(host)
		if !ok {
			continue
		}
		if q, _, found := moving.LookupPrefixLPM(host); !found || q.Bits() < p.Bits() {
			want = append(want, hop) // decided by a prefix that stays
		}
	}
	stop, failed := make(chan struct{}), make(chan error, 1)
	runs := 0
	go func() {
		defer close(failed)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := b.c.check(6, len(want)); err != nil {
				failed <- err
				return
			}
			if !slices.Equal(b.s.answers[:len(want)], want) {
				failed <- errFalse
				return
			}
			runs++
		}
	}()
	for n := range 200_000 {
		p := movable[rng.IntN(len(movable))]
		if rng.IntN(2) == 0 {
			b.delete(p)
		} else {
			b.set(p, uint16(1+rng.IntN(300)))
		}
		if n%20 == 0 {
			b.publish()
		}
	}
	close(stop)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if runs == 0 {
		t.Fatal("the program never ran")
	}
}

var errFalse = errors.New("an address whose route never changed got another answer")

// check looks up the first count keys of a family and leaves the answers in shared.answers.
func (c *candidate) check(family, count int) error {
	return c.shared.run.Check(c.objs, fmt.Sprintf("check%d", family), count)
}
