// SPDX-License-Identifier: Apache-2.0

package flowbench

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/flow"
)

// Two CPUs make, find and end the same flows while user space sweeps and ends some, in a table so small that every
// number is used for another flow within microseconds. Nobody may ever read half of one flow and half of another,
// and nothing may be lost.
func TestTwoCPUsAndUserSpace(t *testing.T) {
	b := newBed(t, 256, 0)
	const universe = 512
	rng := rand.New(rand.NewPCG(9, 1))
	for i := range universe {
		// The first half of each address is kept by the translation, and no two flows have the same.
		k := flow.Key{Source: randomAddr(rng, true, uint32(2*i)), Destination: randomAddr(rng, true, uint32(2*i+1)),
			SourcePort: uint16(i), DestinationPort: 443, Zone: 1, Protocol: tcp}
		reply := k.Reply(2)
		reply.Destination = randomAddr(rng, true, uint32(2*i))
		reply.DestinationPort = uint16(rng.Uint32())
		b.set(i, k, reply)
	}
	works := []int{workInsert, workTranslate, workDelete}
	for _, w := range works {
		for _, program := range []string{"bench", "bench_beside"} {
			if _, err := b.load(program, w); err != nil {
				t.Fatal(err)
			}
		}
	}
	var wrong, found [2]uint64
	var wait sync.WaitGroup
	for cpu, program := range []string{"bench", "bench_beside"} {
		wait.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var set unix.CPUSet
			set.Set(cpu % runtime.NumCPU())
			_ = unix.SchedSetaffinity(0, &set) // where it fails the scheduler spreads them
			rng := rand.New(rand.NewPCG(uint64(cpu), 10))
			for range 3000 {
				order := run{first: rng.Uint32(), count: 200, mask: universe - 1, direction: 2, now: uint32(b.now)}
				got, err := b.do(program, cpu, works[rng.IntN(3)], order)
				if err != nil {
					t.Error(err)
					return
				}
				wrong[cpu] += got.wrong
				found[cpu] += got.sum
			}
			set.Zero()
			for i := range runtime.NumCPU() {
				set.Set(i)
			}
			_ = unix.SchedSetaffinity(0, &set)
		})
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			b.table.Walk(b.now, flow.Filter{}, func(f flow.Flow) bool {
				if f.Key[0].SourcePort != f.Key[0].SourcePort&(universe-1) || f.Key[1].SourcePort != 443 {
					t.Errorf("a flow that nobody made: %v", f.Key)
				}
				if f.Key[0].SourcePort%16 == 0 {
					b.table.End(f)
				}
				return true
			})
			runtime.Gosched()
		}
	})
	wait.Wait()
	close(stop)
	reader.Wait()
	if wrong != [2]uint64{} {
		t.Errorf("translations of other flows: %v", wrong)
	}
	if found[0] == 0 || found[1] == 0 {
		t.Error("nothing was found: this tests nothing")
	}
	s := b.stats()
	t.Logf("%+v", s.Counts)
	if s.Depths[0]+s.Depths[1]+s.Depths[2]+s.Depths[3] != 2*s.Entries {
		t.Errorf("%d flows with depths %v", s.Entries, s.Depths)
	}
	b.empty()
}
