// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"minne/internal/model/packet"
	"minne/internal/testing/testframes"
)

// flow is a connection between two machines, as each of them sees it: side 0 began it.
type flow struct {
	kind     string // as it is translated, with protocol and family
	protocol uint8
	noSum    bool // UDP without checksum
	who      [2]machine
	src, dst [2]netip.AddrPort // of what the side sends
	seq      [2]uint32
}

func (f *flow) four() bool { return f.src[0].Addr().Is4() }

// way is what a flow of some kind is between, and where it is sent to.
type way struct {
	kind     string
	from, to machine
	door     int // the router's address that is connected to, by port; -1 for the machine's own
}

var ways = []way{
	{"masquerade", client, outside, -1},
	{"pool", pooled, outside, -1},
	{"forward", outside, server, wan},
	{"hairpin", client, server, wan},
	{"plain", client, beside, -1},
	{"narrow", client, tight, -1},
}

// transport is a protocol of flows.
type transport struct {
	name     string
	protocol uint8
	noSum    bool
}

var transports = []transport{{"tcp", packet.ProtoTCP, false}, {"udp", packet.ProtoUDP, false}, {"udp without checksum", packet.ProtoUDP, true}}

// newFlow returns a flow that has not yet begun. It has a port of its own, so the
// kernel has no reason to choose another.
func (tw *twins) newFlow(w way, tp transport, four bool) *flow {
	tw.flows++
	family := map[bool]string{true: "IPv4", false: "IPv6"}[four]
	f := &flow{kind: w.kind + " " + tp.name + " " + family, protocol: tp.protocol, noSum: tp.noSum, who: [2]machine{w.from, w.to}}
	f.src[0], f.dst[0] = netip.AddrPortFrom(w.from.addr(four), uint16(10000+tw.flows)), netip.AddrPortFrom(w.to.addr(four), service)
	if w.door >= 0 {
		f.dst[0] = netip.AddrPortFrom(own(w.door, four), doorPort)
	}
	f.seq = [2]uint32{0x1000_0000 + uint32(tw.flows)*77777, 0xf000_0000 + uint32(tw.flows)*99991}
	return f
}

// newFlows returns n flows of each kind, transport and family.
func (tw *twins) newFlows(n int) (flows []*flow) {
	for range n {
		for _, w := range ways {
			for _, tp := range transports {
				flows = append(flows, tw.newFlow(w, tp, true), tw.newFlow(w, tp, false))
			}
		}
	}
	return flows
}

func own(port int, four bool) netip.Addr {
	if four {
		return own4[port]
	}
	return own6[port]
}

// transport is the upper-layer message of a side, whose sequence number goes on.
func (f *flow) transport(side int, flags uint8, payload []byte) []byte {
	src, dst := f.src[side], f.dst[side]
	if f.protocol == packet.ProtoUDP {
		b := packet.UDP{SrcPort: src.Port(), DstPort: dst.Port()}.Append(nil, src.Addr(), dst.Addr(), payload)
		if f.noSum {
			b[6], b[7] = 0, 0
		}
		return b
	}
	h := packet.TCP{SrcPort: src.Port(), DstPort: dst.Port(), Seq: f.seq[side], Flags: flags, Window: 0xffff}
	if flags&packet.ACK != 0 {
		h.Ack = f.seq[1-side]
	}
	f.seq[side] += uint32(len(payload))
	if flags&(packet.SYN|packet.FIN) != 0 {
		f.seq[side]++
	}
	return h.Append(nil, src.Addr(), dst.Addr(), payload)
}

// network puts the IP header of a side in front of an upper-layer message.
func (f *flow) network(side int, ttl uint8, upper []byte) []byte {
	src, dst := f.src[side].Addr(), f.dst[side].Addr()
	if src.Is4() {
		return packet.IPv4{TTL: ttl, Protocol: f.protocol, Src: src, Dst: dst}.Append(nil, upper)
	}
	return packet.IPv6{HopLimit: ttl, NextHeader: f.protocol, Src: src, Dst: dst}.Append(nil, upper)
}

// onWire puts the Ethernet header of a side in front of a network packet.
func (f *flow) onWire(side int, ip []byte) frame {
	m := f.who[side]
	kind := uint16(packet.TypeIPv4)
	if ip[0]>>4 == 6 {
		kind = packet.TypeIPv6
	}
	return frame{port: m.port, bytes: packet.Ethernet{Dst: portMAC(m.port), Src: m.mac, Type: kind}.Append(nil, ip), label: f.kind}
}

// say is an ordinary packet of a side.
func (f *flow) say(side int, payload []byte) frame {
	return f.onWire(side, f.network(side, 64, f.transport(side, packet.ACK|packet.PSH, payload)))
}

