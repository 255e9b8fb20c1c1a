// SPDX-License-Identifier: Apache-2.0

package classbench

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"minne/internal/fastpath/addrset"
	"minne/internal/fastpath/classify"
	"minne/internal/fastpath/classify/rulegen"
)

// prefixes are random ones of a few lengths, some of them inside others.
func prefixes(rng *rand.Rand, n int, lengths4, lengths6 []int) []netip.Prefix {
	var list []netip.Prefix
	world4, world6 := netip.MustParsePrefix("96.0.0.0/4"), netip.MustParsePrefix("2001:db8::/40")
	for i := range n {
		world, lengths := world4, lengths4
		if i%2 == 1 {
			world, lengths = world6, lengths6
		}
		p, err := rulegen.Inside(world, rng).Prefix(lengths[rng.IntN(len(lengths))])
		if err != nil {
			panic(err)
		}
		list = append(list, p)
	}
	return list
}

// aimAtSet makes the keys: inside the prefixes, beside them and anywhere.
func (b *bed) aimAtSet(list []netip.Prefix, rng *rand.Rand) []netip.Addr {
	addresses := make([]netip.Addr, keyCount)
	for i := range addresses {
		p := list[rng.IntN(len(list))]
		a := rulegen.Inside(p, rng)
		switch i % 4 {
		case 1:
			a = p.Addr()
		case 2:
			if before := p.Addr().Prev(); before.IsValid() {
				a = before
			}
		case 3:
			a = rulegen.Inside(netip.PrefixFrom(p.Addr(), 3).Masked(), rng)
		}
		addresses[i] = a
		b.keys[i] = classify.Key{Source: classify.KeyAddress(a), IPv6: a.Is6()}
	}
	return addresses
}

// agreeOnSet compares the program's answers with a map of prefixes.
func (b *bed) agreeOnSet(t *testing.T, addresses []netip.Addr, in map[netip.Prefix]bool) {
	t.Helper()
	lengths := [2]map[int]bool{{}, {}}
	for p := range in {
		lengths[p.Addr().BitLen()/128][p.Bits()] = true
	}
	if err := b.check("check_set", keyCount); err != nil {
		t.Fatal(err)
	}
	inside := 0
	for i, a := range addresses {
		want := false
		for n := range lengths[a.BitLen()/128] {
			p, _ := a.Prefix(n)
			want = want || in[p]
		}
		if want {
			inside++
		}
		if got := b.answers[i] == 1; got != want {
			t.Fatalf("%v is in the set: %v, want %v", a, got, want)
		}
	}
	if len(in) > 0 && (inside == 0 || inside == len(addresses)) {
		t.Fatalf("%d of %d addresses are in the set: nothing was tested", inside, len(addresses))
	}
}

// TestSetsAgree adds and deletes prefixes of all lengths and asks the program after each batch.
func TestSetsAgree(t *testing.T) {
	b := newTestBed(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for round, lengths := range [][2][]int{
		{{32}, {128}},
		{{24, 32}, {48, 64, 128}},
		{{5, 8, 9, 16, 17, 24, 25, 31, 32}, {41, 42, 63, 64, 65, 66, 100, 127, 128}},
	} {
		list := prefixes(rng, 60_000, lengths[0], lengths[1])
		in := map[netip.Prefix]bool{}
		addresses := b.aimAtSet(list, rng)
		for step := range 6 {
			for _, p := range list[step*10_000 : (step+1)*10_000] {
				added, err := b.set.Add(p)
				if err != nil || added == in[p] {
					t.Fatalf("round %d: adding %v: %v, %v", round, p, added, err)
				}
				in[p] = true
			}
			for range 5000 * (step % 2) {
				p := list[rng.IntN(len(list))]
				if b.set.Delete(p) != in[p] {
					t.Fatalf("round %d: deleting %v: was it a member?", round, p)
				}
				delete(in, p)
			}
			if b.set.Len() != len(in) {
				t.Fatalf("%d members, want %d", b.set.Len(), len(in))
			}
			b.agreeOnSet(t, addresses, in)
		}
		for p := range in {
			b.set.Delete(p)
		}
		b.agreeOnSet(t, addresses, nil)
	}
}

// TestSetKeepsMembersWhileOthersComeAndGo asks again and again for members that stay.
func TestSetKeepsMembersWhileOthersComeAndGo(t *testing.T) {
	b := newTestBed(t)
	rng := rand.New(rand.NewPCG(2, 2))
	stay := prefixes(rng, 20_000, []int{32}, []int{128})
	for i, p := range stay {
		if _, err := b.set.Add(p); err != nil {
			t.Fatal(err)
		}
		b.keys[i] = classify.Key{Source: classify.KeyAddress(p.Addr()), IPv6: p.Addr().Is6()}
	}
	moving := prefixes(rng, 50_000, []int{24, 32}, []int{64, 128})
	always := map[netip.Prefix]bool{}
	for _, p := range stay {
		always[p] = true
	}
	done, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(failed)
		for runs := 0; ; runs++ {
			select {
			case <-done:
				if runs == 0 {
					failed <- errors.New("the program never ran")
				}
				return
			default:
			}
			if err := b.check("check_set", len(stay)); err != nil {
				failed <- err
				return
			}
			for i, p := range stay {
				if b.answers[i] != 1 {
					failed <- errors.New("a member was missed: " + p.String())
					return
				}
			}
		}
	}()
	for range 200_000 {
		p := moving[rng.IntN(len(moving))]
		if always[p] {
			continue
		}
		if !b.set.Delete(p) {
			if _, err := b.set.Add(p); err != nil {
				t.Error(err)
				break
			}
		}
	}
	close(done)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

func TestSetSaysWhenItIsFull(t *testing.T) {
	l := addrset.LayoutFor(100)
	s, err := l.New(make([]byte, l.ImageBytes()), func() {})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	list := prefixes(rng, 101, []int{32}, []int{128})
	for _, p := range list[:100] {
		if _, err := s.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Add(list[100]); !errors.Is(err, addrset.ErrFull) {
		t.Fatalf("member 101 of 100: %v", err)
	}
	if !s.Delete(list[0]) || s.Has(list[0]) || !s.Has(list[1]) {
		t.Fatal("the first member is still there, or the second is not")
	}
	if added, err := s.Add(list[100]); !added || err != nil {
		t.Fatalf("room was made for a member: %v, %v", added, err)
	}
}
