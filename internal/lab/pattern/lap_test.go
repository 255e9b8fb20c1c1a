// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gaissmai/bart"

	"minne/internal/lab/traffic"
)

// lap returns all packets of a pattern's lap between the benchmark networks.
func lap(t *testing.T, text string) ([]traffic.Packet, traffic.Lap) {
	t.Helper()
	l, err := parse(t, text).Lap(BenchmarkEnds())
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if l.Packets < 1 || l.Packets > traffic.MaxDestinations {
		t.Fatalf("%s: a lap of %d packets", text, l.Packets)
	}
	out := make([]traffic.Packet, l.Packets)
	for i := range out {
		out[i] = l.Packet(i)
	}
	return out, l
}

// key is what makes packets one flow.
type key struct {
	source, destination netip.Addr
	from, to            uint16
	protocol            uint8
}

func keyOf(p traffic.Packet) key {
	return key{p.Source, p.Destination, p.SourcePort, p.DestinationPort, p.Protocol}
}

func countFlows(packets []traffic.Packet) map[key]int {
	n := map[key]int{}
	for _, p := range packets {
		n[keyOf(p)]++
	}
	return n
}

func TestOneFlow(t *testing.T) {
	packets, l := lap(t, "one-flow size=128")
	if len(packets) != 1 || l.Fresh {
		t.Fatalf("%d packets, fresh %v; expected one that repeats", len(packets), l.Fresh)
	}
	p := packets[0]
	if !left4.Contains(p.Source) || !right4.Contains(p.Destination) || p.Protocol != 17 || p.FrameBytes != 124 || p.Stream != 0 || p.DestinationPort != discardPort {
		t.Errorf("packet %+v", p)
	}
}

// TestFlowsTakeTurns follows the rounds: each has every flow once.
func TestFlowsTakeTurns(t *testing.T) {
	packets, l := lap(t, "flows=1000")
	if flows := countFlows(packets); len(flows) != 1000 || l.Fresh {
		t.Fatalf("%d flows, fresh %v; expected 1000 that stay", len(flows), l.Fresh)
	}
	var orders []key
	for begin := 0; begin < len(packets); begin += 1000 {
		if n := len(countFlows(packets[begin : begin+1000])); n != 1000 {
			t.Fatalf("the round from packet %d has %d flows", begin, n)
		}
		orders = append(orders, keyOf(packets[begin]))
	}
	slices.SortFunc(orders, func(a, b key) int { return a.source.Compare(b.source) })
	if len(slices.Compact(orders)) < len(orders)/2 {
		t.Error("rounds begin with the same flows again and again")
	}
}

// TestFlowsAreReplaced counts the papers' 2048@30: 2048 at any time, and each replaced after 30 packets.
func TestFlowsAreReplaced(t *testing.T) {
	for _, text := range []string{"flows=2048@30", "flows=100@7 syn", "flows=7@100", "flows=1000@1", "flows=1@30"} {
		packets, l := lap(t, text)
		p := parse(t, text)
		if !l.Fresh || len(packets)%(p.Flows*p.FlowPackets) != 0 || len(packets) < traffic.MaxDestinations*9/10 {
			t.Fatalf("%s: %d packets, fresh %v", text, len(packets), l.Fresh)
		}
		counts := countFlows(packets)
		begun := map[key]bool{}
		for _, q := range packets[:p.Flows] {
			begun[keyOf(q)] = true
		}
		ended := map[key]bool{}
		for _, q := range packets[len(packets)-p.Flows:] {
			ended[keyOf(q)] = true
		}
		if len(begun) != p.Flows || len(ended) != p.Flows {
			t.Errorf("%s: begins with %d flows and ends with %d", text, len(begun), len(ended))
		}
		whole, cut := 0, 0
		for k, n := range counts {
			switch {
			case n == p.FlowPackets:
				whole++
			case n < p.FlowPackets && (begun[k] || ended[k]):
				cut += n
			default:
				t.Fatalf("%s: a flow of %d packets inside the lap", text, n)
			}
		}
		if lives := whole + cut/p.FlowPackets; lives*p.FlowPackets != len(packets) || cut%p.FlowPackets != 0 {
			t.Errorf("%s: %d whole flows and %d packets of cut ones in %d packets", text, whole, cut, len(packets))
		}
	}
}