func (f *flow) tcp(side int, flags uint8) frame {
	return f.onWire(side, f.network(side, 64, f.transport(side, flags, nil)))
}

// establish makes the flows known to both routers, so that the fast path may have
// them. What came out tells how each was translated.
func (tw *twins) establish(flows []*flow) {
	tw.t.Helper()
	began := time.Now()
	tw.step("opening", flows, func(f *flow) frame {
		if f.protocol == packet.ProtoTCP {
			return f.tcp(0, packet.SYN)
		}
		return f.say(0, []byte("open"))
	}, func(f *flow, out frame) {
		s := packet.Summarize(out.bytes)
		f.src[1], f.dst[1] = netip.AddrPortFrom(s.Destination, s.DstPort), netip.AddrPortFrom(s.Source, s.SrcPort)
	})
	tw.step("answer", flows, func(f *flow) frame {
		if f.protocol == packet.ProtoTCP {
			return f.tcp(1, packet.SYN|packet.ACK)
		}
		return f.say(1, []byte("answer"))
	}, nil)
	// A UDP connection counts as one when it is still alive after two seconds.
	if slices.ContainsFunc(flows, func(f *flow) bool { return f.protocol == packet.ProtoUDP }) {
		time.Sleep(time.Until(began.Add(2200 * time.Millisecond)))
	}
	for round := range 2 {
		for side := range 2 {
			tw.step("data", flows, func(f *flow) frame { return f.say(side, fmt.Appendf(nil, "data %d", round)) }, nil)
		}
	}
}

// step sends a frame of each flow; each must come out once, on the right wire, and may be looked at.
func (tw *twins) step(what string, flows []*flow, make func(*flow) frame, look func(*flow, frame)) {
	tw.t.Helper()
	// A stamp is unique among fewer packets than it has values.
	for part := range slices.Chunk(flows, 16384) {
		var in []frame
		byStamp := map[uint32]*flow{}
		for _, f := range part {
			one := make(f)
			byStamp[tw.mark(one)], in = f, append(in, one)
		}
		out, agree := tw.both(what, in)
		if !agree {
			tw.t.FailNow() // what follows builds on it
		}
		for _, o := range out {
			stamp, _ := testframes.StampOf(o.bytes)
			f := byStamp[stamp]
			if f == nil {
				tw.t.Fatalf("%s: nothing was sent that could come out as %v", what, o)
			}
			delete(byStamp, stamp)
			if look != nil {
				look(f, o)
			}
		}
		for _, f := range byStamp {
			tw.t.Fatalf("%s: the %s flow %v to %v came to nothing; and %d others", what, f.kind, f.src[0], f.dst[0], len(byStamp)-1)
		}
	}
}

// translated is an upper-layer message of a side with the addresses and ports that it leaves with.
func (f *flow) translated(side int, upper []byte) (src, dst netip.Addr, message []byte) {
	from, to := f.dst[1-side], f.src[1-side]
	message = slices.Clone(upper)
	binary.BigEndian.PutUint16(message, from.Port())
	binary.BigEndian.PutUint16(message[2:], to.Port())
	return from.Addr(), to.Addr(), message
}

// checksumAt is where a transport's checksum stands.
func (f *flow) checksumAt() int {
	if f.protocol == packet.ProtoUDP {
		return 6
	}
	return 16
}

// headerLen is the length of the transport's header.
func (f *flow) headerLen() int {
	if f.protocol == packet.ProtoUDP {
		return 8
	}
	return 20
}

// withChecksum chooses the first two bytes of the payload so that the checksum is
// want: of the message as it is sent, or as it is translated.
func (f *flow) withChecksum(side int, want uint16, afterwards bool) []byte {
	upper := f.transport(side, packet.ACK|packet.PSH, make([]byte, 32))
	src, dst, message := f.src[side].Addr(), f.dst[side].Addr(), upper
	if afterwards {
		src, dst, message = f.translated(side, upper)
	}
	message = slices.Clone(message)
	binary.BigEndian.PutUint16(message[f.checksumAt():], want)
	word := packet.UpperChecksum(src, dst, f.protocol, message)
	binary.BigEndian.PutUint16(upper[f.headerLen():], word)
	return f.resum(side, upper)
}

// resum computes the checksum of a message anew.
func (f *flow) resum(side int, upper []byte) []byte {
	at := f.checksumAt()
	copy(upper[at:], []byte{0, 0})
	sum := packet.UpperChecksum(f.src[side].Addr(), f.dst[side].Addr(), f.protocol, upper)
	if f.protocol == packet.ProtoUDP && sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(upper[at:], sum)
	return upper
}
