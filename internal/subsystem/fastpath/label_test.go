// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"minne/internal/model/config"
	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/subsystem/fastpath/label"
)

// patternSets compiles a section `match:`.
func patternSets(t testing.TB, section string) *label.Sets {
	t.Helper()
	cfg, err := config.Parse("minne.yaml", []byte("version: 1\nlabels: {"+section+"}\n"))
	must(t, err)
	sets, err := label.Compile(cfg, t.TempDir())
	must(t, err)
	return sets
}

// useLabels puts patterns into the bench's fast path.
func (b *bench) useLabels(section string) {
	b.t.Helper()
	d := b.desired()
	d.Labels = patternSets(b.t, section)
	must(b.t, b.fast.Apply(context.Background(), d))
}

// speech is what one end says in one packet.
type speech struct {
	key     flow.Key
	seq     uint32 // of TCP
	flags   uint8
	payload []byte
}

// frame writes a speech as it arrives at the router, from host a or b.
func (s speech) frame() []byte {
	station, sender := packet.MAC(macIn), packet.MAC(macA)
	if first := s.key.Source.AsSlice(); first[0] == 198 || len(first) == 16 && first[5] == 0xb {
		station, sender = packet.MAC(macOut), packet.MAC(macB)
	}
	var upper []byte
	if s.key.Protocol == packet.ProtoTCP {
		upper = packet.TCP{SrcPort: s.key.SourcePort, DstPort: s.key.DestinationPort, Seq: s.seq, Flags: s.flags | packet.ACK, Window: 500}.Append(nil, s.key.Source, s.key.Destination, s.payload)
	} else {
		upper = packet.UDP{SrcPort: s.key.SourcePort, DstPort: s.key.DestinationPort}.Append(nil, s.key.Source, s.key.Destination, s.payload)
	}
	if s.key.Source.Is4() {
		return packet.Ethernet{Dst: station, Src: sender, Type: packet.TypeIPv4}.Append(nil,
			packet.IPv4{TTL: 64, Protocol: s.key.Protocol, Src: s.key.Source, Dst: s.key.Destination}.Append(nil, upper))
	}
	return packet.Ethernet{Dst: station, Src: sender, Type: packet.TypeIPv6}.Append(nil,
		packet.IPv6{NextHeader: s.key.Protocol, HopLimit: 64, Src: s.key.Source, Dst: s.key.Destination}.Append(nil, upper))
}

// pass runs the program that ports have on a packet, and returns what it says.
func (b *bench) pass(s speech) uint32 {
	b.t.Helper()
	frame, on := s.frame(), b.in
	if [6]byte(frame[:6]) == [6]byte(macOut) {
		on = b.out
	}
	return b.passFrame(frame, on)
}

func (b *bench) passFrame(frame []byte, on netlink.Link) uint32 {
	b.t.Helper()
	action, err := b.fast.prog.objects.Router.Run(&ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+headroom),
		Context: contextXDP{DataEnd: uint32(len(frame)), Ingress: uint32(on.Attrs().Index)}})
	must(b.t, err)
	return action
}

// known is what the program knows of a direction.
func (b *bench) known(k flow.Key) (f routerLabelFlow, ok bool) {
	b.t.Helper()
	err := b.fast.prog.objects.LabelFlows.Lookup(k.Words(), &f)
	return f, err == nil
}

func (b *bench) label(k flow.Key) string {
	b.t.Helper()
	f, _ := b.known(k)
	return b.fast.prog.label.Label(int(f.Label))
}

// keyOf is the direction from host a to b, of one of many flows.
func keyOf(protocol uint8, ipv6 bool, n int) flow.Key {
	k := flow.Key{Source: netip.MustParseAddr("192.0.2.2"), Destination: netip.MustParseAddr("198.51.100.2"), Protocol: protocol,
		SourcePort: uint16(1024 + n%60000), DestinationPort: uint16(5000 + n/60000)}
	if ipv6 {
		k.Source, k.Destination = netip.MustParseAddr("2001:db8:a::2"), netip.MustParseAddr("2001:db8:b::2")
	}
	return k
}

