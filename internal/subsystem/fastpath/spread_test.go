// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/base/affinity"
	"minne/internal/subsystem/fastpath/filter"
)

// numbered is a packet of some flow with a number in its payload.
func numbered(flow, number int) []byte { return numberedFrom(macIn, macA, 64, flow, number) }

func numberedFrom(dst, src net.HardwareAddr, ttl uint8, flow, number int) []byte {
	frame := udp4(dst, src, "192.0.2.2", "198.51.100.2", ttl, 18)
	binary.BigEndian.PutUint16(frame[34:], uint16(20000+flow))
	binary.BigEndian.PutUint32(frame[42:], uint32(number))
	copy(frame[46:], "spread")
	frame[40], frame[41] = 0, 0 // no checksum
	return frame
}

// perCPU is how many packets that came in each CPU has forwarded.
func (b *bench) perCPU() (list []uint64) {
	b.t.Helper()
	var traffic []routerTraffic
	must(b.t, b.fast.prog.objects.Traffic.Lookup(uint32(b.in.Attrs().Index), &traffic))
	for _, one := range traffic {
		list = append(list, one.RxPackets)
	}
	return list
}

// TestSpread: one CPU receives all packets of a port and spreads them over all CPUs. Each flow stays in order, nothing is lost, and what
// comes out is the same as without.
func TestSpread(t *testing.T) {
	cpus, err := affinity.Here.Online()
	must(t, err)
	if len(cpus) < 2 {
		t.Fatal("packets can be spread over two CPUs or more; this machine has one")
	}
	b := newBench(t)
	b.expect(numbered(0, 0), b.in, Forwarded)
	d := b.desired()
	d.Spread = []string{"in"}
	if changes, err := b.fast.Plan(context.Background(), d); err != nil || len(changes) != 1 || changes[0].Object != "spreading packets of in" {
		t.Errorf("planned %v, %v", changes, err)
	}
	runtime.LockOSThread() // who sends on a veth receives on the same CPU
	defer runtime.UnlockOSThread()
	was, err := affinity.Of(unix.Gettid())
	must(t, err)
	must(t, affinity.Tie(unix.Gettid(), cpus[:1]))
	defer func() { must(t, affinity.Tie(unix.Gettid(), was)) }()

	const flows, each = 40, 24
	pass := func() (on int) {
		t.Helper()
		before := b.perCPU()
		from, to := newWire(t, b.a), newWire(t, b.b)
		last := map[uint16]int{}
		const window = 4 // packets of each flow on their way: no ring of a veth overflows
		for begin := 0; begin < each; begin += window {
			for number := begin; number < begin+window; number++ {
				for flow := range flows {
					from.send(numbered(flow, number))
				}
			}
			for range flows * window {
				got := to.next(20*time.Second, func(f []byte) bool { return len(f) >= 60 && bytes.Equal(f[46:52], []byte("spread")) })
				if got == nil {
					t.Fatalf("packets were lost: flows have come to %v", last)
				}
				flow, number := binary.BigEndian.Uint16(got[34:]), int(binary.BigEndian.Uint32(got[42:]))
				if number != last[flow] {
					t.Fatalf("packet %d of flow %d comes where %d was expected", number, flow, last[flow])
				}
				last[flow]++
				if want := numberedFrom(macB, macOut, 63, int(flow)-20000, number); !bytes.Equal(got, want) {
					t.Fatalf("came out as\n% x, expected\n% x", got, want)
				}
			}
		}
		after := b.perCPU()
		sum := uint64(0)
		for n := range after {
			if after[n] > before[n] {
				on++
			}
			sum += after[n] - before[n]
		}
		if sum != flows*each {
			t.Errorf("the fast path forwarded %d packets, expected %d", sum, flows*each)
		}
		return on
	}
	if on := pass(); on != 1 {
		t.Fatalf("without spreading, packets of one queue are forwarded by %d CPUs", on)
	}
	must(t, b.fast.Apply(context.Background(), d))
	if o, err := b.fast.Observe(context.Background()); err != nil || !slices.ContainsFunc(o.Ports, func(p ObservedPort) bool { return p.Name == "in" && slices.Equal(p.Spread, cpus) }) {
		t.Errorf("observed %+v, %v", o.Ports, err)
	}
	if on := pass(); on < 2 {
		t.Errorf("packets were spread over %d CPU", on)
	}
	// Over one CPU that does not receive.
	d.SpreadOver = cpus[1:2]
	must(t, b.fast.Apply(context.Background(), d))
	before := b.perCPU()
	if on := pass(); on != 1 || b.perCPU()[cpus[1]]-before[cpus[1]] != flows*each {
		t.Errorf("packets were not spread to CPU %d alone: %v, then %v", cpus[1], before, b.perCPU())
	}
	// Another program: the port goes on spreading, and the daemon takes its own program back where another took its place.
	d.SpreadOver = nil
	must(t, b.fast.Apply(context.Background(), d))
	b.fast.locked(func() {
		s := b.fast.prog.shape
		s.bridges = true
		must(t, b.fast.rebuild(s))
	})
	if on := pass(); on < 2 {
		t.Errorf("with the next program packets were spread over %d CPU", on)
	}
	b.fast.locked(func() { must(t, b.fast.ports[b.in.Attrs().Index].take(b.fast.prog.objects.Router)) })
	b.fast.look()
	if on := pass(); on < 2 {
		t.Errorf("after another program had its place packets were spread over %d CPU", on)
	}
	// The next daemon, and spreading off.
	b.stop()
	b.fast = New(b.inst, b.fast.log)
	b.start()
	if on := pass(); on != 1 {
		t.Errorf("the next daemon, which does not spread, forwards by %d CPUs", on)
	}
}