// TestReplacementsAreSpread counts new flows in stretches of the lap.
func TestReplacementsAreSpread(t *testing.T) {
	packets, _ := lap(t, "flows=2048@30")
	seen := map[key]bool{}
	for _, p := range packets[:2048] {
		seen[keyOf(p)] = true
	}
	for begin := 2048; begin+20480 <= len(packets); begin += 20480 {
		born := 0
		for _, p := range packets[begin : begin+20480] {
			if k := keyOf(p); !seen[k] {
				seen[k] = true
				born++
			}
		}
		if born < 670 || born > 696 { // 20480 ÷ 30 = 682.7
			t.Fatalf("%d new flows in the 20480 packets from %d, expected about 683", born, begin)
		}
	}
}

func TestRandomDestinations(t *testing.T) {
	for _, text := range []string{"rdos", "rdos family=ipv6"} {
		packets, l := lap(t, text)
		if len(packets) != traffic.MaxDestinations || !l.Fresh {
			t.Fatalf("%s: %d packets, fresh %v", text, len(packets), l.Fresh)
		}
		to := map[netip.Addr]int{}
		for _, p := range packets {
			to[p.Destination]++
			if p.Source != packets[0].Source || p.SourcePort != packets[0].SourcePort {
				t.Fatalf("%s: the source changes", text)
			}
			if !right4.Contains(p.Destination) && !right6.Contains(p.Destination) {
				t.Fatalf("%s: destination %s", text, p.Destination)
			}
		}
		// Of 65,534 hosts all but one in a million come up in a million draws.
		if len(to) < 65_000 {
			t.Errorf("%s: only %d destinations", text, len(to))
		}
	}
}

func TestRandomTuples(t *testing.T) {
	packets, l := lap(t, "rdos=5tuple")
	if flows := countFlows(packets); len(flows) < len(packets)-2 || !l.Fresh {
		t.Errorf("%d flows in %d packets, fresh %v", len(flows), len(packets), l.Fresh)
	}
	checkPorts(t, packets)
}

// TestRandomPorts checks the ranges of RFC 4814 section 4.5 and that all of them is used.
func TestRandomPorts(t *testing.T) {
	packets, _ := lap(t, "ports=rfc4814")
	checkPorts(t, packets)
	from, to := map[uint16]bool{}, map[uint16]bool{}
	for _, p := range packets {
		from[p.SourcePort], to[p.DestinationPort] = true, true
		if p.Source != packets[0].Source || p.Destination != packets[0].Destination {
			t.Fatal("addresses change")
		}
	}
	if len(from) != 64512 || len(to) != 49151 {
		t.Errorf("%d source and %d destination ports, expected 64512 and 49151", len(from), len(to))
	}
	packets, _ = lap(t, "flows=500 ports=rfc4814")
	checkPorts(t, packets)
	if n := len(countFlows(packets)); n != 500 {
		t.Errorf("%d flows", n)
	}
}

func checkPorts(t *testing.T, packets []traffic.Packet) {
	t.Helper()
	for _, p := range packets {
		if p.SourcePort < 1024 || p.DestinationPort < 1 || p.DestinationPort > 49151 {
			t.Fatalf("ports %d → %d", p.SourcePort, p.DestinationPort)
		}
	}
}