// The patterns of the tests, as the router and as Go write them, by set.
var (
	wanted = []struct{ set, minne, text string }{
		{"a", `/^GET [^ ]+ HTTP/`, `^GET [^ ]+ HTTP`},
		{"a", `/needle[0-9]{2,4}x/i`, `(?i)needle[0-9]{2,4}x`},
		{"b", `/\x13BitTorrent protocol/`, `\x13BitTorrent protocol`},
		{"b", `64313a6164323a696432303a`, `d1:ad2:id20:`},
		{"c", `/ab.*yz/s`, `(?s)ab.*yz`},
		{"c", `/(foo|ba[rz])+q/`, `(foo|ba[rz])+q`},
		{"d", `/^..MAGIC/s`, `(?s)^..MAGIC`},
	}
	pieces = []string{"GET ", "/index ", "HTTP", "needle", "NEEDLE12", "99x", "\x13BitTorrent protocol", "\x13BitTorrent ", "protocol",
		"d1:ad2:id20:", "d1:ad2:", "id20:", "ab", "yz", "foo", "bar", "baz", "q", "\x00\x01MAGIC", "MAGIC", " ", "\n", "\xff\xfe", "xx"}
)

func wantedSets(rest string) string {
	sets := map[string][]string{}
	for _, w := range wanted {
		sets[w.set] = append(sets[w.set], "'"+w.minne+"'")
	}
	var parts []string
	for _, name := range []string{"a", "b", "c", "d"} {
		parts = append(parts, fmt.Sprintf("%s: {patterns: [%s]}", name, strings.Join(sets[name], ", ")))
	}
	return rest + "sets: {" + strings.Join(parts, ", ") + "}"
}

// reference is the set whose pattern ends first in a text by Go's regexp, "" for none.
func reference(expressions []*regexp.Regexp, text []byte) string {
	for end := 1; end <= len(text); end++ {
		for i, e := range expressions {
			if e.Match(text[:end]) {
				return wanted[i].set
			}
		}
	}
	return ""
}

func expressions(t testing.TB) (all []*regexp.Regexp) {
	for _, w := range wanted {
		// Bytes as characters: Go's regexp reads UTF-8.
		all = append(all, regexp.MustCompile(w.text))
	}
	return all
}

// latin is bytes as characters of their own, for Go's regexp.
func latin(b []byte) []byte {
	var s strings.Builder
	for _, c := range b {
		s.WriteRune(rune(c))
	}
	return []byte(s.String())
}

// TestLabelsAgree holds the labels of random flows against Go's regexp: streams cut anywhere into segments, some of
// which come twice, and datagrams.
func TestLabelsAgree(t *testing.T) {
	b := newBench(t)
	const packets, bytes = 3, 64
	b.useLabels(wantedSets(fmt.Sprintf("packets: %d, bytes: %d, ", packets, bytes)))
	b.awaitForwarding()
	b.hardware()
	r := rand.New(rand.NewPCG(1, 2))
	all := expressions(t)
	found := map[string]int{}
	for n := range 3000 {
		var text []byte
		for range 1 + r.IntN(12) {
			text = append(text, pieces[r.IntN(len(pieces))]...)
		}
		k := keyOf(packet.ProtoTCP, n%2 == 1, n)
		if r.IntN(3) == 0 {
			k.Protocol = packet.ProtoUDP
		}
		want, seq := "", r.Uint32()
		var seen []byte // of the stream, as far as it is looked at
		taken, whole := 0, true
		for at := 0; at < len(text); {
			part := text[at:min(len(text), at+1+r.IntN(90))]
			over := 0 // bytes that have come before
			if k.Protocol == packet.ProtoTCP && at > 0 && r.IntN(4) == 0 {
				over = min(at, 1+r.IntN(20))
			}
			if action := b.pass(speech{key: k, seq: seq + uint32(at-over), payload: text[at-over : at+len(part)]}); action != ActionRedirect {
				t.Fatalf("flow %d: action %d", n, action)
			}
			if r.IntN(4) == 0 && k.Protocol == packet.ProtoTCP { // once more, with a little of the one before
				back := min(at, r.IntN(20))
				b.pass(speech{key: k, seq: seq + uint32(at-back), payload: text[at-back : at+len(part)]})
			}
			switch looked := part[:min(len(part), bytes)]; {
			case taken == packets || want != "" || !whole:
			case k.Protocol == packet.ProtoUDP:
				want = reference(all, latin(looked))
				taken++
			default:
				seen = append(seen, looked...)
				want = reference(all, latin(seen))
				whole = len(part) <= bytes
				taken++
			}
			at += len(part)
		}
		if got := b.label(k); got != want {
			t.Errorf("flow %d, protocol %d, %q: label %q, expected %q", n, k.Protocol, text, got, want)
		}
		found[want]++
	}
	for _, set := range []string{"", "a", "b", "c", "d"} {
		if found[set] < 20 {
			t.Errorf("only %d flows of set %q: the test says little about it", found[set], set)
		}
	}
	o, err := b.fast.ObserveLabels()
	must(t, err)
	for _, s := range o.Sets {
		if s.Flows != uint64(found[s.Name]) {
			t.Errorf("set %s: %d flows counted, expected %d", s.Name, s.Flows, found[s.Name])
		}
	}
}

