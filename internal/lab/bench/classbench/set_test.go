// SPDX-License-Identifier: Apache-2.0

package classbench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"minne/internal/lab/rulegen"
	"minne/internal/subsystem/fastpath/addrset"
	"minne/internal/subsystem/fastpath/classify"
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

// model is what the sets should be.
type model [addrset.MaxSets]map[netip.Prefix]bool

func newModel() (m model) {
	for set := range m {
		m[set] = map[netip.Prefix]bool{}
	}
	return m
}

// aimAtSets makes the keys: inside the prefixes, beside them and anywhere, of every set by turns.
func (b *bed) aimAtSets(list []netip.Prefix, rng *rand.Rand) []netip.Addr {
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
		b.keys[i] = classify.Key{Source: classify.KeyAddress(a), IPv6: a.Is6(), Zone: setOfKey(i)}
	}
	return addresses
}

func setOfKey(i int) uint8 { return uint8(i / 4 % addrset.MaxSets) }

// agreeOnSets compares the program's answers, and the writer's counts, with maps of prefixes.
func (b *bed) agreeOnSets(t *testing.T, addresses []netip.Addr, in model) {
	t.Helper()
	var lengths [addrset.MaxSets][2]map[int]bool
	for set := range in {
		lengths[set] = [2]map[int]bool{{}, {}}
		for p := range in[set] {
			lengths[set][p.Addr().BitLen()/128][p.Bits()] = true
		}
		if b.set.Len(set) != len(in[set]) {
			t.Fatalf("set %d has %d members, want %d", set, b.set.Len(set), len(in[set]))
		}
	}
	if err := b.run.Check(b.objs, "check_set", keyCount); err != nil {
		t.Fatal(err)
	}
	var inside, outside [addrset.MaxSets]int
	for i, a := range addresses {
		set, want := setOfKey(i), false
		for n := range lengths[set][a.BitLen()/128] {
			p, _ := a.Prefix(n)
			want = want || in[set][p]
		}
		if want {
			inside[set]++
		} else {
			outside[set]++
		}
		if got := b.answers[i] == 1; got != want {
			t.Fatalf("%v is in set %d: %v, want %v", a, set, got, want)
		}
	}
	for set := range in {
		if len(in[set]) > 0 && (inside[set] == 0 || outside[set] == 0) {
			t.Fatalf("%d addresses are in set %d and %d are not: nothing was tested", inside[set], set, outside[set])
		}
	}
}

