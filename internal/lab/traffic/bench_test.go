// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// rig is a generator with a lap of many packets of one length, and a sink that takes them.
func rig(b *testing.B, kind Packet, bytes int, checked, timed bool) (*Generator, *Sink, Order) {
	wire := plug(b)
	sink := newSink(b, wire.right)
	if err := sink.ExpectStreams(map[uint8]Expect{0: {TTL: 64, FrameBytes: bytes, Filled: checked, Timed: timed}}); err != nil {
		b.Fatal(err)
	}
	g := newGenerator(b, Lap{Packets: 2048, Packet: func(i int) Packet {
		p := kind
		p.SourcePort, p.FrameBytes = uint16(40_000+i), uint16(bytes)
		return p
	}})
	return g, sink, Order{Routes: map[uint8]Route{0: wire.left.to(wire.right)}, Filled: checked, Timed: timed}
}

// BenchmarkSend prints what generator, veth and sink cost together on one core, as fast as it goes.
func BenchmarkSend(b *testing.B) {
	for _, kind := range []struct {
		name string
		Packet
	}{{"IPv4", udp4}, {"IPv6", udp6}} {
		for _, bytes := range []int{60, 508, 1514} {
			bytes = max(bytes, LeastFrame(kind.Source.Is6(), kind.Protocol))
			for _, o := range []struct {
				name           string
				checked, timed bool
			}{{"lean", false, false}, {"checked", true, false}, {"checked+timed", true, true}} {
				b.Run(fmt.Sprintf("%s/%d/%s", kind.name, bytes+4, o.name), func(b *testing.B) {
					g, _, order := rig(b, kind.Packet, bytes, o.checked, o.timed)
					order.Duration, order.Gap = 100*time.Millisecond, 100*time.Microsecond
					best := math.Inf(1)
					for b.Loop() {
						best = min(best, run(b, g, order).PerFrame())
					}
					b.ReportMetric(best, "ns/frame")
					b.ReportMetric(1e3/best, "Mpps")
				})
			}
		}
	}
}

// BenchmarkPace prints how far the rate of paced trials is from the one ordered, in percent:
// of the trial that the machine interrupted least and of the one it interrupted most.
func BenchmarkPace(b *testing.B) {
	for _, rate := range []float64{1e3, 1e4, 1e5, 333_333, 5e5, 1e6, 2e6, 4e6} {
		b.Run(fmt.Sprintf("%.0f", rate), func(b *testing.B) {
			g, _, order := rig(b, udp4, 60, false, false)
			order.Rate, order.Duration, order.Gap, order.Burst = rate, 200*time.Millisecond, 50*time.Microsecond, time.Millisecond
			least, most, clean, gone := math.Inf(1), 0.0, time.Hour, time.Duration(0)
			for b.Loop() {
				sent := run(b, g, order)
				off := 100 * math.Abs(float64(sent.Frames-1)/sent.Elapsed.Seconds()/rate-1)
				if sent.GapTime <= clean {
					least, clean = min(least, off), sent.GapTime
				}
				most, gone = max(most, off), max(gone, sent.GapTime)
			}
			b.ReportMetric(least, "%error-least")
			b.ReportMetric(clean.Seconds()*1e3, "ms-gaps-least")
			b.ReportMetric(most, "%error-most")
			b.ReportMetric(gone.Seconds()*1e3, "ms-gaps-most")
		})
	}
}
