// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"minne/internal/lab/histogram"
	"minne/internal/model/packet"
)

// crafted is a frame of the lab made without this package's builders.
func crafted(p Packet, ttl uint8, sequence uint64, sent time.Duration) []byte {
	header := map[uint8]int{packet.ProtoUDP: 8, packet.ProtoTCP: 20}[p.Protocol]
	network := map[bool]int{true: 40, false: 20}[p.Source.Is6()]
	payload := make([]byte, int(p.FrameBytes)-14-network-header)
	for i := range payload {
		payload[i] = byte(i * 37)
	}
	PutStamp(payload, p.Stream, sequence, sent)
	var upper []byte
	if p.Protocol == packet.ProtoTCP {
		upper = packet.TCP{SrcPort: p.SourcePort, DstPort: p.DestinationPort, Flags: packet.SYN}.Append(nil, p.Source, p.Destination, payload)
	} else {
		upper = packet.UDP{SrcPort: p.SourcePort, DstPort: p.DestinationPort}.Append(nil, p.Source, p.Destination, payload)
	}
	eth := packet.Ethernet{Dst: packet.MAC{2, 0, 0, 0, 0, 1}, Src: packet.MAC{2, 0, 0, 0, 0, 2}}
	if p.Source.Is6() {
		eth.Type = packet.TypeIPv6
		return eth.Append(nil, packet.IPv6{NextHeader: p.Protocol, HopLimit: ttl, Src: p.Source, Dst: p.Destination}.Append(nil, upper))
	}
	eth.Type = packet.TypeIPv4
	return eth.Append(nil, packet.IPv4{TTL: ttl, Protocol: p.Protocol, Src: p.Source, Dst: p.Destination}.Append(nil, upper))
}