// TestOnlyTheFirstPackets: what lies behind the first packets, or the first bytes of one, is not found; nor is what
// lies behind a hole, or in packets without payload.
func TestOnlyTheFirstPackets(t *testing.T) {
	b := newBench(t)
	b.useLabels("packets: 3, bytes: 16, sets: {x: {patterns: [/sign/]}, y: {patterns: [/^begin/]}}")
	b.awaitForwarding()
	filler := "0123456789abcdef"
	for n, c := range []struct {
		name     string
		protocol uint8
		says     []string
		gap      int // bytes that are missing in front of the last of them
		want     string
	}{
		{"in the third", packet.ProtoTCP, []string{"a", "b", "sign"}, 0, "x"},
		{"in the fourth", packet.ProtoTCP, []string{"a", "b", "c", "sign"}, 0, ""},
		{"across three", packet.ProtoTCP, []string{"si", "g", "n"}, 0, "x"},
		{"across four", packet.ProtoTCP, []string{"s", "i", "g", "n"}, 0, ""},
		{"packets without payload", packet.ProtoTCP, []string{"", "", "", "a", "", "b", "sign"}, 0, "x"},
		{"the last byte", packet.ProtoTCP, []string{filler[:12] + "sign"}, 0, "x"},
		{"behind the last byte", packet.ProtoTCP, []string{filler[:13] + "sign"}, 0, ""},
		{"behind a hole of a long segment", packet.ProtoTCP, []string{filler + "more", "sign"}, 0, ""},
		{"behind a missing segment", packet.ProtoTCP, []string{"a", "sign"}, 5, ""},
		{"the beginning", packet.ProtoTCP, []string{"beg", "in"}, 0, "y"},
		{"not the beginning", packet.ProtoTCP, []string{"a", "begin"}, 0, ""},
		{"datagram three", packet.ProtoUDP, []string{"a", "b", "sign"}, 0, "x"},
		{"datagram four", packet.ProtoUDP, []string{"a", "b", "c", "sign"}, 0, ""},
		{"across datagrams", packet.ProtoUDP, []string{"si", "gn"}, 0, ""},
		{"each datagram begins", packet.ProtoUDP, []string{"a", "begin"}, 0, "y"},
		{"long datagrams", packet.ProtoUDP, []string{filler + filler, "sign"}, 0, "x"},
	} {
		k, seq := keyOf(c.protocol, n%2 == 0, n), uint32(0xffffffff)-7 // sequence numbers go round
		for i, says := range c.says {
			if i == len(c.says)-1 {
				seq += uint32(c.gap)
			}
			b.pass(speech{key: k, seq: seq, payload: []byte(says)})
			seq += uint32(len(says))
		}
		if got := b.label(k); got != c.want {
			t.Errorf("%s: label %q, expected %q", c.name, got, c.want)
		}
	}
	k := keyOf(packet.ProtoTCP, false, 1000)
	b.pass(speech{key: k, seq: 7, flags: packet.SYN})
	if _, ok := b.known(k); ok {
		t.Error("a SYN has taken a place in the table: a flood of them would fill it")
	}
	b.pass(speech{key: k, seq: 7, flags: packet.SYN, payload: []byte("beg")})
	b.pass(speech{key: k, seq: 11, payload: []byte("in")})
	if got := b.label(k); got != "y" {
		t.Errorf("data beside a SYN (TCP Fast Open): label %q", got)
	}
}