// TestShares counts sizes and families over laps, exactly, for every stream by itself.
func TestShares(t *testing.T) {
	type share map[uint16]int // frame bytes: parts
	for _, c := range []struct {
		text  string
		ipv4  share
		ipv6  share
		parts [2]int // of the families
	}{
		{"imix", share{60: 9, 572: 5, 1496: 6}, nil, [2]int{1, 0}},
		{"imix=csit flows=100", share{60: 7, 566: 4, 1514: 1}, nil, [2]int{1, 0}},
		{"imix 2048@30", share{60: 9, 572: 5, 1496: 6}, nil, [2]int{1, 0}},
		{"imix rdos family=ipv6", nil, share{80: 9, 572: 5, 1496: 6}, [2]int{0, 1}},
		{"family=ipv4:70,ipv6:30", share{60: 1}, share{80: 1}, [2]int{7, 3}},
		{"imix family=ipv4:70,ipv6:30 bidirectional rdos", share{60: 9, 572: 5, 1496: 6}, share{80: 9, 572: 5, 1496: 6}, [2]int{7, 3}},
		{"mix=64:1,100:1 syn family=both flows=10", share{72: 1, 96: 1}, share{92: 1, 96: 1}, [2]int{1, 1}},
	} {
		packets, _ := lap(t, c.text)
		bySize := map[bool]share{false: {}, true: {}}
		total := map[bool]int{}
		streams := map[uint8]int{}
		for _, p := range packets {
			bySize[p.Source.Is6()][p.FrameBytes]++
			total[p.Source.Is6()]++
			streams[p.Stream]++
			if p.Source.Is6() != p.Destination.Is6() {
				t.Fatalf("%s: %s to %s", c.text, p.Source, p.Destination)
			}
		}
		if total[false]*c.parts[1] != total[true]*c.parts[0] {
			t.Errorf("%s: %d IPv4 and %d IPv6 packets, expected %v", c.text, total[false], total[true], c.parts)
		}
		for ipv6, want := range map[bool]share{false: c.ipv4, true: c.ipv6} {
			deck := 0
			for _, n := range want {
				deck += n
			}
			for size, n := range want {
				if got := bySize[ipv6][size]; got*deck != n*total[ipv6] {
					t.Errorf("%s: %d of %d frames have %d bytes, expected %d in %d", c.text, got, total[ipv6], size, n, deck)
				}
			}
			if len(bySize[ipv6]) != len(want) {
				t.Errorf("%s: sizes %v, expected %v", c.text, bySize[ipv6], want)
			}
		}
		for _, s := range parse(t, c.text).Streams(BenchmarkEnds()) {
			if got := streams[s.ID]; got != int(s.Share*float64(len(packets))+0.5) {
				t.Errorf("%s: stream %s has %d of %d packets, expected a share of %v", c.text, s.Name, got, len(packets), s.Share)
			}
		}
	}
}

// TestGenomeKeepsItsOrder also where the lap begins again, in every direction.
func TestGenomeKeepsItsOrder(t *testing.T) {
	want := []uint16{60, 60, 124, 1514, 572}
	for _, text := range []string{"genome=2abgA,A=576", "flows=3 genome=aabgA,A=576 bidirectional"} {
		packets, _ := lap(t, text)
		ways := 1
		if strings.Contains(text, "bidirectional") {
			ways = 2
		}
		if len(packets)%(len(want)*ways) != 0 {
			t.Fatalf("%s: a lap of %d packets cuts the genome", text, len(packets))
		}
		for i, p := range packets {
			if p.FrameBytes != want[i/ways%len(want)] {
				t.Fatalf("%s: packet %d has %d bytes", text, i, p.FrameBytes)
			}
		}
	}
}

