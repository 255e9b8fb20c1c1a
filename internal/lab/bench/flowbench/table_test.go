// SPDX-License-Identifier: Apache-2.0

package flowbench

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"minne/internal/subsystem/fastpath/flow"
)

func TestForgedEndCostsAMissOnly(t *testing.T) {
	b := newBed(t, 1024, 6)
	b.randomFlows(rand.New(rand.NewPCG(1, 1)), 500)
	for _, a := range b.all(workInsert, 0, 500, 0) {
		if a != made {
			t.Fatalf("outcome %d", a)
		}
	}
	if b.one(workDelete, 7, 1) == 0 { // a reply with RST
		t.Fatal("the flow was not there")
	}
	if b.one(workLookup, 7, 0) != 0 || b.one(workLookup, 7, 1) != 0 {
		t.Error("a flow that ended is found")
	}
	if b.one(workInsert, 7, 0) != made || b.one(workLookup, 7, 0) == 0 || b.one(workLookup, 7, 1) == 0 {
		t.Error("the flow was not made anew")
	}
	for d := range uint32(2) {
		for i, a := range b.all(workLookup, 0, 500, d) {
			if a == 0 || uint32(a&1) != d {
				t.Errorf("flow %d direction %d: side %d", i, d, a)
			}
		}
	}
	if s := b.stats(); s.Active != 1 || s.Inserts != 501 || s.Misses != 2 || s.Entries != 500 {
		t.Errorf("stats %+v", s)
	}
}

func TestEndedFlowRests(t *testing.T) {
	b := newBed(t, 256, 1<<20) // five hours: nothing that ends is used again in this test
	b.randomFlows(rand.New(rand.NewPCG(2, 1)), 400)
	b.all(workInsert, 0, 200, 0)
	b.all(workDelete, 0, 100, 0)
	b.all(workInsert, 200, 200, 0)
	if s := b.stats(); s.Inserts >= 256+1 || s.Full == 0 {
		t.Errorf("%d flows made of 256 numbers, %d refused", s.Inserts, s.Full)
	}
}

func TestTranslationIsTheRepliesTurnedRound(t *testing.T) {
	b := newBed(t, 256, 0)
	original := flow.Key{Source: netip.MustParseAddr("10.0.0.2"), Destination: netip.MustParseAddr("198.51.100.1"),
		SourcePort: 4000, DestinationPort: 443, Zone: 1, Protocol: tcp}
	reply := flow.Key{Source: original.Destination, Destination: netip.MustParseAddr("203.0.113.9"),
		SourcePort: 443, DestinationPort: 61000, Zone: 2, Protocol: tcp}
	b.set(0, original, reply)
	b.one(workInsert, 0, 0)
	for d := range uint32(2) {
		for range d + 2 {
			if b.one(workTranslate, 0, d) == 0 {
				t.Error("no translation")
			}
		}
	}
	var got []flow.Flow
	b.table.Walk(b.now, flow.Filter{}, func(f flow.Flow) bool { got = append(got, f); return true })
	if len(got) != 1 || got[0].Key != [2]flow.Key{original, reply} || got[0].Packets != [2]uint64{2, 3} ||
		got[0].Bytes != [2]uint64{120, 180} {
		t.Errorf("flows %+v", got)
	}
}

func TestFilters(t *testing.T) {
	b := newBed(t, 256, 0)
	lan, wan := netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("2001:db8:1::1")
	for i := range 10 {
		k := flow.Key{Source: lan, Destination: wan, SourcePort: uint16(1000 + i), DestinationPort: 53, Zone: 3, Protocol: udp}
		b.set(i, k, k.Reply(4))
	}
	four := flow.Key{Source: netip.MustParseAddr("10.0.0.2"), Destination: netip.MustParseAddr("10.0.1.2"), SourcePort: 5, DestinationPort: 5, Zone: 5, Protocol: icmp}
	b.set(10, four, four.Reply(5))
	b.all(workInsert, 0, 11, 0)
	zone, nowhere := uint16(4), uint16(6)
	for _, c := range []struct {
		name string
		f    flow.Filter
		want int
	}{
		{"all", flow.Filter{}, 11},
		{"host", flow.Filter{Host: netip.PrefixFrom(lan, 128)}, 10},
		{"subnet", flow.Filter{Host: netip.MustParsePrefix("10.0.1.0/24")}, 1},
		{"zone of the replies", flow.Filter{Zone: &zone}, 10},
		{"no zone", flow.Filter{Zone: &nowhere}, 0},
		{"protocol", flow.Filter{Protocol: icmp}, 1},
		{"port", flow.Filter{Port: 1003}, 1},
		{"port and protocol", flow.Filter{Port: 1003, Protocol: tcp}, 0},
	} {
		n := 0
		b.table.Walk(b.now, c.f, func(flow.Flow) bool { n++; return true })
		if n != c.want {
			t.Errorf("%s: %d flows, expected %d", c.name, n, c.want)
		}
	}
}