// feed runs the sink's program on a frame and returns its verdict.
func feed(t testing.TB, s *Sink, frame []byte) uint32 {
	t.Helper()
	verdict, err := s.objs.Sink.Run(&ebpf.RunOptions{Data: frame, DataOut: make([]byte, 2048)})
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

const (
	xdpDrop = 1
	xdpPass = 2
)

// pinned keeps the test on one CPU, so that one CPU's counters see everything.
func pinned(t testing.TB) {
	t.Helper()
	t.Cleanup(onOneCPU(t))
}

func TestSinkSeesWhatIsWrongWithAFrame(t *testing.T) {
	pinned(t)
	s := newSink(t)
	all := []Packet{udp4, tcp4, udp6, tcp6}
	for _, bytes := range []uint16{0, 125, 511, 1514} {
		for i, p := range all[:4] {
			if bytes > 0 {
				p.FrameBytes = bytes
				all = append(all, p)
			} else {
				all[i].Stream = 7
			}
		}
	}
	for _, p := range all {
		p.Stream = 7
		expect := Expect{TTL: 63, FrameBytes: int(p.FrameBytes), MAC: []byte{2, 0, 0, 0, 0, 1}, MACBytes: 6, Filled: true}
		v4, start := p.Source.Is4(), 54
		if v4 {
			start = 34
		}
		udp := p.Protocol == packet.ProtoUDP
		for _, c := range []struct {
			name   string
			damage func(f []byte) []byte
			want   Arrived
			skip   bool // there is no such thing in this kind of packet
		}{
			{"nothing", func(f []byte) []byte { return f }, Arrived{}, false},
			{"TTL", func(f []byte) []byte { return crafted(p, 64, 0, 0) }, Arrived{BadTTL: 1}, false},
			{"destination MAC", func(f []byte) []byte { f[5] ^= 1; return f }, Arrived{BadMAC: 1}, false},
			{"IPv4 checksum", func(f []byte) []byte { f[24] ^= 0x10; return f }, Arrived{BadHeader: 1}, !v4},
			{"version", func(f []byte) []byte { f[14] ^= 0x20; return f }, Arrived{BadHeader: 1}, false},
			{"IP length", func(f []byte) []byte {
				if v4 {
					f[17]--
					binary.BigEndian.PutUint16(f[24:], 0)
					binary.BigEndian.PutUint16(f[24:], packet.Checksum(f[14:34]))
				} else {
					f[19]--
				}
				return f
			}, Arrived{BadHeader: 1}, false},
			{"UDP length", func(f []byte) []byte { f[start+5] ^= 1; return f }, Arrived{BadHeader: 1}, !udp},
			{"no UDP checksum", func(f []byte) []byte { f[start+6], f[start+7] = 0, 0; return f }, Arrived{Corrupted: 1}, !udp},
			{"an address", func(f []byte) []byte {
				if v4 {
					f[33] ^= 4
					binary.BigEndian.PutUint16(f[24:], 0)
					binary.BigEndian.PutUint16(f[24:], packet.Checksum(f[14:34]))
				} else {
					f[53] ^= 4
				}
				return f
			}, Arrived{Corrupted: 1}, false},
			{"bytes added", func(f []byte) []byte { return append(f, 0) }, Arrived{BadHeader: 1, BadLength: 1}, len(crafted(p, 63, 0, 0)) == 1514},
			{"bytes cut off", func(f []byte) []byte { return f[:len(f)-1] }, Arrived{BadHeader: 1, BadLength: 1}, int(p.FrameBytes) == LeastFrame(!v4, p.Protocol)},
		} {
			if c.skip {
				continue
			}
			if err := s.ExpectStreams(map[uint8]Expect{7: expect}); err != nil {
				t.Fatal(err)
			}
			if verdict := feed(t, s, c.damage(crafted(p, 63, 0, 0))); verdict != xdpDrop {
				t.Fatalf("%s, %d bytes, %s: verdict %d", p.words(), p.FrameBytes, c.name, verdict)
			}
			got, err := s.Arrived(7)
			if err != nil {
				t.Fatal(err)
			}
			c.want.Received, c.want.Bytes = 1, got.Bytes
			if got != c.want {
				t.Errorf("%s, %d bytes, %s: %s; received %d", p.words(), p.FrameBytes, c.name, got.Wrong(), got.Received)
			}
		}
	}
}

func TestSinkSeesEveryChangedByteOfThePayload(t *testing.T) {
	pinned(t)
	s := newSink(t)
	random := rand.New(rand.NewPCG(5, 6))
	for _, p := range []Packet{udp4, tcp4, udp6, tcp6} {
		for _, bytes := range []uint16{1514, 1001, 100} {
			p.FrameBytes = bytes
			if err := s.ExpectStreams(map[uint8]Expect{0: {TTL: 63, Filled: true}}); err != nil {
				t.Fatal(err)
			}
			good := crafted(p, 63, 0, 0)
			head := LeastFrame(p.Source.Is6(), p.Protocol) - StampBytes
			wrong := uint64(0)
			for at := head + 1; at < len(good); at++ { // the first byte is the stream's id
				if at >= head+16 && at < head+18 {
					continue // without its mark the frame is not the lab's
				}
				f := slices.Clone(good)
				f[at] ^= byte(1 + random.IntN(255))
				feed(t, s, f)
				wrong++
			}
			a, err := s.Arrived(0)
			if err != nil {
				t.Fatal(err)
			}
			if a.Corrupted != wrong {
				t.Errorf("%s, %d bytes: %d of %d changes seen", p.words(), bytes, a.Corrupted, wrong)
			}
		}
	}
}

func TestSinkLeavesOtherFramesAlone(t *testing.T) {
	pinned(t)
	s := newSink(t)
	if err := s.ExpectStreams(map[uint8]Expect{1: {TTL: 63}}); err != nil {
		t.Fatal(err)
	}
	expected := udp4
	expected.Stream = 1
	unexpected := udp4
	unexpected.Stream = 2
	markless := crafted(expected, 63, 0, 0)
	markless[58] ^= 1
	router := netip.MustParseAddr("fe80::1")
	solicitation := packet.IPv6{NextHeader: packet.ProtoICMPv6, HopLimit: 255, Src: router, Dst: router}.Append(nil, append([]byte{135}, make([]byte, 23)...))
	echo := packet.IPv6{NextHeader: packet.ProtoICMPv6, HopLimit: 255, Src: router, Dst: router}.Append(nil, append([]byte{128}, make([]byte, 23)...))
	inside := func(typ uint16, b []byte) []byte { return packet.Ethernet{Type: typ}.Append(nil, b) }
	for _, all := range []bool{false, true} {
		if err := s.TakeAll(all); err != nil {
			t.Fatal(err)
		}
		dropped := uint32(xdpPass)
		if all {
			dropped = xdpDrop
		}
		for _, c := range []struct {
			name  string
			frame []byte
			want  uint32
		}{
			{"an expected stream", crafted(expected, 63, 0, 0), xdpDrop},
			{"another stream", crafted(unexpected, 63, 0, 0), dropped},
			{"no mark", markless, dropped},
			{"short UDP", crafted(udp4, 63, 0, 0)[:59], dropped},
			{"ICMP", inside(packet.TypeIPv4, packet.IPv4{Protocol: packet.ProtoICMP, Src: udp4.Source, Dst: udp4.Source}.Append(nil, make([]byte, 40))), dropped},
			{"IPv4 options", inside(packet.TypeIPv4, packet.IPv4{Protocol: packet.ProtoUDP, Options: make([]byte, 4), Src: udp4.Source, Dst: udp4.Source}.Append(nil, make([]byte, 40))), dropped},
			{"echo request", inside(packet.TypeIPv6, echo), dropped},
			{"neighbour solicitation", inside(packet.TypeIPv6, solicitation), xdpPass},
			{"ARP", inside(packet.TypeARP, make([]byte, 46)), xdpPass},
			{"OSPF hello", inside(packet.TypeIPv4, packet.IPv4{Protocol: 89, Src: udp4.Source, Dst: netip.MustParseAddr("224.0.0.5")}.Append(nil, make([]byte, 40))), dropped},
			{"listener report", inside(packet.TypeIPv6, packet.IPv6{NextHeader: 0, Src: udp6.Source, Dst: netip.MustParseAddr("ff02::16")}.Append(nil, make([]byte, 40))), dropped},
			{"nothing but a header", inside(packet.TypeIPv4, nil), dropped},
		} {
			if got := feed(t, s, c.frame); got != c.want {
				t.Errorf("take all %v, %s: verdict %d, expected %d", all, c.name, got, c.want)
			}
		}
	}
	others, err := s.Others()
	if err != nil {
		t.Fatal(err)
	}
	if got := others[1].Frames; got != 14 || len(others) != 1 { // a test run comes from lo
		t.Errorf("others %+v, expected 14 of lo: all but those that stations of a link say to each other", others)
	}
	if a, err := s.Arrived(1); err != nil || a.Received != 1 || a.Duplicated != 1 {
		t.Errorf("%d received, %d duplicated (%v)", a.Received, a.Duplicated, err)
	}
}

func TestSinkFilesSequenceNumbers(t *testing.T) {
	s := newSink(t)
	random := rand.New(rand.NewPCG(7, 8))
	shuffled := make([]uint64, 3000)
	for i := range shuffled {
		shuffled[i] = uint64(i)
	}
	for i := range shuffled { // no further than 200 places
		j := min(i+random.IntN(200), len(shuffled)-1)
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	}
	for _, c := range []struct {
		name    string
		numbers []uint64
	}{
		{"in order", []uint64{0, 1, 2, 3, 4}},
		{"lost ones", []uint64{3, 64, 65, 129, 20_000}},
		{"one late", []uint64{0, 2, 1, 3}},
		{"late and repeated", []uint64{0, 2, 1, 1, 2, 3, 0}},
		{"repeated at once", []uint64{0, 0, 1, 1, 1, 63, 64, 63, 64}},
		{"repeated at the end of the window", []uint64{0, 5, 8000, 5, 0, 8100, 6}},
		{"after a jump over the window", []uint64{1, 2, 3, 40_000, 40_001, 40_000, 39_999, 39_999}},
		{"shuffled", shuffled},
		{"shuffled twice", slices.Concat(shuffled, shuffled)},
		{"backwards", []uint64{200, 199, 198, 130, 128, 127, 64, 63, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pinned(t)
			if err := s.ExpectStreams(map[uint8]Expect{0: {TTL: 63}}); err != nil {
				t.Fatal(err)
			}
			var want Arrived
			seen, highest := map[uint64]bool{}, uint64(0)
			for i, n := range c.numbers {
				switch {
				case seen[n]:
					want.Duplicated++
				case i > 0 && n < highest:
					want.Reordered++
					fallthrough
				default:
					want.Received++
				}
				seen[n], highest = true, max(highest, n)
				feed(t, s, crafted(udp4, 63, n, 0))
			}
			got, err := s.Arrived(0)
			if err != nil {
				t.Fatal(err)
			}
			if got.Received != want.Received || got.Duplicated != want.Duplicated || got.Reordered != want.Reordered {
				t.Errorf("received %d, duplicated %d, reordered %d, expected %d %d %d",
					got.Received, got.Duplicated, got.Reordered, want.Received, want.Duplicated, want.Reordered)
			}
		})
	}
}

func TestSinkMeasuresFromTheStamp(t *testing.T) {
	pinned(t)
	s := newSink(t)
	streams := map[uint8]Expect{}
	for i := range uint8(40) { // more than a new sink has room for
		streams[i] = Expect{TTL: 63, Timed: i%2 == 0}
	}
	if err := s.ExpectStreams(streams); err != nil {
		t.Fatal(err)
	}
	now := func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			t.Fatal(err)
		}
		return time.Duration(ts.Nano())
	}
	const ago = 20 * time.Second // nothing takes so long by itself
	for i := range streams {
		p := udp6
		p.Stream = i
		feed(t, s, crafted(p, 63, 0, now()-ago))
		feed(t, s, crafted(p, 63, 1, now()+time.Hour)) // a clock that is ahead counts as no delay
	}
	arrived, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range streams {
		a := arrived[i]
		switch {
		case a.Received != 2:
			t.Errorf("stream %d: %d received", i, a.Received)
		case !e.Timed && a.Latency.Count() != 0:
			t.Errorf("stream %d is not timed and has %d latencies", i, a.Latency.Count())
		case e.Timed && (a.Latency.Count() != 2 || a.Latency.Max() < ago*99/100 || a.Latency.Min() != 0 || a.LongestSilence <= 0):
			t.Errorf("stream %d: %d latencies, from %v to %v, silence %v", i, a.Latency.Count(), a.Latency.Min(), a.Latency.Max(), a.LongestSilence)
		}
	}
	if err := s.ExpectStreams(streams); err != nil {
		t.Fatal(err)
	}
	if arrived, err = s.Read(); err != nil || arrived[0] != (Arrived{}) {
		t.Errorf("not forgotten: %d received (%v)", arrived[0].Received, err)
	}
}

