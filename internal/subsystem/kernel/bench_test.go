// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab/fulltable"
	"minne/internal/model/rib"
)

// counter is a listener that only counts.
type counter struct {
	routes, rounds atomic.Int64
}

func (c *counter) Begin()                        {}
func (c *counter) End()                          { c.rounds.Add(1) }
func (c *counter) Links([]rib.Link)              {}
func (c *counter) Addresses([]rib.LinkAddress)   {}
func (c *counter) Rules([]rib.Rule)              {}
func (c *counter) Neighbours([]rib.Neighbour)    {}
func (c *counter) NextHops([]rib.NextHopGroup)   {}
func (c *counter) Routes(list []rib.RouteChange) { c.routes.Add(int64(len(list))) }

// fullTable loads the real table over two next hops and removes it after the benchmark.
func fullTable(b *testing.B) (routes []rib.Route) {
	b.Helper()
	churnLinks(b)
	v4, v6, err := fulltable.Load()
	if err != nil {
		b.Fatal(err)
	}
	for i, p := range append(v4, v6...) {
		routes = append(routes, routeTo(b, p, i%2))
	}
	load(b, routes, BulkRoutes)
	b.Cleanup(func() { load(b, routes, BulkRemove) })
	return routes
}

func load(b *testing.B, routes []rib.Route, how func(context.Context, []rib.Route) error) {
	b.Helper()
	start := time.Now()
	if err := how(context.Background(), routes); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d routes in %s", len(routes), time.Since(start))
}

var hopsTo = sync.OnceValue(func() map[string][]rib.Hop {
	m := map[string][]rib.Hop{}
	for i := range 2 {
		m[fmt.Sprint(4, i)] = []rib.Hop{{Gateway: netip.MustParseAddr(fmt.Sprintf("10.%d.0.2", i)), Weight: 1}}
		m[fmt.Sprint(6, i)] = []rib.Hop{{Gateway: netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::2", i)), Weight: 1}}
	}
	return m
})

func routeTo(b *testing.B, p netip.Prefix, i int) rib.Route {
	family := 6
	if p.Addr().Is4() {
		family = 4
	}
	const protocolBGP = 186
	return rib.Route{Prefix: p, Table: rib.TableMain, Metric: 20, Type: rib.Unicast, Protocol: protocolBGP, Hops: hopsTo()[fmt.Sprint(family, i)]}
}

// BenchmarkDump is the time from the start of a watcher to its first End with a full table.
func BenchmarkDump(b *testing.B) {
	fullTable(b)
	used, n := cpu(b), 0
	for b.Loop() {
		n++
		before := heap()
		c := &counter{}
		stop := start(b, NewWatcher(slog.New(slog.DiscardHandler), c))
		if c.rounds.Load() != 1 {
			b.Fatal("no End")
		}
		b.ReportMetric(float64(c.routes.Load()), "routes")
		b.ReportMetric(heap()-before, "MB-held")
		stop()
	}
	b.ReportMetric((cpu(b)-used).Seconds()/float64(n), "cpu-s/op")
}

// BenchmarkStream is how fast changes of a full table reach a listener while they are made: every
// route gets another next hop. The kernel makes them on one core, the watcher tells them on the other.
func BenchmarkStream(b *testing.B) {
	routes := fullTable(b)
	c := &counter{}
	start(b, NewWatcher(slog.New(slog.DiscardHandler), c))
	changes, round, used := 0, 0, cpu(b)
	for b.Loop() {
		round++
		for i := range routes {
			routes[i] = routeTo(b, routes[i].Prefix, (i+round)%2)
		}
		before := c.routes.Load()
		begin := time.Now()
		if err := BulkRoutes(context.Background(), routes); err != nil {
			b.Fatal(err)
		}
		made := time.Since(begin)
		for c.routes.Load()-before < int64(len(routes)) {
			if c.rounds.Load() > 1 {
				b.Fatal("the kernel dropped notifications")
			}
			time.Sleep(time.Millisecond)
		}
		changes += len(routes)
		b.Logf("made in %s, told after %s", made, time.Since(begin))
	}
	b.ReportMetric(float64(changes)/b.Elapsed().Seconds(), "changes/s")
	b.ReportMetric(float64((cpu(b)-used).Nanoseconds())/float64(changes), "cpu-ns/change")
}

// BenchmarkDrain is how fast the watcher reads and tells changes that the kernel has already made:
// they wait in the socket when the time starts.
func BenchmarkDrain(b *testing.B) {
	churnLinks(b)
	v4, _, err := fulltable.Load()
	if err != nil {
		b.Fatal(err)
	}
	var routes []rib.Route
	for _, p := range v4[:200_000] {
		routes = append(routes, routeTo(b, p, 0))
	}
	load(b, routes, BulkRoutes)
	b.Cleanup(func() { load(b, routes, BulkRemove) })
	watcher, told, used := NewWatcher(slog.New(slog.DiscardHandler), &counter{}), 0, time.Duration(0)
	watcher.ledger = newLedger(func(list []rib.RouteChange) { told += len(list) })
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		if watcher.stream, err = newStream(); err != nil {
			b.Fatal(err)
		}
		for i := range routes {
			routes[i] = routeTo(b, routes[i].Prefix, (i+round)%2)
		}
		load(b, routes, BulkRoutes)
		before := cpu(b)
		b.StartTimer()
		if err := errors.Join(watcher.stream.pull(), watcher.work(context.Background())); err != nil {
			b.Fatal(err)
		}
		used += cpu(b) - before
		watcher.stream.close()
	}
	b.ReportMetric(float64(told)/b.Elapsed().Seconds(), "changes/s")
	b.ReportMetric(float64(used.Nanoseconds())/float64(told), "cpu-ns/change")
}

// BenchmarkLedger is the watcher's own speed, without the kernel's: notifications of a full table
// that appears, and of one in which every route gets another next hop.
func BenchmarkLedger(b *testing.B) {
	v4, v6, err := fulltable.Load()
	if err != nil {
		b.Fatal(err)
	}
	var w builder
	for round := range 2 {
		for i, p := range append(v4, v6...) {
			r := routeTo(b, p, (i+round)%2)
			r.Hops = []rib.Hop{{Gateway: r.Hops[0].Gateway, Interface: 1 + i%2, Weight: 1}}
			encodeRoute(&w, 24, 0x400>>(2*round), 0, r) // NLM_F_CREATE, then NLM_F_REPLACE
		}
	}
	told, used := 0, cpu(b)
	for b.Loop() {
		watcher := NewWatcher(slog.New(slog.DiscardHandler), &counter{})
		watcher.ledger = newLedger(func(list []rib.RouteChange) { told += len(list) })
		if err := watcher.notifyChunk(context.Background(), w.b); err != nil {
			b.Fatal(err)
		}
		watcher.flush()
		runtime.KeepAlive(watcher)
	}
	b.ReportMetric(float64(told)/b.Elapsed().Seconds(), "changes/s")
	b.ReportMetric(float64((cpu(b)-used).Nanoseconds())/float64(told), "cpu-ns/change")
}

// cpu is the processor time of this process so far, the kernel's work for it included: on a shared
// machine it says more than the time of day.
func cpu(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// heap is the memory in use after a collection, in MB.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}