func TestRatesNameTheTopTalkers(t *testing.T) {
	b := newBed(t, 256, 0)
	keys := b.randomFlows(rand.New(rand.NewPCG(3, 1)), 20)
	b.all(workInsert, 0, 20, 0)
	b.all(workForward, 0, 20, 0) // before the look: does not count
	look := b.table.Look(flow.Filter{})
	for range 50 {
		b.one(workForward, 4, 0)
	}
	for range 20 {
		b.one(workForward, 9, 1)
	}
	time.Sleep(20 * time.Millisecond) // the clock is coarse
	top := b.table.Rates(b.now, look, flow.Filter{}, 3)
	if len(top) != 3 || top[0].Key[0] != keys[4] || top[1].Key[0] != keys[9] || top[2].BitRate != [2]float64{} {
		t.Fatalf("top talkers %+v", top)
	}
	if r := top[0].PacketRate[0] / top[1].PacketRate[1]; r < 2.49 || r > 2.51 {
		t.Errorf("50 packets to 20 are a ratio of %v", r)
	}
}

// A source that has many flows must not keep others from opening some when the table is nearly full.
func TestFairWhenNearlyFull(t *testing.T) {
	for range 3 {
		if !crowdedOut(t) {
			return
		}
	}
	t.Error("in three tables, each with its own hashes, a flow found both of its buckets full")
}

// crowdedOut fills a table and says whether a flow found no place by the luck of the hashes, which have a random seed: that
// is nobody's share, and says nothing about it.
func crowdedOut(t *testing.T) bool {
	t.Helper()
	b := newBed(t, 8192, 0)
	greedy := netip.MustParseAddr("2001:db8::1")
	for i := range 9000 {
		k := flow.Key{Source: greedy, Destination: netip.MustParseAddr("2001:db8:ffff::1"), SourcePort: uint16(i), DestinationPort: 6881, Zone: 1, Protocol: udp}
		b.set(i, k, k.Reply(2))
	}
	outcomes := map[uint64]int{}
	for _, a := range b.all(workInsert, 0, 9000, 0) {
		outcomes[a]++
	}
	if outcomes[refusedUnfair] == 0 || outcomes[made] < 8192*7/8-8 || outcomes[refusedFull] != 0 {
		t.Fatalf("outcomes %v of 9000 flows of one source", outcomes)
	}
	for i := range 900 { // 300 others with three flows each
		k := flow.Key{Source: netip.AddrFrom4([4]byte{10, 1, byte(i / 3 >> 8), byte(i / 3)}), Destination: netip.MustParseAddr("192.0.2.1"),
			SourcePort: uint16(i), DestinationPort: 443, Zone: 1, Protocol: tcp}
		b.set(i, k, k.Reply(2))
	}
	for i, a := range b.all(workInsert, 0, 900, 0) {
		if a == refusedCrowded {
			return true
		}
		if a != made {
			t.Fatalf("flow %d of another source: outcome %d", i, a)
		}
	}
	// The sketch forgets what ends: the greedy one may have its share again.
	b.table.Walk(b.now, flow.Filter{Protocol: udp}, func(f flow.Flow) bool { return b.table.End(f) })
	b.empty()
	return false
}

func TestRandomLookupsNeverHit(t *testing.T) {
	b := newBed(t, 1<<16, 0)
	rng := rand.New(rand.NewPCG(5, 1))
	b.randomFlows(rng, keyCount)
	b.all(workInsert, 0, 60000, 0)
	before := b.stats()
	if before.Entries < 59900 {
		t.Fatalf("%d flows", before.Entries)
	}
	// Ten million keys: half of them differ from one that is there in a few bits only.
	const each = 1 << 20
	for round := range uint64(10) {
		order := run{first: 60000 * uint32(round&1), count: each, mask: keyCount - 1, direction: uint32(round & 1), salt: (round + 1) << (7 * round % 57)}
		if round&1 == 0 {
			order.mask = 1<<15 - 1 // flows that are there, but for the salt
		}
		got, err := b.do("bench", 0, workLookup, order)
		if err != nil {
			t.Fatal(err)
		}
		if got.sum != 0 {
			t.Errorf("round %d: found what is not there, sum of numbers %d", round, got.sum)
		}
	}
	if s := b.stats(); s.Hits != before.Hits || s.Misses-before.Misses != 10*each {
		t.Errorf("%d hits, %d misses", s.Hits-before.Hits, s.Misses-before.Misses)
	}
}

// setSecret gives the table a secret that the attacker knows: 1 for every part.
func (b *bed) setSecret(known bool) {
	secret := b.regions.Control[:64]
	if !known {
		for i := range secret {
			secret[i] = byte(rand.Uint32())
		}
		secret[48] |= 1
		secret[56] |= 1
		return
	}
	for i := range 10 {
		binary.NativeEndian.PutUint32(secret[4*i:], 1)
	}
	for i := range 3 {
		binary.NativeEndian.PutUint64(secret[40+8*i:], 0x9e3779b97f4a7c15)
	}
}

