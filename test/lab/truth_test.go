// SPDX-License-Identifier: Apache-2.0

// Package lab holds the lab's own figures against witnesses that know nothing of
// it: what the generator sends against tcpdump and the kernel's counters, what
// the sink tells against a device that fails by known amounts, and the minne
// command against everything that can be wrong with what it is given.
package lab

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/openloop"
	"minne/internal/lab/pattern"
	"minne/internal/lab/trial"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

const (
	// frames of a trial: whole decks of every mix of sizes and of families below.
	frames = 2880
	rate   = 10_000.0
	tries  = 8 // of a trial that lost a frame because the machine was busy elsewhere
)

// Networks that the rig's hosts are in (device.InHosts, device.OutHosts), written down once more.
var behind = [2][2]netip.Prefix{
	{netip.MustParsePrefix("198.18.128.0/17"), netip.MustParsePrefix("198.19.128.0/17")},
	{netip.MustParsePrefix("2001:2:0:4000::/50"), netip.MustParsePrefix("2001:2:0:c000::/50")},
}

// A small table with prefixes of both families that don't overlap.
var table = []netip.Prefix{
	netip.MustParsePrefix("11.0.0.0/8"), netip.MustParsePrefix("12.34.0.0/16"), netip.MustParsePrefix("13.1.2.0/24"), netip.MustParsePrefix("14.1.2.64/27"),
	netip.MustParsePrefix("2400:1::/32"), netip.MustParsePrefix("2a00:2:3::/48"), netip.MustParsePrefix("2600:4::/40"),
}

