// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"

	"minne/internal/model/rib"
)

// BenchmarkDrifted is the look at the slow tick, every 2 s: what an idle router pays for noticing
// settings that somebody changes.
func BenchmarkDrifted(b *testing.B) {
	veths(b, "eth0", "eth1")
	k := New(slog.New(slog.DiscardHandler))
	apply(b, k, render(b, campus()))
	b.ReportAllocs()
	for b.Loop() {
		if k.Drifted() {
			b.Fatal("nothing has changed")
		}
	}
}

// BenchmarkReassertFullTable is a look with nothing to do, beside a full table of another protocol.
func BenchmarkReassertFullTable(b *testing.B) {
	veths(b, "eth0", "eth1")
	k := New(slog.New(slog.DiscardHandler))
	apply(b, k, render(b, campus()))
	var full []rib.Route
	for i := range 900_000 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(20 + i>>16), byte(i >> 8), byte(i), 0}), 24)
		full = append(full, rib.Route{Prefix: p, Table: rib.TableMain, Metric: 20, Type: rib.Unicast, Protocol: 186,
			Hops: []rib.Hop{{Gateway: netip.MustParseAddr("192.0.2.9"), Interface: 0, Weight: 1}}})
	}
	if err := BulkRoutes(context.Background(), full); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := k.Reassert(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
