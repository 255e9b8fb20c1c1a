// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// BenchmarkCapture is what a packet costs in the program while a capture runs that does not want it,
// and while one does, beside the ordinary program. Rounds alternate.
func BenchmarkCapture(b *testing.B) {
	bench := newBench(b)
	addNeighbour(b, bench.out, "198.51.100.3", macIn, unix.NUD_PERMANENT)
	ip(b, "route", "add", "203.0.113.0/24", "via", "198.51.100.3")
	frame := udp4(macIn, macA, "192.0.2.2", "203.0.113.2", 255, 18)
	eventually(b, "the route is in the fast path", func() bool { return bench.run(frame, bench.in).Reason == Forwarded })
	for word := range 2 { // a test run without context comes in by the loopback device
		bench.fast.prog.interfaces.store(2+word, bench.fast.prog.interfaces.load(2*bench.in.Attrs().Index+word))
	}
	programs := []*ebpf.Program{bench.fast.prog.objects.Router, bench.fast.prog.objects.Router}
	names := []string{"none", "none-again", "other-host", "copied"}
	for _, host := range []string{"198.51.100.99", "203.0.113.2"} {
		filter := CaptureFilter{Snaplen: MaxSnaplen, Prefixes: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(host), 32)}}
		c, err := bench.fast.prog.loadCapture(filter, 0, [2]uint16{})
		must(b, err)
		defer c.close()
		go func() { _ = bench.fast.readCapture(c, func(CapturedPacket) error { return nil }) }()
		programs = append(programs, c.program)
	}
	runs := make([][]time.Duration, len(programs))
	for range max(b.N, 200) {
		for i, p := range programs {
			_, took, err := p.Benchmark(frame, 250, nil)
			must(b, err)
			runs[i] = append(runs[i], took)
		}
	}
	for i, r := range runs {
		slices.Sort(r)
		b.ReportMetric(float64(r[len(r)/2].Nanoseconds()), "ns/"+names[i])
	}
	b.ReportMetric(0, "ns/op")
}
