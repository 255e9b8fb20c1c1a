// SPDX-License-Identifier: Apache-2.0

package faulty_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/lab/traffic"
	"minne/internal/testing/faulty"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// Streams of the test's lap.
const (
	stream4 = 3
	stream6 = 4
)

// bench is generator, two cables and sink; between the cables is room for a device.
type bench struct {
	out, left, right, in *net.Interface
	generator            *traffic.Generator
	sink                 *traffic.Sink
}

func newBench(t *testing.T) *bench {
	t.Helper()
	oneCPU(t)
	// No neighbour discovery of the kernel's, whose timers on other processors would
	// take frames there.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	b := &bench{}
	b.out, b.left = pair(t, "out", "left")
	b.in, b.right = pair(t, "in", "right")
	accept(t, b.out)
	var err error
	if b.generator, err = traffic.NewGenerator(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.generator.Close() })
	if b.sink, err = traffic.NewSink(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.sink.Close() })
	if err := b.sink.Attach(b.in.Index); err != nil {
		t.Fatal(err)
	}
	return b
}

// oneCPU keeps this test on one processor: the frames' way from veth to veth is
// then on that one too, and the sink sees order and silences as they were.
func oneCPU(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if before.IsSet(cpu) {
			one.Zero()
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.SchedSetaffinity(0, &before)
		runtime.UnlockOSThread()
	})
}

func pair(t *testing.T, near, far string) (a, b *net.Interface) {
	t.Helper()
	v := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: far}
	v.Name = near
	if err := netlink.LinkAdd(v); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { netlink.LinkDel(v) })
	var out []*net.Interface
	for _, name := range []string{near, far} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
		i, err := net.InterfaceByIndex(l.Attrs().Index)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, i)
	}
	return out[0], out[1]
}

func accept(t *testing.T, port *net.Interface) {
	t.Helper()
	off, err := traffic.Accepting(port.Index)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(off)
}