// TestSpreadLost: what finds no room in a CPU's queue is counted, also over an exchange of the program.
func TestSpreadLost(t *testing.T) {
	was := spreadQueue
	spreadQueue = 1
	t.Cleanup(func() { spreadQueue = was })
	b := newBench(t)
	b.expect(numbered(0, 0), b.in, Forwarded)
	d := b.desired()
	d.Spread = []string{"in"}
	must(t, b.fast.Apply(context.Background(), d))
	lost := func() uint64 {
		o, err := b.fast.Observe(context.Background())
		must(t, err)
		return o.SpreadLost
	}
	if n := lost(); n != 0 {
		t.Errorf("%d packets were lost before there were any", n)
	}
	frame := numbered(1, 1)
	_, err := b.fast.prog.objects.RouterSpread.Run(&ebpf.RunOptions{Data: frame, Context: contextXDP{DataEnd: uint32(len(frame)), Ingress: uint32(b.in.Attrs().Index)},
		Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, Repeat: 64, BatchSize: 64})
	must(t, err)
	before := lost()
	if before == 0 || before > 63 {
		t.Errorf("of 64 packets at once, for a queue of one, %d were lost", before)
	}
	b.fast.locked(func() {
		s := b.fast.prog.shape
		s.bridges = true
		must(t, b.fast.rebuild(s))
	})
	if n := lost(); n != before {
		t.Errorf("%d packets were lost, and with the next program %d", before, n)
	}
}

// TestSpreadFirewall: a packet that a firewall forbids is dropped on whichever CPU it is handed to, from the moment that its Apply returns.
func TestSpreadFirewall(t *testing.T) {
	wide, narrow := wideAndNarrow()
	b := newEvaluated(t, wide)
	d := b.desired()
	d.Spread = []string{"in"}
	must(t, b.fast.Apply(context.Background(), d))
	from, to := newWire(t, b.a), newWire(t, b.b)
	frame := udpTo("6002").toB()
	dropped := func() (sum uint64) {
		o, err := b.fast.Observe(context.Background())
		must(t, err)
		for _, one := range o.Reasons {
			if one.Drop {
				sum += one.Count
			}
		}
		return sum
	}
	// Flows have no order among each other any more: all that was sent is waited for, as dropped or as come out.
	for round, policy := range []*filter.Policy{wide, narrow, wide, narrow} {
		must(t, b.fast.Firewall().Apply(context.Background(), policy))
		before := dropped()
		const each = 50
		for range each {
			from.send(frame)
		}
		if policy == narrow {
			eventually(t, fmt.Sprintf("round %d: all are dropped", round), func() bool { return dropped() == before+each })
			continue
		}
		for n := range each {
			if to.next(20*time.Second, addressed(macB)) == nil {
				t.Fatalf("round %d: %d of %d packets came", round, n, each)
			}
		}
	}
	if got := to.next(50*time.Millisecond, addressed(macB)); got != nil {
		t.Errorf("a packet that is forbidden came out: % x", got)
	}
}
