// SPDX-License-Identifier: Apache-2.0

package flowbench

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/flow"
)

// told is what a listener has heard, by the key of who opened the connection.
type told map[flow.Key][]flow.Ended

func (t told) FlowEnded(e flow.Ended) { t[e.Key] = append(t[e.Key], e) }

// hearing makes the programs of a bed tell of flows that end, and the table, too.
func (b *bed) hearing() (told, *ringbuf.Reader) {
	b.Helper()
	reader, err := ringbuf.NewReader(b.maps["flow_ended"])
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { reader.Close() })
	heard := told{}
	b.tells = b.size.RingRecords()
	b.table.SetListener(heard)
	return heard, reader
}

// listen takes what waits in the ring.
func (b *bed) listen(reader *ringbuf.Reader, heard told) (records int) {
	b.Helper()
	if err := reader.Flush(); err != nil {
		b.Fatal(err)
	}
	for ; ; records++ {
		record, err := reader.Read()
		if errors.Is(err, ringbuf.ErrFlushed) {
			return records
		}
		if err != nil {
			b.Fatal(err)
		}
		e, ok := b.table.Ended(record.RawSample)
		if !ok {
			b.Fatalf("%x is no record", record.RawSample)
		}
		heard.FlowEnded(e)
	}
}

// TestEndedFlowsAreTold: what flows have counted is told once, however they end.
func TestEndedFlowsAreTold(t *testing.T) {
	b := newBed(t, 1024, 6)
	heard, ring := b.hearing()
	keys := b.randomFlows(rand.New(rand.NewPCG(9, 1)), 60)
	b.all(workInsert, 0, 60, 0)
	for i := range 50 { // 10 repeat nothing
		for range i%3 + 1 {
			b.one(workForward, i, 0)
		}
		b.one(workForward, i, 1)
	}
	ids := map[flow.Key]uint64{}
	b.table.Walk(b.now, flow.Filter{}, func(f flow.Flow) bool { ids[f.Key[0]] = f.ID; return true })
	before := time.Now()
	b.all(workDelete, 0, 10, 1)  // FIN of the replies
	b.all(workInsert, 10, 10, 0) // made anew
	b.all(workDelete, 50, 10, 0) // nothing to tell
	records := b.listen(ring, heard)
	if records != 20 {
		t.Errorf("%d records, expected 10 of flows that ended and 10 of flows that were replaced", records)
	}
	b.table.Walk(b.now, flow.Filter{Protocol: tcp}, func(f flow.Flow) bool { return b.table.End(f) })
	b.now += 3000
	b.table.Sweep(b.now, 1024)
	if len(heard) != 50 || b.listen(ring, heard) != 0 {
		t.Errorf("told of %d flows", len(heard))
	}
	for i, k := range keys[:50] {
		all := heard[k]
		if len(all) != 1 {
			t.Errorf("flow %d: told %d times", i, len(all))
			continue
		}
		there, e := uint64(i%3+1), all[0]
		if e.Packets != [2]uint64{there, 1} || e.Bytes != [2]uint64{there * 60, 60} || e.ID != ids[k] {
			t.Errorf("flow %d: %+v, expected %d and 1 packets, id %x", i, e, there, ids[k])
		}
		if e.At.Before(before.Add(-time.Second)) || e.At.After(time.Now().Add(time.Second)) {
			t.Errorf("flow %d ended at %v, it is %v", i, e.At, time.Now())
		}
	}
	if ids := slices.Compact(slices.Sorted(maps.Values(ids))); len(ids) != 60 {
		t.Errorf("%d ids of 60 flows", len(ids))
	}
	if s := b.stats(); s.LostRingFull != 0 || s.Entries != 0 {
		t.Errorf("%d untold, %d left", s.LostRingFull, s.Entries)
	}
}

// TestLatePacketsAreTold: a packet that found the flow before it ended counts itself behind.
func TestLatePacketsAreTold(t *testing.T) {
	b := newBed(t, 256, 6)
	heard, ring := b.hearing()
	key := b.randomFlows(rand.New(rand.NewPCG(10, 1)), 1)[0]
	b.one(workInsert, 0, 0)
	b.one(workForward, 0, 0)
	number := b.one(workLookup, 0, 0)
	b.one(workDelete, 0, 0)
	b.regions.Sides[64*number+40]++    // struct flow_side: packets of the side
	b.regions.Sides[64*number+48] += 5 // and bytes
	b.listen(ring, heard)
	if e := heard[key]; len(e) != 1 || e[0].Packets != [2]uint64{2, 0} || e[0].Bytes != [2]uint64{65, 0} {
		t.Errorf("%+v", e)
	}
}