// TestBidirectional: directions alternate, and each has its own networks and streams.
func TestBidirectional(t *testing.T) {
	packets, _ := lap(t, "flows=50 bidirectional family=both")
	for i, p := range packets {
		back := i%2 == 1
		if back != (p.Stream >= 2) || p.Source.Is6() != (p.Stream%2 == 1) {
			t.Fatalf("packet %d is of stream %d from %s", i, p.Stream, p.Source)
		}
		fromLeft := left4.Contains(p.Source) || left6.Contains(p.Source)
		toRight := right4.Contains(p.Destination) || right6.Contains(p.Destination)
		if fromLeft == back || toRight == back {
			t.Fatalf("packet %d goes from %s to %s", i, p.Source, p.Destination)
		}
	}
	if n := len(countFlows(packets)); n != 100 {
		t.Errorf("%d flows, expected 50 in each direction", n)
	}
	streams := parse(t, "bidirectional family=both size=128").Streams(BenchmarkEnds())
	names := []string{}
	for _, s := range streams {
		names = append(names, s.Name)
		if s.Share != 0.25 || s.FrameBytes != 124 {
			t.Errorf("stream %+v", s)
		}
	}
	if want := []string{"IPv4, left to right", "IPv6, left to right", "IPv4, right to left", "IPv6, right to left"}; !slices.Equal(names, want) {
		t.Errorf("streams %q", names)
	}
}

// TestFreshLaps leave the low bits of source ports to the number of the lap.
func TestFreshLaps(t *testing.T) {
	for _, text := range []string{"2048@30", "2048@30 ports=rfc4814", "rdos", "rdos=5tuple bidirectional family=both", "rdos ports=rfc4814", "flows=10"} {
		packets, l := lap(t, text)
		free := uint16(0xffff)
		for _, p := range packets {
			free &^= p.SourcePort ^ packets[0].SourcePort
			if l.Fresh && p.SourcePort < 16384 {
				t.Fatalf("%s: source port %d", text, p.SourcePort)
			}
		}
		if want := text != "rdos ports=rfc4814" && text != "flows=10"; l.Fresh != want || l.Fresh && free&0xfff != 0xfff {
			t.Errorf("%s: fresh %v, expected %v; the bits %04x of the port are free", text, l.Fresh, want, free)
		}
	}
}

func TestSYN(t *testing.T) {
	packets, _ := lap(t, "flows=100@1 syn")
	for _, p := range packets {
		if p.Protocol != 6 || p.FrameBytes != 72 {
			t.Fatalf("packet %+v", p)
		}
	}
}