func TestChosenCollisionsNeedTheSecret(t *testing.T) {
	const flows, victims, crowd = 4096, 640, 32
	b := newBed(t, flows, 0)
	fresh := append([]byte(nil), b.regions.Control[:64]...)
	b.setSecret(true)

	// Keys whose buckets are all among the first 32 of a table with the known secret.
	const buckets = flows*10/32 + 2
	rng := rand.New(rand.NewPCG(6, 1))
	var chosen []flow.Key
	for len(chosen) < victims {
		keys := make([]flow.Key, 1<<18)
		for i := range keys {
			n := rng.Uint64()
			keys[i] = flow.Key{Source: netip.AddrFrom4([4]byte{10, byte(n), byte(n >> 8), byte(n >> 16)}), Destination: netip.MustParseAddr("192.0.2.1"),
				SourcePort: uint16(n >> 24), DestinationPort: 443, Zone: 1, Protocol: tcp}
			b.set(i, keys[i], keys[i].Reply(2))
		}
		for i, hash := range b.all(workHash, 0, len(keys), 0) {
			first, second := uint64(uint32(hash))*buckets>>32, uint64(uint32(hash>>24))*buckets>>32
			if first < crowd && second < crowd && len(chosen) < victims {
				chosen = append(chosen, keys[i])
			}
		}
	}
	attack := func() (refused int) {
		for i, k := range chosen {
			b.set(i, k, k.Reply(2))
		}
		for _, a := range b.all(workInsert, 0, victims, 0) {
			if a != made {
				refused++
			}
		}
		return refused
	}
	if refused := attack(); refused < victims/4 {
		t.Errorf("with a known secret %d of %d chosen flows were refused: this is no attack", refused, victims)
	}
	if s := b.stats(); s.DepthMax > 4 {
		t.Errorf("depth %d even so", s.DepthMax)
	}
	b.table.Walk(b.now, flow.Filter{}, func(f flow.Flow) bool { return b.table.End(f) })

	copy(b.regions.Control, fresh)
	if refused := attack(); refused != 0 {
		t.Errorf("with the table's secret %d of %d chosen flows were refused", refused, victims)
	}
	if s := b.stats(); s.DepthMax >= 5 || s.DepthMean >= 1.5 || s.Entries != victims {
		t.Errorf("depth %.3f, at most %d, %d flows", s.DepthMean, s.DepthMax, s.Entries)
	}
}

func TestAdoptedTableKeepsItsFlows(t *testing.T) {
	b := newBed(t, 512, 0)
	b.randomFlows(rand.New(rand.NewPCG(7, 1)), 300)
	b.all(workInsert, 0, 300, 0)
	b.table.Invalidate()
	b.all(workInsert, 0, 200, 0)

	// A daemon was killed while it gave three flows back.
	head := b.regions.Control[128:136]
	binary.NativeEndian.PutUint64(head, binary.NativeEndian.Uint64(head)+3)

	adopted, err := flow.New(b.regions, b.size, flow.DefaultTimeouts)
	if err != nil {
		t.Fatal(err)
	}
	b.table = adopted
	if adopted.Generation() != 1 || b.one(workLookup, 3, 1) == 0 || b.one(workLookup, 250, 0) != 0 {
		t.Error("the table is not what it was")
	}
	if s := b.stats(); s.Entries != 303 {
		t.Errorf("%d flows", s.Entries)
	}
	if swept := adopted.Sweep(b.now, 512); swept.Ended != 100 || !swept.Round {
		t.Errorf("swept %+v, expected the 100 stale flows", swept)
	}
	if s := b.stats(); s.Entries != 200 || s.Passive != 100 {
		t.Errorf("%d flows, %d collected", s.Entries, s.Passive)
	}
	b.empty()

	if _, err := flow.New(b.regions, flow.Size{Flows: 400}, flow.DefaultTimeouts); err == nil {
		t.Error("a table of another size is taken over")
	}
}

func TestSweepGoesOnWhereItStopped(t *testing.T) {
	b := newBed(t, 1000, 0)
	b.randomFlows(rand.New(rand.NewPCG(8, 1)), 900)
	b.all(workInsert, 0, 900, 0)
	b.now += 3000
	ended, calls := 0, 0
	for {
		s := b.table.Sweep(b.now, 64)
		ended += s.Ended
		calls++
		if s.Visited > 64 {
			t.Fatalf("visited %d places of 64", s.Visited)
		}
		if s.Round {
			break
		}
	}
	if ended != int(b.stats().Inserts) || calls != 16 {
		t.Errorf("%d flows ended in %d calls", ended, calls)
	}
}