// with puts a device between the cables, that of IPv6 the other way round: its
// right port faces the generator.
func (b *bench) with(t *testing.T, stream uint8, f faulty.Faults) *faulty.Device {
	t.Helper()
	left, right := b.left.Index, b.right.Index
	if stream == stream6 {
		left, right = right, left
	}
	d, err := faulty.Start(left, right, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// send offers frames of a stream and returns what was sent and what came.
func (b *bench) send(t *testing.T, stream uint8, rate float64, frames uint64) (traffic.Sent, traffic.Arrived) {
	t.Helper()
	packet := traffic.Packet{
		Source: netip.MustParseAddr("192.0.2.1"), Destination: netip.MustParseAddr("198.51.100.1"),
		SourcePort: 4000, DestinationPort: 9, Protocol: 17, Stream: stream,
	}
	if stream == stream6 {
		packet.Source, packet.Destination = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:1::1")
	}
	lap := traffic.Lap{Packets: 3, Packet: func(i int) traffic.Packet {
		packet.FrameBytes = []uint16{90, 1514, 128}[i]
		return packet
	}}
	if err := b.generator.SetLap(lap); err != nil {
		t.Fatal(err)
	}
	expect := traffic.Expect{TTL: 64, MAC: b.in.HardwareAddr, MACBytes: 6, Timed: true, Filled: true}
	if err := b.sink.ExpectStreams(map[uint8]traffic.Expect{stream: expect}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	sent, err := b.generator.Run(ctx, traffic.Order{
		Routes: map[uint8]traffic.Route{stream: {Port: b.out.Index, From: b.out.HardwareAddr, To: b.in.HardwareAddr}},
		Rate:   rate, Frames: frames, Batch: 1, Timed: true, Filled: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	arrived, err := b.sink.Read()
	if err != nil {
		t.Fatal(err)
	}
	return sent, arrived[stream]
}

// figures are what the sink tells and the device knows.
type figures struct {
	Lost, Duplicated, Reordered, Corrupted, BadTTL, BadHeader, BadMAC uint64
}

func told(a traffic.Arrived, sent uint64) figures {
	return figures{a.Lost(sent), a.Duplicated, a.Reordered, a.Corrupted, a.BadTTL, a.BadHeader, a.BadMAC}
}

func done(t faulty.Truth) figures {
	return figures{t.Lost(), t.Duplicated, t.Reordered, t.Corrupted, t.BadTTL, t.BadHeader, t.BadMAC}
}

// What the device does is what the sink tells, frame by frame.
func TestPlantedFaultsAreCounted(t *testing.T) {
	b := newBench(t)
	const frames = 5000
	for _, c := range []struct {
		name   string
		faults faulty.Faults
		want   figures // in IPv4
	}{
		{"no fault", faulty.Faults{}, figures{}},
		{"loss", faulty.Faults{Drop: 97}, figures{Lost: 51}},
		{"duplicates", faulty.Faults{Duplicate: 100}, figures{Duplicated: 50}},
		// The frame that the last one overtakes is still in the device.
		{"reordering", faulty.Faults{Reorder: 10}, figures{Lost: 1, Reordered: 499}},
		{"damage", faulty.Faults{Corrupt: 1000}, figures{Corrupted: 5}},
		{"TTL", faulty.Faults{BadTTL: 1}, figures{BadTTL: 5000}},
		{"header checksum", faulty.Faults{BadHeader: 250}, figures{BadHeader: 20}},
		{"MAC", faulty.Faults{BadMAC: 5000}, figures{BadMAC: 1}},
		{"several at once", faulty.Faults{Drop: 7, Corrupt: 13, BadTTL: 17}, figures{Lost: 714, Corrupted: 330, BadTTL: 252}},
	} {
		for stream, family := range map[uint8]string{stream4: "IPv4", stream6: "IPv6"} {
			t.Run(c.name+" "+family, func(t *testing.T) {
				oneCPU(t) // a subtest is on a thread of its own
				d := b.with(t, stream, c.faults)
				defer d.Close()
				sent, arrived := b.send(t, stream, 10e3, frames)
				truth, other, err := d.Truth()
				if err != nil {
					t.Fatal(err)
				}
				if stream == stream6 {
					truth, other = other, truth
				}
				if sent.Frames != frames || truth.Arrived != frames || other.Arrived != 0 {
					t.Fatalf("sent %d, the device got %d and %d from behind: expected %d and 0", sent.Frames, truth.Arrived, other.Arrived, frames)
				}
				if got := told(arrived, frames); got != done(truth) {
					t.Errorf("the sink tells %+v, the device did %+v", got, done(truth))
				}
				want := c.want
				if family == "IPv6" {
					want.BadHeader = 0 // there is no header checksum
				}
				if done(truth) != want {
					t.Errorf("the device did %+v: expected %+v", done(truth), want)
				}
			})
		}
	}
}

// A delay is told within 5 % once the bench's own, measured without a delay, is taken off.
func TestPlantedDelays(t *testing.T) {
	b := newBench(t)
	median := func(delay time.Duration) (sink, device time.Duration) {
		d := b.with(t, stream4, faulty.Faults{Delay: delay})
		defer d.Close()
		rate := min(2000, 0.4/max(delay, time.Microsecond).Seconds())
		_, arrived := b.send(t, stream4, rate, uint64(max(20, rate/4)))
		truth, _, err := d.Truth()
		if err != nil {
			t.Fatal(err)
		}
		if arrived.Latency.Count() == 0 {
			t.Fatalf("delay %v: the sink measured none", delay)
		}
		return arrived.Latency.Quantile(0.5), truth.MeanDelay
	}
	for _, delay := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		// Other work on the machine delays, too: it can't be at each of many tries.
		const tries = 10
		for try := 1; ; try++ {
			bias, _ := median(0)
			told, stayed := median(delay)
			t.Logf("%v: told %v, of which the bench %v; frames stayed %v on average", delay, told, bias, stayed)
			if off := math.Abs(float64(told - delay - bias)); off <= 0.05*float64(delay) {
				break
			} else if try == tries {
				t.Errorf("a delay of %v is told as %v with a bias of %v", delay, told, bias)
				break
			}
		}
	}
}

// An outage is seen as lost frames and as silence.
func TestPlantedOutage(t *testing.T) {
	b := newBench(t)
	const rate, long = 10e3, 200 * time.Millisecond
	d := b.with(t, stream4, faulty.Faults{OutageAt: 1000, OutageFor: long})
	sent, arrived := b.send(t, stream4, rate, 5000)
	truth, _, err := d.Truth()
	if err != nil {
		t.Fatal(err)
	}
	if got := arrived.Lost(sent.Frames); got != truth.Dark || got == 0 {
		t.Errorf("%d frames lost, %d were dropped", got, truth.Dark)
	}
	if arrived.LongestSilence < long {
		t.Errorf("silence of %v in an outage of %v", arrived.LongestSilence, long)
	}
	t.Logf("an outage of %v: silence %v, %d frames lost (%v at the rate)", long, arrived.LongestSilence, truth.Dark,
		time.Duration(float64(truth.Dark)/rate*1e9))
}

func TestFaultsAreChecked(t *testing.T) {
	for _, f := range []faulty.Faults{{Reorder: 1}, {Reorder: 2, Drop: 3}, {Delay: time.Second}, {Delay: -1}, {OutageFor: -1}} {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			if d, err := faulty.Start(1, 1, f); err == nil {
				d.Close()
				t.Error("these faults were taken")
			}
		})
	}
}
