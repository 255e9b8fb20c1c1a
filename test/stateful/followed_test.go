// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"minne/internal/model/packet"
	"minne/internal/subsystem/flows"
)

// Connections without ports: ICMP echo, and protocols that conntrack tells apart by
// addresses alone. Those that the fast path carries, and their neighbours that it
// must leave to the kernel.

// portless is a kind of packet without ports.
type portless struct {
	name         string
	protocol     uint8 // of IPv4
	protocol6    uint8 // of IPv6, if it is another; 0 for none
	carried      bool
	fourOnly     bool
	short        bool     // some packets are too short for the kernel to translate them
	kind, answer [2]uint8 // ICMP's type, by family: IPv4, IPv6
	header       []byte   // of others, in front of the payload
}

var messages = []portless{
	{name: "echo", protocol: packet.ProtoICMP, protocol6: packet.ProtoICMPv6, carried: true, kind: [2]uint8{8, 128}, answer: [2]uint8{0, 129}},
	{name: "timestamp", protocol: packet.ProtoICMP, fourOnly: true, kind: [2]uint8{13}, answer: [2]uint8{14}},
	{name: "GRE", protocol: 47, carried: true, header: []byte{0, 0, 8, 0, 1, 2, 3, 4}},
	{name: "GRE with key", protocol: 47, carried: true, header: []byte{0x20, 0, 8, 0, 0, 0, 0, 7}},
	{name: "GRE of four bytes and more", protocol: 47, carried: true, short: true, header: []byte{0, 0, 8, 0}},
	{name: "GRE of version 1", protocol: 47, header: []byte{0x30, 0x01, 0x88, 0x0b, 0, 20, 0, 9}},
	{name: "ESP", protocol: 50, carried: true, header: []byte{1, 2, 3, 4, 0, 0, 0, 1}},
	{name: "AH", protocol: 51, carried: true, fourOnly: true, header: []byte{4, 4, 0, 0, 1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 0}},
	{name: "IP in IP", protocol: 4, carried: true, header: []byte{0x45, 0, 0, 20}},
	{name: "IPv6 in IP", protocol: 41, carried: true, header: []byte{0x60, 0, 0, 0}},
	{name: "OSPF to a host", protocol: 89, carried: true},
	{name: "an unknown protocol", protocol: 253, carried: true},
	{name: "another unknown protocol", protocol: 200, carried: true, header: []byte{1}},
	{name: "SCTP", protocol: 132, header: []byte{0x20, 1, 0x20, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 4}},
	{name: "ICMPv6 in IPv4", protocol: 58, fourOnly: true, header: []byte{128, 0, 0, 0, 0, 9, 0, 1}},
}

// followed is a connection without ports.
type followed struct {
	flow
	message *portless
	ids     [2]uint16 // of an echo, as each side has it
	number  uint16
}

func (f *followed) upper(side int, payload []byte) []byte {
	if f.message.kind == [2]uint8{} {
		return append(slices.Clone(f.message.header), payload...)
	}
	kinds, family := [2][2]uint8{f.message.kind, f.message.answer}, 1
	if f.four() {
		family = 0
	}
	f.number++
	return packet.ICMP{Type: kinds[side][family], Rest: uint32(f.ids[side])<<16 | uint32(f.number)}.
		Append(nil, f.src[side].Addr(), f.dst[side].Addr(), payload)
}

func (f *followed) say(side int, payload []byte) frame {
	return f.onWire(side, f.network(side, 64, f.upper(side, payload)))
}

// came learns from the first packet what the other side has to answer to.
func (f *followed) came(o frame) {
	s := packet.Summarize(o.bytes)
	f.src[1], f.dst[1] = netip.AddrPortFrom(s.Destination, 0), netip.AddrPortFrom(s.Source, 0)
	at, _, _ := packet.NetworkOffset(o.bytes)
	if at += packet.IPv4Len; !f.four() {
		at += packet.IPv6Len - packet.IPv4Len
	}
	if f.message.kind != [2]uint8{} {
		f.ids[1] = binary.BigEndian.Uint16(o.bytes[at+4:])
	}
}

// talk sends a packet of each side through both routers, and reports whether all came out.
func (tw *twins) talk(f *followed, number int) bool {
	tw.t.Helper()
	for side := range 2 {
		one := f.say(side, fmt.Appendf(nil, "number %d of side %d", number, side))
		tw.mark(one)
		out, agree := tw.both(fmt.Sprintf("%s, packet %d of side %d", f.kind, number, side), []frame{one})
		if !agree || len(out) != 1 {
			return false
		}
		if number == 0 && side == 0 {
			f.came(out[0])
		}
	}
	return true
}

// What passes without ports passes byte for byte as through the kernel, whether the
// fast path carries it or not; and it carries what it can.
func TestWithoutPorts(t *testing.T) {
	tw := newTwins(t)
	for _, w := range []way{{"masquerade", client, outside, -1}, {"pool", pooled, outside, -1}, {"plain", client, beside, -1}} {
		for i := range messages {
			for _, four := range []bool{true, false} {
				if m := &messages[i]; four || !m.fourOnly {
					tw.withoutPorts(w, m, four, uint16(100+i))
				}
			}
		}
	}
}