func TestBucketsAreThoseOfTheHistogram(t *testing.T) {
	var objs struct {
		AskBucket *ebpf.Program `ebpf:"ask_bucket"`
	}
	if err := loadWith(&objs, nil, "", func(*ebpf.CollectionSpec) error { return nil }); err != nil {
		t.Fatal(err)
	}
	defer objs.AskBucket.Close()
	values := []uint64{0, 1, 127, 128, 129, 1<<64 - 1}
	for power := 7; power < 64; power++ {
		values = append(values, 1<<power-1, 1<<power, 1<<power+1, 1<<power+1<<(power-6), 1<<power+1<<(power-6)-1)
	}
	random := rand.New(rand.NewPCG(9, 10))
	for range 20_000 {
		values = append(values, random.Uint64()>>random.IntN(64))
	}
	for _, ns := range values {
		type question struct{ NS, Bucket uint64 }
		q := question{NS: ns}
		if _, err := objs.AskBucket.Run(&ebpf.RunOptions{Context: &q, ContextOut: &q}); err != nil {
			t.Fatal(err)
		}
		if want := histogram.Bucket(ns); q.Bucket != uint64(want) {
			t.Fatalf("%d ns: bucket %d, the histogram says %d", ns, q.Bucket, want)
		}
	}
}