// TestFullRingIsCounted: what finds no place is not forgotten silently.
func TestFullRingIsCounted(t *testing.T) {
	const flows = 8192
	b := newBed(t, flows, 6)
	heard, ring := b.hearing()
	b.randomFlows(rand.New(rand.NewPCG(11, 1)), flows/2)
	b.all(workInsert, 0, flows/2, 0)
	b.all(workForward, 0, flows/2, 0)
	b.all(workDelete, 0, flows/2, 0)
	records := b.listen(ring, heard)
	s := b.stats()
	if records < flows/4 || s.LostRingFull == 0 || records+int(s.LostRingFull) != int(s.Active) {
		t.Errorf("%d flows ended, %d records, %d untold", s.Active, records, s.LostRingFull)
	}
}

func TestNoRecord(t *testing.T) {
	b := newBed(t, 256, 6)
	record := make([]byte, 88)
	for _, bad := range [][]byte{nil, record[:87], record} { // too short; flow 0
		if e, ok := b.table.Ended(bad); ok {
			t.Errorf("%x is %+v", bad, e)
		}
	}
	record[82] = 0x40 // a flow behind the table
	if e, ok := b.table.Ended(record); ok {
		t.Errorf("%+v", e)
	}
}

// BenchmarkNewAndEnd makes flows, counts a packet of each and ends them, with and without somebody who is
// told: go test -bench NewAndEnd ./internal/subsystem/fastpath/flowbench. The reader's time is in told, as both
// share the machine; ns/flow is the time in the programs.
func BenchmarkNewAndEnd(b *testing.B) {
	const flows, batch = 1 << 17, 1 << 12
	for _, tells := range []bool{false, true, false} {
		b.Run(fmt.Sprintf("told=%v", tells), func(b *testing.B) { newAndEnd(b, flows, batch, tells) })
	}
}

func newAndEnd(b *testing.B, flows, batch int, tells bool) {
	s, err := newShared()
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	r, err := newRig(s, flow.Size{Flows: flows}, flow.DefaultTimeouts, 0, false)
	if err != nil {
		b.Fatal(err)
	}
	defer r.close()
	benchFlows(s, rand.New(rand.NewPCG(seed, seed)))
	caughtUp := func() {}
	if tells {
		r.tells = r.size.RingRecords()
		reader, err := ringbuf.NewReader(r.maps["flow_ended"])
		if err != nil {
			b.Fatal(err)
		}
		flushed := make(chan struct{})
		go func() {
			defer close(flushed)
			var record ringbuf.Record
			for {
				switch err := reader.ReadInto(&record); {
				case err == nil:
					r.table.Ended(record.RawSample)
				case errors.Is(err, ringbuf.ErrFlushed):
					flushed <- struct{}{}
				default:
					return
				}
			}
		}()
		defer func() { reader.Close(); <-flushed }()
		caughtUp = func() {
			if err := reader.Flush(); err != nil {
				b.Fatal(err)
			}
			<-flushed
		}
	}
	var ns [3]uint64
	var before, after unix.Rusage
	rounds, work := 0, []int{workInsert, workForward, workDelete}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for i, w := range work {
			got, err := r.do("bench", 0, w, run{count: uint32(batch), mask: keyCount - 1, now: uint32(flow.Now())})
			if err != nil {
				b.Fatal(err)
			}
			ns[i] += got.ns
		}
		rounds++
		caughtUp() // a million flows a second end here; a machine with nothing else to do makes and ends fewer
	}
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	all := float64(rounds * batch)
	b.ReportMetric(float64(ns[0])/all, "new-ns/flow")
	b.ReportMetric(float64(ns[2])/all, "end-ns/flow")
	cpu := func(r *unix.Rusage) int64 { return r.Utime.Nano() + r.Stime.Nano() }
	b.ReportMetric(float64(cpu(&after)-cpu(&before))/all, "cpu-ns/flow")
	if tells {
		counts, err := r.counts()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(100*float64(flow.Sum(counts).LostRingFull)/all, "untold-%")
	}
}
