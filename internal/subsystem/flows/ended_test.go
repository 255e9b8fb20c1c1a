// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/subsystem/fastpath/flow"
)

// both is the same number for both directions.
func both(n uint64) [2]uint64 { return [2]uint64{n, n} }

// end tells a table of a flow of connection i of many that counted so many packets of 100 bytes.
func end(t *Table, i int, packets uint64, at time.Time, id uint64) {
	t.FlowEnded(flow.Ended{Key: masqueraded(i).Key[0], Packets: both(packets), Bytes: both(100 * packets), At: at, ID: id})
}

// packets are those of connection i in a table.
func packets(t *testing.T, table *Table, i int) (packets, bytes [2]uint64, path string) {
	t.Helper()
	key := masqueraded(i).Opener()
	for _, f := range answer(t, table, "").Flows {
		if f.Source == key {
			return f.Packets, f.Bytes, f.Path
		}
	}
	t.Fatalf("connection %d is not in the table", i)
	return
}

func wantPackets(t *testing.T, table *Table, i int, want uint64, path string) {
	t.Helper()
	if got, size, by := packets(t, table, i); got != both(want) || size != both(100*want) || by != path {
		t.Errorf("connection %d has %d packets and %d bytes and is forwarded by %s, expected %d packets of 100 bytes by %s", i, got, size, by, want, path)
	}
}

// TestEndedFlowsStayInTheBook as long as the kernel has their connections.
func TestEndedFlowsStayInTheBook(t *testing.T) {
	network(t)
	shell(t, "echo 1 > /proc/sys/net/netfilter/nf_conntrack_timestamp")
	t.Cleanup(func() { shell(t, "echo 0 > /proc/sys/net/netfilter/nf_conntrack_timestamp") })
	fill(t, 3)
	fast := &pretended{flows: []flow.Flow{{Key: masqueraded(0).Key, Packets: both(5), Bytes: both(500), ID: 1}}}
	table := New(fast, none)
	wantPackets(t, table, 0, 5, PathFast)
	now := time.Now()
	end(table, 0, 7, now, 2)
	end(table, 0, 1, now, 3)
	end(table, 1, 9, now, 4)
	end(table, 3, 1000, now, 5) // the kernel does not have it
	wantPackets(t, table, 0, 13, PathFast)
	fast.flows = nil
	end(table, 0, 5, now, 1)
	wantPackets(t, table, 0, 13, PathKernel)
	wantPackets(t, table, 1, 9, PathKernel)
	wantPackets(t, table, 2, 0, PathKernel)

	s, err := table.Summarize(t.Context())
	if err != nil || s.Sum.Packets != both(22) || s.Sum.FastPath != 44 || s.FastPath.Kept != 2 || s.FastPath.LostTableFull != 0 {
		t.Errorf("%+v %+v, %v", s.Sum, s.FastPath, err)
	}

	// What begins with the same addresses and ports later is another connection.
	fill(t, 2)
	end(table, 1, 4, time.Now(), 6)
	wantPackets(t, table, 0, 0, PathKernel)
	wantPackets(t, table, 1, 4, PathKernel)
	for range 6 { // more than are kept apart
		end(table, 1, 2, time.Now(), 7)
	}
	wantPackets(t, table, 1, 16, PathKernel)

	if err := netlink.ConntrackTableFlush(netlink.ConntrackTable); err != nil {
		t.Fatal(err)
	}
	answer(t, table, "")
	if kept, _ := table.ended.stats(); kept != 0 {
		t.Errorf("%d connections are kept that the kernel does not have", kept)
	}
}

// ending is a fast path whose flows end while it is asked for them.
type ending struct {
	pretended
	end func()
}

func (e *ending) Flows(filter flow.Filter, visit func(flow.Flow) bool) {
	e.pretended.Flows(filter, visit)
	e.end()
}

// TestFlowThatEndsMeanwhile is counted once, whether or not it was visited.
func TestFlowThatEndsMeanwhile(t *testing.T) {
	network(t)
	fill(t, 2)
	fast := &ending{pretended: pretended{flows: []flow.Flow{
		{Key: masqueraded(0).Key, Packets: both(5), Bytes: both(500), ID: 1}, // when it was visited
		{Key: masqueraded(0).Key, Packets: both(1), Bytes: both(100), ID: 9}, // the next one
	}}}
	table := New(fast, none)
	fast.end = func() {
		end(table, 0, 7, time.Now(), 1)
		end(table, 1, 3, time.Now(), 2)
	}
	wantPackets(t, table, 0, 8, PathFast)
	fast.end = func() {}
	wantPackets(t, table, 1, 3, PathKernel)
}

// TestKeptIsBounded: what finds no room is counted, and room is made by asking the kernel.
func TestKeptIsBounded(t *testing.T) {
	network(t)
	fill(t, 4)
	table := New(&pretended{}, none)
	table.ended.most, table.ended.enough = 8, 8
	table.ended.pruned = time.Now() // not yet
	for i := range 12 {
		end(table, i, 1, time.Now(), uint64(i))
	}
	end(table, 3, 1, time.Now(), 12) // one that is known finds room
	if kept, forgotten := table.ended.stats(); kept != 8 || forgotten != 4 {
		t.Errorf("%d are kept and %d forgotten, expected 8 and 4", kept, forgotten)
	}
	table.ended.pruned = time.Time{}
	end(table, 0, 1, time.Now(), 13)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if kept, _ := table.ended.stats(); kept == 4 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d are kept, the kernel has 4", kept)
		}
	}
	wantPackets(t, table, 0, 2, PathKernel)
	wantPackets(t, table, 3, 2, PathKernel)
}

// TestPastIsToldApart by when flows ended, as far as that is kept.
func TestPastIsToldApart(t *testing.T) {
	k := newKept()
	e := flow.Ended{Key: masqueraded(0).Key[0]}
	for i := range 10 {
		e.Packets, e.At = [2]uint64{1 << i, 0}, time.Unix(0, int64(100+i))
		k.add(&e)
	}
	p := k.of[hash(k.seed, &e.Key)]
	for began, want := range map[int64]uint64{0: 1023, 100: 1023, 106: 1023, 107: 1<<9 + 1<<8 + 1<<7, 109: 1 << 9, 110: 0} {
		sum, whole := p.since(began)
		if sum.packets[0] != want || whole != (want == 1023) {
			t.Errorf("since %d: %d packets, all %v; expected %d", began, sum.packets[0], whole, want)
		}
		if left, _ := p.after(began).since(0); left != sum {
			t.Errorf("left since %d: %v, expected %v", began, left, sum)
		}
	}
}
