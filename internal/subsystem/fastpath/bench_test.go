// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/lab/fulltable"
	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath/fib"
)

// BenchmarkProgram is the program's own cost per packet: one flow, hot caches. The next hop's MAC
// is the router's own, so that the packet can come in again, until its TTL is used up.
func BenchmarkProgram(b *testing.B) {
	bench := newBench(b)
	addNeighbour(b, bench.out, "198.51.100.3", macIn, unix.NUD_PERMANENT)
	addNeighbour(b, bench.out, "2001:db8:b::3", macIn, unix.NUD_PERMANENT)
	ip(b, "route", "add", "203.0.113.0/24", "via", "198.51.100.3")
	ip(b, "route", "add", "2001:db8:f::/64", "via", "2001:db8:b::3")
	eventually(b, "the port is in the fast path", func() bool { return bench.fast.prog.interfaces.load(2*bench.in.Attrs().Index)>>48 != 0 })
	bench.loopBy(bench.in)
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"IPv4/gateway", udp4(macIn, macA, "192.0.2.2", "203.0.113.2", 255, 18)},
		{"IPv4/connected", udp4(macIn, macA, "192.0.2.2", "198.51.100.3", 255, 18)},
		{"IPv6/gateway", udp6(macIn, macA, "2001:db8:a::2", "2001:db8:f::2", 255, 0)},
		{"IPv6/connected", udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::3", 255, 0)},
	} {
		eventually(b, "the route is in the fast path", func() bool { return bench.run(c.frame, bench.in).Reason == Forwarded })
		b.Run(c.name, func(b *testing.B) {
			var runs []time.Duration
			for range b.N {
				runs = append(runs, bench.repeat(c.frame))
			}
			slices.Sort(runs)
			b.ReportMetric(float64(runs[len(runs)/2].Nanoseconds()), "ns/packet")
			b.ReportMetric(float64(runs[0].Nanoseconds()), "ns/packet-best")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// loopBy lets the loopback device stand for a port, because a test run without context comes in by it.
func (b *bench) loopBy(port netlink.Link) {
	const loopback = 1
	b.fast.mu.Lock()
	defer b.fast.mu.Unlock()
	delete(b.fast.tables.links, loopback) // or it would become itself again with the next change of a link
	for word := range 2 {
		b.fast.prog.interfaces.store(2*loopback+word, b.fast.prog.interfaces.load(2*port.Attrs().Index+word))
	}
}

// repeat is the time for a frame that comes in again as it left, of many.
func (b *bench) repeat(frame []byte) time.Duration {
	action, took, err := b.fast.prog.objects.Router.Benchmark(frame, 250, nil)
	must(b.t, err)
	if action != ActionRedirect {
		b.t.Fatalf("action %d: the frame did not leave each time", action)
	}
	return took
}

// BenchmarkFullTable tells a real Internet table: the time to fill the tables from nothing, single
// changes, and what the process weighs.
func BenchmarkFullTable(b *testing.B) {
	v4, v6, err := fulltable.Load()
	must(b, err)
	for range b.N {
		prog, err := load(shape{structure: fib.Default, capacity4: fib.Full, capacity6: fib.Full}, nil)
		must(b, err)
		t := newTables(slog.New(slog.DiscardHandler), prog, newProcSettings())
		t.Begin()
		t.Links([]rib.Link{{Index: 1, Name: "lo", Up: true, Running: true, MTU: 1500, MAC: macIn}})
		start := time.Now()
		tell(t, v4, "192.0.2.%d", false)
		tell(t, v6, "2001:db8::%d", false)
		told := time.Since(start)
		t.End()
		full := time.Since(start)
		b.ReportMetric(told.Seconds(), "s/told")
		b.ReportMetric(t.times.Fill.Seconds(), "s/fill")
		b.ReportMetric(full.Seconds(), "s/full")
		b.ReportMetric(float64(residentBytes(b))/(1<<20), "MiB-RSS")

		start = time.Now()
		const changes = 100_000
		tell(t, v4[:changes], "192.0.2.%d", true)
		b.ReportMetric(changes/time.Since(start).Seconds(), "changes/s")
		start = time.Now()
		const single = 1000
		for i := range single {
			tell(t, v4[i*800:i*800+1], "198.51.100.%d", false)
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/single, "µs/change")
		b.ReportMetric(float64(t.times.Longest.Microseconds()), "µs/longest-batch")
		prog.close()
	}
}

// tell tells routes in batches, spread over a few gateways.
func tell(t *tables, prefixes []netip.Prefix, gateway string, deleted bool) {
	gateways := make([]netip.Addr, 20)
	for i := range gateways {
		gateways[i] = netip.MustParseAddr(strings.Replace(gateway, "%d", strconv.Itoa(i+1), 1))
	}
	batch := make([]rib.RouteChange, 0, 256)
	for i, p := range prefixes {
		batch = append(batch, rib.RouteChange{Deleted: deleted, Route: rib.Route{Prefix: p, Table: rib.TableMain, Type: rib.Unicast,
			Hops: []rib.Hop{{Gateway: gateways[i%len(gateways)], Interface: 1, Weight: 1}}}})
		if len(batch) == cap(batch) {
			t.Routes(batch)
			batch = batch[:0]
		}
	}
	t.Routes(batch)
}

func residentBytes(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	must(t, err)
	return pages * os.Getpagesize()
}