// TestTables checks destinations against an independent longest-prefix match.
func TestTables(t *testing.T) {
	prefixes := []string{"10.0.0.0/8", "192.0.2.0/24", "203.0.113.128/25", "198.18.0.0/24", "198.18.0.0/14", "2001:db8::/32", "2a00::/48", "2001:2::/64"}
	file := filepath.Join(t.TempDir(), "table")
	if err := os.WriteFile(file, []byte(strings.Join(prefixes, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	var match bart.Table[int]
	for i, p := range prefixes {
		match.Insert(netip.MustParsePrefix(p), i)
	}
	for _, draw := range []string{"in-table", "per-prefix", "uniform"} {
		for _, shape := range []string{"rdos", "flows=5000", "rdos=5tuple", "one-flow"} {
			text := shape + " family=both bidirectional draw=" + draw + " table=" + file
			packets, _ := lap(t, text)
			hits := make([]int, len(prefixes))
			for _, p := range packets {
				if p.Stream >= 2 { // back: to the networks behind the first port
					if !left4.Contains(p.Destination) && !left6.Contains(p.Destination) {
						t.Fatalf("%s: back to %s", text, p.Destination)
					}
					continue
				}
				if left4.Contains(p.Destination) || left6.Contains(p.Destination) {
					t.Fatalf("%s: %s is behind the sending port", text, p.Destination)
				}
				i, ok := match.Lookup(p.Destination)
				if ok {
					hits[i]++
				} else if draw != "uniform" {
					t.Fatalf("%s: %s is not in the table", text, p.Destination)
				}
			}
			if shape != "rdos" || draw == "uniform" {
				continue
			}
			v4, v6 := hits[0]+hits[1]+hits[2]+hits[4], hits[5]+hits[6]
			if v4 != v6 || hits[3]+hits[7] != 0 {
				t.Errorf("%s: hits %v", text, hits)
			}
			small := float64(hits[1]) / float64(v4) // 256 of 17 million addresses; or one prefix in four, of which one is sometimes passed over
			if draw == "in-table" && small > 0.0001 || draw == "per-prefix" && (small < 0.25 || small > 0.28) {
				t.Errorf("%s: a share of %v for a /24", text, small)
			}
		}
	}
	if _, err := parse(t, "rdos family=ipv6 table="+onlyIPv4(t)).Lap(BenchmarkEnds()); err == nil || !strings.Contains(err.Error(), "no IPv6 prefix") {
		t.Errorf("error %v, expected that the table has no IPv6 prefix", err)
	}
	if _, err := parse(t, "table=/nonexistent").Lap(BenchmarkEnds()); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("error %v, expected it to name the file", err)
	}
}

func onlyIPv4(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "ipv4")
	if err := os.WriteFile(file, []byte("192.0.2.0/24\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestFullTable: a million random destinations of the Internet's table, all of them in it.
func TestFullTable(t *testing.T) {
	p := parse(t, "rdos table=full family=both")
	table, err := p.Prefixes()
	if err != nil {
		t.Fatal(err)
	}
	var match bart.Lite
	for _, prefix := range table.Prefixes() {
		match.Insert(prefix)
	}
	packets, _ := lap(t, p.String())
	for _, packet := range packets {
		if !match.Contains(packet.Destination) {
			t.Fatalf("%s is not in the table", packet.Destination)
		}
	}
}

func TestSeeds(t *testing.T) {
	for _, text := range []string{"flows=300@5 imix family=both bidirectional", "rdos", "rdos=5tuple draw=uniform", "ports=rfc4814"} {
		a, _ := lap(t, text)
		b, _ := lap(t, text)
		c, _ := lap(t, text+" seed=2")
		if !slices.Equal(a, b) {
			t.Errorf("%s: two laps differ", text)
		}
		if slices.Equal(a, c) {
			t.Errorf("%s: another seed makes the same lap", text)
		}
		// Sizes change nothing else.
		d, _ := lap(t, strings.ReplaceAll(text, "imix", "size=100"))
		if len(a) == len(d) && slices.EqualFunc(a, d, func(x, y traffic.Packet) bool { return keyOf(x) == keyOf(y) }) != true {
			t.Errorf("%s: other sizes make other flows", text)
		}
	}
}

func TestLapErrors(t *testing.T) {
	narrow := BenchmarkEnds()
	narrow.Forward.IPv4.Sources = netip.MustParsePrefix("198.18.0.1/32")
	narrow.Forward.IPv4.Destinations = []netip.Prefix{netip.MustParsePrefix("198.19.0.1/32")}
	narrow.Forward.IPv6 = Networks{}
	martian := BenchmarkEnds()
	martian.Forward.IPv4.Destinations = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, c := range []struct {
		text string
		ends Ends
		want string
	}{
		{"flows=100000", narrow, "all addresses and ports are used up"},
		{"family=ipv6", narrow, `stream "IPv6, left to right" needs IPv6 source addresses`},
		{"rdos", martian, "127.0.0.0/8 is no network of IPv4 hosts"},
		{"pcap=x", BenchmarkEnds(), "replayed"},
	} {
		if _, err := parse(t, c.text).Lap(c.ends); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q in it", c.text, err, c.want)
		}
	}
	narrow.Forward.IPv4.Destinations = nil
	if _, err := parse(t, "rdos").Lap(narrow); err == nil || !strings.Contains(err.Error(), "needs IPv4 destinations") {
		t.Errorf("error %v, expected that destinations are missing", err)
	}
	if _, err := parse(t, "rdos draw=uniform").Lap(narrow); err != nil {
		t.Errorf("uniform destinations need no networks: %v", err)
	}
}