var internet = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// What every pattern of the grammar is, seen by the sink, the kernel and tcpdump alike.
func TestThreeWitnessesAgree(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table")
	text := "# a table\n"
	for _, p := range table {
		text += p.String() + " via somewhere\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	all := func(size int) map[int]int { return map[int]int{size: frames} }
	groups := []struct {
		device string
		table  []netip.Prefix
		cases  map[string]want
	}{
		{"kernel", nil, map[string]want{
			"one-flow":                       {sizes: all(60), flows: 1},
			"one-flow size=1518":             {sizes: all(1514), flows: 1},
			"one-flow family=ipv6":           {sizes: all(80), flows: 1, ipv6: frames},
			"flows=100 size=128":             {sizes: all(124), flows: 100},
			"flows=16@30 size=65":            {sizes: all(61), alive: 16, life: 30},
			"2048@30":                        {sizes: all(60), alive: 2048, life: 30},
			"rdos":                           {sizes: all(60), fresh: newDestinations},
			"rdos family=ipv6 ports=rfc4814": {sizes: all(80), ipv6: frames, fresh: newDestinations},
			"rdos=5tuple":                    {sizes: all(60), fresh: newTuples},
			"rdos=5tuple family=ipv6 syn":    {sizes: all(92), ipv6: frames, tcp: true, fresh: newTuples},
			"ports=rfc4814":                  {sizes: all(60), fresh: newPorts},
			"flows=64 ports=rfc4814":         {sizes: all(60), flows: 64, fresh: portsOfRFC4814},
			"syn":                            {sizes: all(72), flows: 1, tcp: true},
			"syn flows=20@5 size=256":        {sizes: all(252), alive: 20, life: 5, tcp: true},
			"bidirectional":                  {sizes: all(60), flows: 2, back: frames / 2},
			"bidirectional flows=30 size=imix": {
				sizes: map[int]int{60: frames * 45 / 100, 572: frames * 25 / 100, 1496: frames * 30 / 100}, flows: 60, back: frames / 2},
			"size=imix":                       {sizes: map[int]int{60: frames * 45 / 100, 572: frames * 25 / 100, 1496: frames * 30 / 100}, flows: 1},
			"size=imix-csit":                  {sizes: map[int]int{60: frames * 28 / 48, 566: frames * 16 / 48, 1514: frames * 4 / 48}, flows: 1},
			"size=64:1,1000:2":                {sizes: map[int]int{60: frames / 3, 996: frames * 2 / 3}, flows: 1},
			"size=genome:aadgA,A=99":          {sizes: map[int]int{60: frames * 2 / 5, 508: frames / 5, 1514: frames / 5, 95: frames / 5}, order: []int{60, 60, 508, 1514, 95}, flows: 1},
			"family=ipv4:70,ipv6:30 size=128": {sizes: all(124), ipv6: frames * 3 / 10, flows: 2},
			"family=ipv4:50,ipv6:50 flows=40": {sizes: map[int]int{60: frames / 2, 80: frames / 2}, ipv6: frames / 2, flows: 40},
			"flows=50@7 syn bidirectional family=ipv4:50,ipv6:50 size=imix seed=7": {
				sizes: map[int]int{72: frames / 2 * 45 / 100, 92: frames / 2 * 45 / 100, 572: frames * 25 / 100, 1496: frames * 30 / 100},
				ipv6:  frames / 2, back: frames / 2, tcp: true, alive: 100, life: 7},
		}},
		{"kernel", append(append([]netip.Prefix{}, table...), internet...), map[string]want{
			"rdos table=" + file:                                    {sizes: all(60), table: table, fresh: newDestinations},
			"rdos draw=per-prefix family=ipv6 table=" + file:        {sizes: all(80), ipv6: frames, table: table, every: true, fresh: newDestinations},
			"flows=100 draw=per-prefix table=" + file:               {sizes: all(60), table: table, flows: 100},
			"rdos draw=uniform family=ipv4:50,ipv6:50 size=200":     {sizes: all(196), ipv6: frames / 2, anyway: true, fresh: newTargets},
			"flows=10@100 table=" + file + " bidirectional size=90": {sizes: all(86), table: table, back: frames / 2, alive: 20, life: 100},
		}},
		{"bridge", nil, map[string]want{
			"bidirectional flows=8 family=ipv4:50,ipv6:50": {sizes: map[int]int{60: frames / 2, 80: frames / 2}, ipv6: frames / 2, back: frames / 2, flows: 16},
		}},
	}
	for _, g := range groups {
		b := newBench(t, g.device, g.table)
		for text, w := range g.cases {
			t.Run(g.device+" "+text, func(t *testing.T) { b.check(t, text, w) })
		}
		b.close(t)
	}
}

// bench is a rig with a device in it.
type bench struct {
	rig  *openloop.Rig
	node *lab.Running
}

func newBench(t *testing.T, name string, routes []netip.Prefix) *bench {
	t.Helper()
	d, err := device.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := openloop.Start(t.Context(), openloop.Setup{Device: d, Traffic: parse(t, "one-flow"), Table: routes, Means: device.Means{Load: kernel.BulkRoutes}})
	if err != nil {
		t.Fatal(err)
	}
	r.Timed(true)
	b := &bench{rig: r, node: r.Device().Node()}
	t.Cleanup(func() { b.close(t) })
	if d.Kind == device.Bridge { // it needs no addresses of its own, and no talk about them
		if _, err := b.node.Run(t.Context(), "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) close(t *testing.T) {
	if err := b.rig.Close(); err != nil {
		t.Error(err)
	}
}

func parse(t *testing.T, text string) pattern.Pattern {
	t.Helper()
	p, err := pattern.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// seen is one trial in the words of all witnesses. Arrays are by side.
type seen struct {
	result   trial.Result
	captured [2][]frame  // at the device's ports, in both directions
	files    [2]string   // … where tcpdump put them
	toDevice [2]counters // of the kernel: what the device's ports got
	toTester [2]counters // … and the tester's
}

// trial makes a trial under observation. A frame that the busy machine lost, or one that
// the device's kernel sent of its own (it reports its multicast groups once it is up), is no matter
// of this test: then the trial is made once more.
func (b *bench) trial(t *testing.T, load trial.Load) (s seen) {
	t.Helper()
	for range tries {
		s = b.observed(t, load)
		others := len(s.captured[0]) + len(s.captured[1]) - len(ofTheLab(s.captured[0])) - len(ofTheLab(s.captured[1]))
		if s.result.Lost() == 0 && others == 0 {
			return s
		}
		t.Logf("%d of %d frames were lost and %d of others seen, once more", s.result.Lost(), s.result.Intended, others)
	}
	t.Fatalf("the machine is too busy: no trial of %d without loss", tries)
	return s
}

// devicePorts and testerPorts are the ends of the rig's two cables.
var devicePorts, testerPorts = [2]string{"in", "out"}, [2]string{"left", "right"}

func (b *bench) observed(t *testing.T, load trial.Load) (s seen) {
	t.Helper()
	watches := [2]*capture{watch(t, b.node, devicePorts[0]), watch(t, b.node, devicePorts[1])}
	device, tester := count(t, b.node.Namespace), count(t, testerOf(b.node))
	var err error
	if s.result, err = b.rig.Attempt(t.Context(), load); err != nil {
		t.Fatal(err)
	}
	deviceNow, testerNow := count(t, b.node.Namespace), count(t, testerOf(b.node))
	for i := range devicePorts {
		s.toDevice[i] = deviceNow[devicePorts[i]].since(device[devicePorts[i]])
		s.toTester[i] = testerNow[testerPorts[i]].since(tester[testerPorts[i]])
		s.files[i], s.captured[i] = watches[i].file, watches[i].end(t, int(s.result.Sent))
	}
	return s
}

// check sends a pattern and holds the witnesses against each other and against what was asked for.
func (b *bench) check(t *testing.T, text string, w want) {
	if err := b.rig.Load(parse(t, text)); err != nil {
		t.Fatal(err)
	}
	s := b.trial(t, trial.Load{Rate: rate, Frames: frames})
	r := s.result
	if r.Sent != frames || r.Received != frames || r.Duplicated+r.Reordered+r.Corrupted+r.BadTTL+r.BadHeader+r.BadMAC != 0 {
		t.Fatalf("sent %d, received %d, twice %d, out of order %d, corrupted %d, TTL %d, header %d, MAC %d: expected %d and nothing else",
			r.Sent, r.Received, r.Duplicated, r.Reordered, r.Corrupted, r.BadTTL, r.BadHeader, r.BadMAC, frames)
	}
	if r.Latency.Count() != frames {
		t.Errorf("%d latencies", r.Latency.Count())
	}
	sent, forwarded := b.split(t, s)
	b.agree(t, s, sent, forwarded)
	for i := range s.files {
		if j := judge(t, s.files[i]); j.good != frames || j.bad != 0 {
			t.Errorf("tcpdump at %s: of %d packets %d had good and %d bad checksums: expected %d good ones", devicePorts[i], j.packets, j.good, j.bad, frames)
		}
	}
	w.check(t, append(sent[0], sent[1]...))
	b.unchanged(t, sent, forwarded)
}

// split sorts captured frames of the lab by the side that they were sent from: what
// the device got, and what it sent on. Every frame must be right in itself.
func (b *bench) split(t *testing.T, s seen) (sent, forwarded [2][]packet) {
	t.Helper()
	for i, captured := range s.captured {
		for _, f := range captured {
			p, ok, err := read(f)
			if !ok {
				continue
			}
			if err != nil {
				t.Fatalf("at %s: %v: % x", devicePorts[i], err, f.bytes)
			}
			from := 0
			if p.stream >= 2 { // openloop's streams of the way back
				from = 1
			}
			if from == i {
				sent[from] = append(sent[from], p)
			} else {
				forwarded[from] = append(forwarded[from], p)
			}
		}
	}
	return sent, forwarded
}

// tally is a number of frames and their bytes without FCS.
type tally struct{ Frames, Bytes uint64 }

func (t *tally) add(f frame) { t.Frames++; t.Bytes += uint64(len(f.bytes)) }

// agree holds captures, kernel and sink against each other: frames and bytes of each direction and stream.
func (b *bench) agree(t *testing.T, s seen, sent, forwarded [2][]packet) {
	t.Helper()
	var toDevice, toTester [2]tally // by port
	streams := map[int]tally{}
	for from := range sent {
		for _, p := range sent[from] {
			toDevice[from].add(p.frame)
		}
		for _, p := range forwarded[from] {
			toTester[1-from].add(p.frame)
			one := streams[int(p.stream)]
			one.add(p.frame)
			streams[int(p.stream)] = one
		}
	}
	for i := range devicePorts {
		if k := s.toDevice[i]; (tally{k.Packets, k.Bytes}) != toDevice[i] {
			t.Errorf("at %s the kernel counted %+v, tcpdump saw %+v", devicePorts[i], k, toDevice[i])
		}
		// What a veth gets from a stack it counts without Ethernet header once XDP is on.
		if k := s.toTester[i]; (tally{k.Packets, k.Bytes + 14*k.Packets}) != toTester[i] {
			t.Errorf("at %s the kernel counted %+v, tcpdump saw %+v leave for it", testerPorts[i], k, toTester[i])
		}
	}
	for _, stream := range s.result.Streams {
		if got := (tally{stream.Received, stream.Bytes}); got != streams[stream.ID] || stream.Sent != stream.Received {
			t.Errorf("stream %d: the generator sent %d, the sink counted %+v, tcpdump saw %+v", stream.ID, stream.Sent, got, streams[stream.ID])
		}
		delete(streams, stream.ID)
	}
	if len(streams) > 0 {
		t.Errorf("tcpdump saw streams that the sink knows nothing of: %v", streams)
	}
}

// unchanged sees that what the device sent on is what it got, but for MACs and one hop.
func (b *bench) unchanged(t *testing.T, sent, forwarded [2][]packet) {
	t.Helper()
	type name struct {
		stream   uint8
		sequence uint64
	}
	hops := b.rig.Device().Hops()
	for from := range sent {
		was := map[name]packet{}
		for _, p := range sent[from] {
			was[name{p.stream, p.sequence}] = p
		}
		for _, p := range forwarded[from] {
			before, ok := was[name{p.stream, p.sequence}]
			if !ok {
				t.Fatalf("stream %d number %d was forwarded and not sent", p.stream, p.sequence)
			}
			if want := hop(before.bytes, p.bytes[:12], hops); !bytes.Equal(want, p.bytes) {
				t.Fatalf("stream %d number %d left the device as\n% x, expected\n% x", p.stream, p.sequence, p.bytes, want)
			}
		}
	}
}

// hop returns a frame after so many routers, with the MACs that it was given.
func hop(frame, macs []byte, routers int) []byte {
	out := append(bytes.Clone(macs), frame[12:]...)
	if out[12] == 0x86 {
		out[14+7] -= byte(routers)
		return out
	}
	ip := out[14 : 14+4*int(out[14]&15)]
	ip[8] -= byte(routers)
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^ones(ip))
	return out
}
