// SPDX-License-Identifier: Apache-2.0

package fib

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"unsafe"
)

func openShared(t testing.TB, c Capacity) *Shared {
	t.Helper()
	l := LayoutShared(c)
	words := make([]uint64, l.ImageBytes()/8)
	s, err := NewShared(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), l.ImageBytes()), l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSharedImage: tables that share an image know nothing of each other, whatever they hold, and give all of it back.
func TestSharedImage(t *testing.T) {
	s := openShared(t, Full)
	free := s.mem.free
	for round := range 2 {
		rng := rand.New(rand.NewPCG(uint64(round), 2))
		var tables []anyTable
		names := []naive{}
		for number := 1; number <= 3; number++ {
			v4, v6, err := s.Open(number)
			if err != nil {
				t.Fatal(err)
			}
			tables, names = append(tables, v4, v6), append(names, naive{}, naive{})
		}
		for name, next := range adversaries {
			for i := range 200 {
				p := next(rng, i)
				for n, f := range tables {
					if _, v6 := f.(*Table6); v6 != p.Addr().Is6() {
						continue
					}
					hop := uint16(rng.IntN(3) * (n + 1))
					names[n].put(p, hop, false)
					if hop == 0 {
						f.Delete(p)
					} else if err := f.Set(p, hop); err != nil {
						t.Fatal(name, err)
					}
				}
			}
			for n, f := range tables {
				if err := f.Publish(); err != nil {
					t.Fatal(err)
				}
				for i := range 200 {
					p := next(rng, i)
					if _, v6 := f.(*Table6); v6 != p.Addr().Is6() {
						continue
					}
					if got, want := f.Lookup(p.Addr()), f.LookupRoutes(p.Addr()); got != want {
						t.Fatalf("%s, table %d: %v leads to %d, its routes to %d", name, n, p.Addr(), got, want)
					}
					if got, want := f.Lookup(p.Addr()), names[n].lookup(p.Addr()); got != want {
						t.Fatalf("%s, table %d: %v leads to %d, expected %d", name, n, p.Addr(), got, want)
					}
				}
			}
		}
		for number := 1; number <= 3; number++ {
			s.Close(number)
		}
		if s.mem.free != free || s.mem.largest() != free {
			t.Errorf("round %d: %d of %d units are free again, the longest run has %d", round, s.mem.free, free, s.mem.largest())
		}
	}
}

// TestSharedIsSmall: a VRF with a few routes takes some KiB, and what does not fit is the kernel's.
func TestSharedIsSmall(t *testing.T) {
	s := openShared(t, Small)
	for number := 1; number < MaxShared; number++ {
		v4, v6, err := s.Open(number)
		if err != nil {
			t.Fatalf("VRF %d: %v", number, err)
		}
		for i, p := range []string{"0.0.0.0/0", "10.0.0.0/8", "192.0.2.0/24", "192.0.2.1/32", "192.0.2.255/32", "2001:db8::/32", "2001:db8:a::/64", "2001:db8:a::1/128"} {
			prefix := netip.MustParsePrefix(p)
			put := v4.Set
			if prefix.Addr().Is6() {
				put = v6.Set
			}
			if err := put(prefix, uint16(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(v4.Publish(), v6.Publish()); err != nil {
			t.Fatalf("VRF %d: %v", number, err)
		}
		if used := v4.Stats().TableBytes + v6.Stats().TableBytes; used > 4096 {
			t.Errorf("eight routes take %d bytes", used)
		}
	}
	if _, _, err := s.Open(MaxShared); err == nil {
		t.Error("a VRF more than there are numbers was opened")
	}
	s.Close(7)
	v4, _, err := s.Open(7)
	if err != nil {
		t.Fatal(err)
	}
	full := error(nil)
	for i := 0; full == nil && i < 1<<17; i++ {
		if err := v4.Set(netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.%d/32", i>>15&255, i>>7&255, i<<1&255)), uint16(i%7+1)); err != nil {
			t.Fatal(err)
		}
		full = v4.Publish()
	}
	if !errors.Is(full, ErrFull) {
		t.Errorf("%v, expected that the image is full", full)
	}
}