func (tw *twins) withoutPorts(w way, m *portless, four bool, id uint16) {
	t := tw.t
	f := &followed{message: m, ids: [2]uint16{id, id}}
	f.kind, f.who, f.protocol = fmt.Sprintf("%s %s, IPv4 %t", w.kind, m.name, four), [2]machine{w.from, w.to}, m.protocol
	if !four && m.protocol6 != 0 {
		f.protocol = m.protocol6
	}
	f.src[0], f.dst[0] = netip.AddrPortFrom(w.from.addr(four), 0), netip.AddrPortFrom(w.to.addr(four), 0)
	if !tw.talk(f, 0) {
		if m.carried {
			t.Errorf("%s: the first packets do not come out", f.kind)
		}
		return // what the kernel translates not, it drops
	}
	carried := func() uint64 { return tw.fast.carried(portNames[w.from.port]) + tw.fast.carried(portNames[w.to.port]) }
	deadline := time.Now().Add(time.Minute)
	for number := 1; m.carried; number++ {
		before := carried()
		if !tw.talk(f, number) {
			t.Errorf("%s: packet %d does not come out", f.kind, number)
			return
		}
		if carried() == before+2 { // both directions
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: the fast path does not carry it", f.kind)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	before, sent := carried(), 0
	for side := range 2 {
		in := f.ordinary(side)
		sent += len(in)
		for _, one := range in {
			tw.mark(one)
		}
		if out, agree := tw.both(fmt.Sprintf("%s, side %d", f.kind, side), in); agree && len(out) != len(in) && m.carried && !m.short {
			t.Errorf("%s, side %d: of %d packets %d came out", f.kind, side, len(in), len(out))
		}
	}
	got := carried() - before
	if m.carried && !m.short && got < uint64(sent)*3/4 {
		t.Errorf("%s: the fast path carried %d of %d packets", f.kind, got, sent)
	}
	if !m.carried && got > 0 {
		t.Errorf("%s: the fast path carried %d packets, want that the kernel does", f.kind, got)
	}
}

// ordinary are packets of one side: sizes, hop limits, and for an echo all corners of its checksum.
func (f *followed) ordinary(side int) (in []frame) {
	random := rand.New(rand.NewPCG(uint64(f.protocol), uint64(side)))
	for _, size := range []int{0, 1, 2, 3, 8, 63, 64, 511, 512, 1300, 1399} {
		payload := make([]byte, size)
		for i := range payload {
			payload[i] = byte(random.Uint32())
		}
		in = append(in, f.say(side, payload))
	}
	for _, ttl := range []uint8{2, 3, 63, 255} {
		in = append(in, f.onWire(side, f.network(side, ttl, f.upper(side, []byte("hops")))))
	}
	if f.message.kind == [2]uint8{} {
		return in
	}
	// Right or wrong, a checksum leaves as from the kernel; the id may move it by anything.
	for _, check := range []uint16{0, 1, 0x00ff, 0x7fff, 0x8000, 0xff00, 0xfffe, 0xffff} {
		for _, by := range []uint16{0, f.ids[0] - f.ids[1], f.ids[1] - f.ids[0]} {
			upper := f.upper(side, []byte("sum"))
			binary.BigEndian.PutUint16(upper[2:], check+by)
			in = append(in, f.onWire(side, f.network(side, 64, upper)))
		}
	}
	for range 20 { // right ones of every value
		in = append(in, f.say(side, binary.BigEndian.AppendUint32(nil, random.Uint32())))
	}
	return in
}

// A flood of pings passes beside the kernel, and the book has every one. Conntrack keeps the
// connection while it goes on; when conntrack loses it, the fast path does.
func TestFloodPing(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	for _, to := range []string{ispV4, ispV6} {
		pings := func(args ...string) {
			n.client.run("", "ping", append([]string{"-n", "-q", "-e", "4711", "-w", "30", to}, args...)...) // always one connection
		}
		eventually(t, "the fast path carries pings to "+to, func() bool { // it asks conntrack once a second: the flood may take less
			pings("-c", "1")
			var a flows.Answer
			must(t, json.Unmarshal([]byte(n.must("show", "flows", "dst", to, "fast-path", "--json")), &a))
			return len(a.Flows) > 0
		})
		before := n.carried("lan")
		pings("-f", "-c", "4000")
		if got := n.carried("lan") - before; got < 2000 {
			t.Errorf("%s: the fast path carried %d of 4000 pings", to, got)
		}
		var a flows.Answer
		out := n.must("show", "flows", "dst", to, "--json")
		must(t, json.Unmarshal([]byte(out), &a))
		at := slices.IndexFunc(a.Flows, func(f flows.Flow) bool { return f.Packets[0] >= 4000 })
		if at < 0 {
			t.Fatalf("%s: no flow of 4000 pings: %s", to, out)
		}
		if f := a.Flows[at]; f.Packets[0] != f.Packets[1] || f.Bytes[0] != f.Bytes[1] || f.Path != flows.PathFast {
			t.Errorf("%s: %+v", to, f)
		}
	}
}

// carriedPings waits until the fast path carries a host's pings, or no more.
func (n *network) carriedPings(carried bool) {
	n.t.Helper()
	eventually(n.t, fmt.Sprintf("the fast path carries pings: %t", carried), func() bool {
		var a flows.Answer
		must(n.t, json.Unmarshal([]byte(n.must("show", "flows", "proto", "icmp", "fast-path", "--json")), &a))
		return (len(a.Flows) > 0) == carried
	})
}

// A connection without ports that a commit forbids is not carried on, and is again when it may.
func TestCommitStopsPing(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.client.daemon("ping", "-n", "-q", "-i", "0.02", besideV4)
	n.carriedPings(true)
	n.apply(forbidding("deny icmp any any"))
	n.carriedPings(false)
	before := n.carried("lan")
	time.Sleep(time.Second)
	if got := n.carried("lan") - before; got > 0 {
		t.Errorf("%d pings passed after the commit that forbids them", got)
	}
	n.apply(networkConfig)
	n.carriedPings(true)
	n.run("", "conntrack", "-D", "-p", "icmp") // the next ping begins another, which is carried in its turn
	n.carriedPings(true)
}