func TestAPortWithAnotherProgramIsLeftAlone(t *testing.T) {
	wire := plug(t)
	var objs struct {
		Pass *ebpf.Program `ebpf:"pass"`
	}
	if err := loadWith(&objs, nil, "", func(*ebpf.CollectionSpec) error { return nil }); err != nil {
		t.Fatal(err)
	}
	defer objs.Pass.Close()
	other, err := link.AttachXDP(link.XDPOptions{Program: objs.Pass, Interface: wire.right.index})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	info, err := objs.Pass.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	s := newSink(t)
	want := fmt.Sprintf("port %s already has XDP program %d", wire.right.name, id)
	if err := s.Attach(wire.right.index); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected %q", err, want)
	}
	if s.Receive(wire.right.index) != "" {
		t.Error("the sink says that it is on the port")
	}
	if err := s.Attach(wire.left.index); err != nil || s.Receive(wire.left.index) != native {
		t.Errorf("free port: %v, %q", err, s.Receive(wire.left.index))
	}
}

func TestADriverWithoutXDPIsMadeUpFor(t *testing.T) {
	const loopback = 1
	s := newSink(t)
	if err := s.Attach(loopback); err != nil {
		t.Fatal(err)
	}
	if s.Receive(loopback) != generic {
		t.Errorf("lo receives by %q", s.Receive(loopback))
	}
	if err := s.ExpectStreams(map[uint8]Expect{0: {}, 1: {}}); err != nil {
		t.Error(err)
	}
}

// The longest silence is that of the stream: a frame that strayed to another CPU does not hide it.
func TestSilenceIsOfAllCPUs(t *testing.T) {
	s := newSink(t)
	if err := s.ExpectStreams(map[uint8]Expect{0: {TTL: 63, Timed: true}}); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &all) //nolint:errcheck // it was so before
	begun, number, silence := time.Now(), uint64(0), 15*time.Millisecond
	for cpu := range 1024 { // a frame to each CPU, and two more to the last
		if !all.IsSet(cpu) {
			continue
		}
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		feed(t, s, crafted(udp4, 63, number, 0))
		number++
	}
	time.Sleep(silence)
	feed(t, s, crafted(udp4, 63, number, 0))
	feed(t, s, crafted(udp4, 63, number+1, 0))
	a, err := s.Arrived(0)
	if err != nil {
		t.Fatal(err)
	}
	if a.LongestSilence < silence || a.LongestSilence > time.Since(begun) {
		t.Errorf("the longest silence is %v, expected at least %v", a.LongestSilence, silence)
	}
}
