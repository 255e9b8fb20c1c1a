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

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"minne/internal/config"
	"minne/internal/fastpath/flow"
	"minne/internal/fastpath/match"
	"minne/internal/packet"
)

// patternSets compiles a section `match:`.
func patternSets(t testing.TB, section string) *match.Sets {
	t.Helper()
	cfg, err := config.Parse("minne.yaml", []byte("version: 1\nmatch: {"+section+"}\n"))
	must(t, err)
	sets, err := match.Compile(cfg, t.TempDir())
	must(t, err)
	return sets
}

// recognise puts patterns into the bench's fast path.
func (b *bench) recognise(section string) {
	b.t.Helper()
	d := b.desired()
	d.Match = patternSets(b.t, section)
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
func (b *bench) known(k flow.Key) (f routerMatchFlow, ok bool) {
	b.t.Helper()
	err := b.fast.prog.objects.MatchFlows.Lookup(k.Words(), &f)
	return f, err == nil
}

func (b *bench) label(k flow.Key) string {
	b.t.Helper()
	f, _ := b.known(k)
	return b.fast.prog.match.Label(int(f.Label))
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
	b.recognise(wantedSets(fmt.Sprintf("packets: %d, bytes: %d, ", packets, bytes)))
	b.awaitForwarding()
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
			if action := b.pass(speech{key: k, seq: seq + uint32(at), payload: part}); action != ActionRedirect {
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
	o, err := b.fast.Recognised()
	must(t, err)
	for _, s := range o.Sets {
		if s.Flows != uint64(found[s.Name]) {
			t.Errorf("set %s: %d flows counted, expected %d", s.Name, s.Flows, found[s.Name])
		}
	}
}