// TestLimits: what is dropped or limited is so in both directions, whether the fast path forwards a packet or
// leaves it to the kernel, and nothing else is.
func TestLimits(t *testing.T) {
	const section = "sets: {forbidden: {patterns: [/^no/], drop: true}, slow: {patterns: [/^slow/], rate: 8kbit}, few: {patterns: [/^few/], packets-per-second: 1}}"
	b := newBench(t)
	b.useLabels(section)
	b.awaitForwarding()
	passes, began := uint32(ActionRedirect), time.Now()
	for _, way := range []string{"fast path", "kernel"} {
		if way == "kernel" {
			b.evaluateBy(&filter.Policy{Kernel: "for this test"})
			passes = ActionPass
		}
		for _, protocol := range []uint8{packet.ProtoTCP, packet.ProtoUDP} {
			for _, ipv6 := range []bool{false, true} {
				name := fmt.Sprintf("%s, protocol %d, IPv6 %t", way, protocol, ipv6)
				k := keyOf(protocol, ipv6, map[bool]int{false: 1, true: 2}[way == "kernel"])
				other := k
				other.DestinationPort++
				back := k.Reply(0)
				for _, s := range []struct {
					key  flow.Key
					says string
					want uint32
				}{
					{back, "hello", passes}, {k, "no, this is forbidden", ActionDrop}, {k, "never", ActionDrop}, {back, "either", ActionDrop},
					{back, "", ActionDrop}, {other, "another flow", passes}, {other.Reply(0), "no", ActionDrop}, {other, "", ActionDrop},
				} {
					if got := b.pass(speech{key: s.key, seq: 1, payload: []byte(s.says)}); got != s.want {
						t.Errorf("%s: %v says %q: action %d, expected %d", name, s.key, s.says, got, s.want)
					}
				}
			}
		}
		slow, few := keyOf(packet.ProtoUDP, false, 100+int(passes)), keyOf(packet.ProtoUDP, false, 200+int(passes))
		start, passed, all := time.Now(), 0, 0
		for range 200 {
			s := speech{key: slow, payload: append([]byte("slow"), make([]byte, 968)...)} // 1,000 bytes of IP
			if all += 1000; b.pass(s) == passes {
				passed += 1000
			}
		}
		most := 50_000 + int(time.Since(start).Seconds()*1000) // 8 kbit/s, and what may come at once
		if way == "kernel" {
			most = 10_000 + int(time.Since(began).Seconds()*1000) // used up already
		} else if passed < 40_000 {
			t.Errorf("%s: only %d bytes passed", way, passed)
		}
		if passed > most {
			t.Errorf("%s: %d of %d bytes passed, expected at most %d", way, passed, all, most)
		}
		passed = 0
		for range 100 {
			if b.pass(speech{key: few, payload: []byte("few")}) == passes {
				passed++
			}
		}
		if way == "fast path" && passed < 30 || passed > 36+int(time.Since(start).Seconds()) {
			t.Errorf("%s: %d packets passed, expected 33", way, passed)
		}
		began = start
	}
	o, err := b.fast.ObserveLabels()
	must(t, err)
	few, forbidden, slow := o.Sets[0], o.Sets[1], o.Sets[2]
	if forbidden.Flows != 16 || forbidden.Packets != forbidden.Dropped || forbidden.Packets != 48 {
		t.Errorf("forbidden: %+v", forbidden)
	}
	if slow.Flows != 2 || slow.Packets != 400 || slow.Dropped < 300 || slow.Bytes != 400_000 {
		t.Errorf("slow: %+v", slow)
	}
	if few.Flows != 2 || few.Packets != 200 || few.Dropped < 150 {
		t.Errorf("few: %+v", few)
	}
	// Other limits are in force at once, and the flows stay known.
	b.useLabels(strings.Replace(section, "drop: true", "rate: 1Gbit", 1))
	if got := b.pass(speech{key: keyOf(packet.ProtoTCP, false, 1), seq: 99}); got != ActionPass {
		t.Errorf("no longer forbidden, and action %d", got)
	}
	if got := b.label(keyOf(packet.ProtoTCP, false, 1)); got != "forbidden" {
		t.Errorf("a flow's label has become %q", got)
	}
}

// TestLimitsOfWhatTheKernelForwards: a flow that may not send is not let through by the kernel either: not where its sender
// leaves checksums to hardware, and not while no daemon lives.
func TestLimitsOfWhatTheKernelForwards(t *testing.T) {
	b := newBench(t)
	b.useLabels("sets: {forbidden: {patterns: [/^no/], drop: true}}")
	b.awaitForwarding()
	k := keyOf(packet.ProtoUDP, false, 1)
	s := speech{key: k, payload: []byte("no")}
	if got := b.pass(s); got != ActionDrop {
		t.Fatalf("action %d, expected a drop", got)
	}
	limited := Reason(routerReasonREASON_LABEL_LIMIT)
	unsummed := leave("", s.frame(), 14+20, 6, k.Source.String(), k.Destination.String(), packet.ProtoUDP)
	b.expect(unsummed.frame, b.in, limited)
	other := keyOf(packet.ProtoUDP, false, 2)
	b.expect(leave("", speech{key: other, payload: []byte("yes")}.frame(), 14+20, 6, other.Source.String(), other.Destination.String(), packet.ProtoUDP).frame,
		b.in, leftToHardware)
	must(t, b.fast.prog.trustFor(0))
	eventually(t, "the kernel forwards", func() bool {
		v, err := b.fast.Run(speech{key: other, payload: []byte("yes")}.frame(), b.in.Attrs().Index)
		must(t, err)
		return v.Reason == Reason(routerReasonREASON_NO_DAEMON)
	})
	b.expect(s.frame(), b.in, limited)
}

