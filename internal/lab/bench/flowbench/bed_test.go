// SPDX-License-Identifier: Apache-2.0

package flowbench

import (
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/testing/testns"
	"minne/internal/testing/testuml"
)

// onUML makes the tests run in User-Mode Linux, whose kernel 6.12 has neither a JIT nor bpf_loop without one.
const onUML = "MINNE_TEST_UML"

func inUML() bool { return os.Getpid() == 1 }

func TestMain(m *testing.M) {
	if inUML() || os.Getenv(onUML) != "" {
		testuml.Main(m)
	}
	testns.Main(m)
}

// What flow_insert answers (enum flow_outcome of bpf/flow_write.h).
const (
	made = iota
	refusedFull
	refusedUnfair
	refusedCrowded
	refusedRaced
)

const (
	tcp  = 6
	udp  = 17
	icmp = 1
)

// bed is a table, its programs and the flows that a test makes.
type bed struct {
	*testing.T
	*rig
	now uint16
}

// newBed makes a table. Ended flows are used again at once, unless rest says otherwise.
func newBed(t *testing.T, flows int, rest uint32) *bed {
	t.Helper()
	s, err := newShared()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r, err := newRig(s, flow.Size{Flows: flows}, flow.DefaultTimeouts, rest, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return &bed{T: t, rig: r, now: 1000}
}

// all does work for the flows first … first + count − 1 of the array and returns the answers.
func (b *bed) all(work int, first, count int, direction uint32) []uint64 {
	b.Helper()
	if inUML() && count > 1 {
		for i := range count {
			b.one(work, first+i, direction)
		}
		return b.shared.answers[first : first+count]
	}
	program := "answer"
	if count == 1 {
		program = "single"
	}
	order := run{first: uint32(first), count: uint32(count), mask: keyCount - 1, direction: direction, now: uint32(b.now)}
	if _, err := b.do(program, 0, work, order); err != nil {
		b.Fatal(err)
	}
	return b.shared.answers[first : first+count]
}

func (b *bed) one(work, flow int, direction uint32) uint64 {
	b.Helper()
	return b.all(work, flow, 1, direction)[0]
}

func (b *bed) stats() flow.Stats {
	b.Helper()
	c, err := b.counts()
	if err != nil {
		b.Fatal(err)
	}
	return b.table.Stats(c)
}

// randomAddr is an address of the family; the first half is given.
func randomAddr(rng *rand.Rand, v6 bool, first uint32) netip.Addr {
	n := rng.Uint32()
	if !v6 {
		return netip.AddrFrom4([4]byte{byte(first) | 1, byte(n >> 16), byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(first >> 24), byte(first >> 16), byte(first >> 8), byte(first),
		8: byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), 15: 1})
}

// randomKey is a flow of any kind.
func randomKey(rng *rand.Rand) flow.Key {
	v6 := rng.IntN(2) == 0
	k := flow.Key{
		Source: randomAddr(rng, v6, rng.Uint32()), Destination: randomAddr(rng, v6, rng.Uint32()),
		Zone: uint16(1 + rng.IntN(4)), Protocol: []uint8{tcp, udp, icmp, 47}[rng.IntN(4)],
	}
	switch k.Protocol {
	case tcp, udp:
		k.SourcePort, k.DestinationPort = uint16(rng.Uint32()), uint16(rng.Uint32())
	case icmp:
		k.SourcePort = uint16(rng.Uint32())
		k.DestinationPort = k.SourcePort
	}
	return k
}

// set puts a flow into the array.
func (b *bed) set(at int, original, reply flow.Key) {
	b.shared.pairs[at].key = [2][5]uint64{original.Words(), reply.Words()}
}

// randomFlows fills the array with distinct flows, every third of them with another source for the replies.
func (b *bed) randomFlows(rng *rand.Rand, n int) []flow.Key {
	keys := make([]flow.Key, n)
	for i := range keys {
		k := randomKey(rng)
		reply := k.Reply(9)
		if i%3 == 0 {
			reply.Destination = randomAddr(rng, k.Source.Is6(), rng.Uint32())
			reply.DestinationPort = uint16(i)
		}
		keys[i] = k
		b.set(i, k, reply)
	}
	return keys
}

// empty ends all flows and checks that nothing is left behind, and that the table takes as many as it says.
func (b *bed) empty() {
	b.Helper()
	b.table.Walk(b.now, flow.Filter{}, func(f flow.Flow) bool {
		if !b.table.End(f) {
			b.Errorf("%v can't be ended", f.Key[0])
		}
		return true
	})
	if s := b.stats(); s.Entries != 0 || s.Depths != [4]int{} {
		b.Errorf("an empty table has %d flows, depths %v", s.Entries, s.Depths)
	}
	rng := rand.New(rand.NewPCG(77, 77))
	b.randomFlows(rng, b.size.Flows)
	refused := 0
	for _, a := range b.all(workInsert, 0, b.size.Flows, 0) {
		if a != made {
			refused++
		}
	}
	if refused > b.size.Flows/50 {
		b.Errorf("%d of %d flows refused by an empty table", refused, b.size.Flows)
	}
	if s := b.stats(); s.Entries != b.size.Flows-refused || s.Depths[0]+s.Depths[1]+s.Depths[2]+s.Depths[3] != 2*s.Entries {
		b.Errorf("%d flows made, the table has %d and depths %v", b.size.Flows-refused, s.Entries, s.Depths)
	}
}

const tick = time.Duration(1) << 31