// TestSetsAgree adds, deletes and replaces prefixes of all lengths in all sets and asks the program
// after each batch.
func TestSetsAgree(t *testing.T) {
	b := newTestBed(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for round, lengths := range [][2][]int{
		{{32}, {128}},
		{{24, 32}, {48, 64, 128}},
		{{5, 8, 9, 16, 17, 24, 25, 31, 32}, {41, 42, 63, 64, 65, 66, 100, 127, 128}},
	} {
		list := prefixes(rng, 60_000, lengths[0], lengths[1])
		in := newModel()
		addresses := b.aimAtSets(list, rng)
		for step := range 6 {
			for i, p := range list[step*10_000 : (step+1)*10_000] {
				for _, set := range []int{i % addrset.MaxSets, 3} { // each is in one set, and in set 3
					if err := b.set.Add(set, p); err != nil {
						t.Fatalf("round %d: adding %v: %v", round, p, err)
					}
					in[set][p] = true
				}
			}
			for range 5000 * (step % 2) {
				p, set := list[rng.IntN(len(list))], rng.IntN(addrset.MaxSets)
				if b.set.Delete(set, p) != in[set][p] {
					t.Fatalf("round %d: deleting %v of set %d: was it a member?", round, p, set)
				}
				delete(in[set], p)
			}
			if step == 4 {
				in[6] = map[netip.Prefix]bool{}
				for _, p := range list[:20_000] {
					in[6][p] = true
				}
				if err := b.set.Replace(6, list[:20_000]); err != nil {
					t.Fatal(err)
				}
			}
			b.agreeOnSets(t, addresses, in)
		}
		for set := range in {
			b.set.Clear(set)
			in[set] = nil
			if set == 3 {
				b.agreeOnSets(t, addresses, in)
			}
		}
		b.agreeOnSets(t, addresses, in)
	}
}

// TestSetKeepsMembersWhileOthersComeAndGo asks again and again for members that stay, while members
// of the same set and of others come and go, one by one and by replacing the whole set.
func TestSetKeepsMembersWhileOthersComeAndGo(t *testing.T) {
	const set, other = 2, 7
	b := newTestBed(t)
	rng := rand.New(rand.NewPCG(2, 2))
	stay := prefixes(rng, 20_000, []int{32}, []int{128})
	moving := prefixes(rng, 50_000, []int{24, 32}, []int{64, 128})
	if err := b.set.Replace(set, stay); err != nil {
		t.Fatal(err)
	}
	for i, p := range stay {
		b.keys[i] = classify.Key{Source: classify.KeyAddress(p.Addr()), IPv6: p.Addr().Is6(), Zone: set}
	}
	done, failed := make(chan struct{}), make(chan error, 1)
	go func() { failed <- b.alwaysThere(stay, done) }()
	always := map[netip.Prefix]bool{}
	for _, p := range stay {
		always[p] = true
	}
	err := func() error {
		for i := range 200_000 {
			p, in := moving[rng.IntN(len(moving))], []int{set, other}[i%2]
			if in == set && always[p] {
				continue
			}
			if !b.set.Delete(in, p) {
				if err := b.set.Add(in, p); err != nil {
					return err
				}
			}
			if i%20_000 == 0 {
				if err := b.set.Replace(set, slices.Concat(moving[i/10:i/10+10_000], stay)); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	close(done)
	if err := errors.Join(err, <-failed); err != nil {
		t.Fatal(err)
	}
}

// alwaysThere runs the program until done, and errs when it misses one of the members.
func (b *bed) alwaysThere(members []netip.Prefix, done chan struct{}) error {
	for runs := 0; ; runs++ {
		select {
		case <-done:
			if runs == 0 {
				return errors.New("the program never ran")
			}
			return nil
		default:
		}
		if err := b.run.Check(b.objs, "check_set", len(members)); err != nil {
			return err
		}
		for i, p := range members {
			if b.answers[i] != 1 {
				return fmt.Errorf("a member was missed: %v", p)
			}
		}
	}
}

// newSets makes sets in memory of their own.
func newSets(t *testing.T, members int) (*addrset.Set, addrset.Layout) {
	t.Helper()
	l := addrset.LayoutFor(members)
	s, err := l.New(make([]byte, l.ImageBytes()), func() {})
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

func TestSetSaysWhenItIsFull(t *testing.T) {
	s, l := newSets(t, 100)
	rng := rand.New(rand.NewPCG(3, 3))
	room := l.Room()
	list := prefixes(rng, room+1, []int{32}, []int{128})
	for i, p := range list[:room] {
		if err := s.Add(i%2, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add(0, list[room]); !errors.Is(err, addrset.ErrFull) {
		t.Fatalf("member %d of %d: %v", room+1, room, err)
	}
	if err := s.Replace(0, list[room-5:]); !errors.Is(err, addrset.ErrFull) {
		t.Fatalf("replacing in a full image: %v", err)
	}
	if s.Len(0) != (room+1)/2 || s.Len(1) != room/2 || s.Has(0, list[room]) {
		t.Fatalf("after an attempt there are %d and %d members of %d", s.Len(0), s.Len(1), room)
	}
	if !s.Delete(0, list[0]) || s.Has(0, list[0]) || !s.Has(1, list[1]) {
		t.Fatal("the first member is still there, or the second is not")
	}
	if err := s.Add(0, list[room]); err != nil || !s.Has(0, list[room]) {
		t.Fatalf("room was made for a member: %v", err)
	}
}

func TestSetSizes(t *testing.T) {
	for _, c := range []struct{ members, most int }{{0, 8 << 10}, {1, 8 << 10}, {1000, 64 << 10}, {120_000, 8 << 20}, {1_000_000, 64 << 20}} {
		_, l := newSets(t, c.members)
		if room := l.Room(); room < c.members+c.members/4 {
			t.Errorf("the layout for %d members has room for %d", c.members, room)
		}
		if got := int(l.ImageBytes()) &^ 63; got > c.most {
			t.Errorf("the image for %d members has %d bytes, at most %d expected", c.members, got, c.most)
		}
	}
}

func TestSetRefusesWhatIsNoMember(t *testing.T) {
	s, _ := newSets(t, 0)
	for _, p := range []netip.Prefix{{}, netip.MustParsePrefix("::ffff:192.0.2.1/128")} {
		if err := s.Add(0, p); err == nil {
			t.Errorf("%v was taken", p)
		}
	}
	if err := s.Add(addrset.MaxSets, netip.MustParsePrefix("192.0.2.1/32")); err == nil {
		t.Error("a set beyond the last was taken")
	}
}