// TestLabelsOfConnections: a connection's label lies in the flow table, for both directions, also where it is translated;
// limits hold there, and the label is told.
func TestLabelsOfConnections(t *testing.T) {
	const section = "sets: {other: {patterns: [/^never said/]}, told: {patterns: [/^eighteen bytes/]RATE}}"
	for name, translates := range map[string]bool{following: false, masquerading: true} {
		t.Run(fmt.Sprintf("translated %t", translates), func(t *testing.T) {
			b := newFlowBench(t, name, stateful(translates))
			b.useLabels(strings.Replace(section, "RATE", ", rate: 10Gbit", 1))
			b.awaitForwarding()
			for _, c := range pick(translates, talks[:2], talks[2:]) {
				k := b.open(c.p)
				k.carried()
				for range 4 {
					if b.there(k.out.toB()) == nil || b.back(k.in.toA()) == nil {
						t.Fatalf("%s: a packet is lost", c.name)
					}
				}
				for _, one := range b.flows() {
					if one.Key[0].Protocol == c.p.protocol && one.Key[0].Source.Is4() == strings.Contains(c.name, "IPv4") && one.Label() != 2 {
						t.Errorf("%s: the flow table has label %d", c.name, one.Label())
					}
				}
				labels := map[flow.Key]string{}
				must(t, b.fast.Labels(func(k flow.Key, label string) { labels[k] = label }))
				of := func(p parcel) flow.Key {
					s := packet.Summarize(p.toB())
					return flow.Key{Source: s.Source, Destination: s.Destination, SourcePort: s.SrcPort, DestinationPort: s.DstPort, Protocol: s.Protocol}
				}
				if labels[of(k.out)] != "told" || labels[of(k.in)] != "told" {
					t.Errorf("%s: labels %v", c.name, labels)
				}
				e, err := b.fast.Explain(k.out.toB(), b.in.Attrs().Index)
				must(t, err)
				if e.Label != "told" || !strings.Contains(fmt.Sprint(e.Steps), "with the label told; all of them together may send at most 10Gbit/s") {
					t.Errorf("%s: explain says %+v", c.name, e)
				}
				b.useLabels(strings.Replace(section, "RATE", ", drop: true", 1))
				for _, s := range []struct {
					frame []byte
					on    netlink.Link
				}{{k.out.toB(), b.in}, {k.in.toA(), b.out}} {
					if got := b.passFrame(s.frame, s.on); got != ActionDrop {
						t.Errorf("%s: action %d where all is dropped", c.name, got)
					}
					b.expect(s.frame, s.on, Reason(routerReasonREASON_LABEL_LIMIT))
				}
				b.useLabels(strings.Replace(section, "RATE", ", rate: 10Gbit", 1))
			}
		})
	}
}

// TestWithoutPatterns: the program of a router without patterns reads none of their tables, which have no room.
func TestWithoutPatterns(t *testing.T) {
	b := newBench(t)
	tables := map[ebpf.MapID]string{}
	for name, m := range b.fast.prog.maps {
		if !strings.HasPrefix(name, "match_") {
			continue
		}
		info, err := m.Info()
		must(t, err)
		id, _ := info.ID()
		tables[id] = name
		if name != label.LimitsMap && name != label.TalliesMap && m.MaxEntries() != 1 {
			t.Errorf("%s has room for %d", name, m.MaxEntries())
		}
	}
	info, err := b.fast.prog.objects.Router.Info()
	must(t, err)
	instructions, err := info.Instructions()
	must(t, err)
	loads := 0
	for _, i := range instructions {
		if i.IsLoadFromMap() {
			loads++
			if name := tables[ebpf.MapID(uint32(i.Constant))]; name != "" { // the kernel puts the map's number there
				t.Errorf("the program reads %s", name)
			}
		}
	}
	if loads < 10 {
		t.Errorf("only %d instructions are seen to read a table: the test sees nothing", loads)
	}
}
