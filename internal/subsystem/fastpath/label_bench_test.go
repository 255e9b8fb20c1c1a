// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/packet"
)

// BenchmarkLabels is what patterns cost a packet: of a flow that has been looked through, with and without a flow
// table, and of one that is searched.
func BenchmarkLabels(b *testing.B) {
	const section = "packets: 32, bytes: 256, sets: {told: {patterns: [/^eighteen bytes/], rate: 10Gbit}, x: {patterns: ['/\\x13BitTorrent protocol/', /user.*password/s]}}"
	for _, on := range []bool{false, true} {
		name := map[bool]string{false: "off", true: "on"}[on]
		b.Run(name+"/connection", func(b *testing.B) {
			f := newFlowBench(b, following, stateful(false))
			if on {
				f.useLabels(section)
				f.awaitForwarding()
			}
			k := f.open(talks[1].p)
			k.carried()
			k.out.ttl = 255
			f.loop(b, func(int) []byte { return k.out.toB() }, 250)
			if on && f.flows()[0].Label() != 1 {
				b.Error("the flow has no label")
			}
		})
		b.Run(name+"/no-state", func(b *testing.B) {
			f := newBench(b)
			if on {
				f.useLabels(section)
				f.awaitForwarding()
			}
			p := udpTo("5000")
			p.ttl = 255
			f.loop(b, func(int) []byte { return p.toB() }, 250)
		})
		b.Run(name+"/searched", func(b *testing.B) {
			f := newBench(b)
			if on {
				f.useLabels(section)
				f.awaitForwarding()
			}
			text := make([]byte, 256)
			for i := range text {
				text[i] = "abcdefghijklmnopqrstuvwxyz /=&"[i%30]
			}
			f.loop(b, func(n int) []byte {
				frame := speech{key: keyOf(packet.ProtoUDP, false, n), payload: text}.frame()
				frame[14+8] = 255
				setChecksum4(frame[14:34])
				return frame
			}, 30)
		})
	}
}

// loop runs the program on frames that come back to it.
func (b *bench) loop(t *testing.B, frame func(n int) []byte, times int) {
	addNeighbour(t, b.out, "198.51.100.2", macIn, unix.NUD_PERMANENT)
	for word := range 2 { // a test run without context comes in by the loopback device
		b.fast.prog.interfaces.store(2+word, b.fast.prog.interfaces.load(2*b.in.Attrs().Index+word))
	}
	eventually(t, "packets come back", func() bool {
		n, err := netlink.NeighList(b.out.Attrs().Index, unix.AF_INET)
		must(t, err)
		return slices.ContainsFunc(n, func(n netlink.Neigh) bool { return slices.Equal(n.HardwareAddr, macIn) }) &&
			string(b.run(frame(0), b.in).Packet[:6]) == string(macIn)
	})
	var runs []time.Duration
	for n := range t.N {
		_, took, err := b.fast.prog.objects.Router.Benchmark(frame(n+1), times, nil)
		must(t, err)
		runs = append(runs, took)
	}
	slices.Sort(runs)
	t.ReportMetric(float64(runs[len(runs)/2].Nanoseconds()), "ns/packet")
	t.ReportMetric(float64(runs[0].Nanoseconds()), "ns/packet-best")
	t.ReportMetric(0, "ns/op")
}
