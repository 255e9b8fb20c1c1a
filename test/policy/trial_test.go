// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"minne/internal/model/packet"
	"minne/internal/model/policy"
	"minne/internal/testing/policygen"
)

// trial is one packet and what the reference is told of it.
type trial struct {
	port  int
	frame []byte
	what  policy.Packet
	state policy.State
	reply bool // of the trial before, if that was permitted
}

func (t trial) String() string {
	p := t.what
	return fmt.Sprintf("in %s out %q, protocol %d, %s port %d type %d → %s port %d, state %d", p.In, p.Out, p.Protocol,
		p.Source, p.SourcePort, p.ICMPType, p.Destination, p.DestPort, t.state)
}

// trials makes packets, each of which begins a connection of its own, or none that is known.
func trials(g *policygen.Generator, b *bed, p *policy.Policy, n int) (list []trial) {
	used := map[string]bool{}
	for len(list) < n {
		t := trial{}
		t.what, t.state, t.port = g.Packet(p)
		key := fmt.Sprint(t.what.Source, t.what.Destination, t.what.Protocol, t.what.SourcePort, t.what.DestPort)
		back := fmt.Sprint(t.what.Destination, t.what.Source, t.what.Protocol, t.what.DestPort, t.what.SourcePort)
		if t.what.Source == t.what.Destination || used[key] || used[back] {
			continue // conntrack would take it for the same connection
		}
		used[key], used[back] = true, true
		t.frame = frameOf(b, t, false)
		list = append(list, t)
	}
	return list
}

// answer is the reply to a trial, from where the trial went to.
func answer(b *bed, t trial) (reply trial, ok bool) {
	w := t.what
	reply = trial{what: policy.Packet{In: w.Out, Out: w.In, Source: w.Destination, Destination: w.Source, Protocol: w.Protocol,
		SourcePort: w.DestPort, DestPort: w.SourcePort, HopLimit: 64}, reply: true}
	for i := range policygen.Ports {
		if policygen.PortName(i) == w.Out {
			reply.port, ok = i, true
		}
	}
	switch {
	case t.state != policy.New:
		ok = false
	case w.ICMPType == 8:
		reply.what.ICMPType = 0
	case w.ICMPType == 128:
		reply.what.ICMPType = 129
	case w.ICMPType == 13:
		reply.what.ICMPType = 14
	}
	if w.Protocol == packet.ProtoICMP || w.Protocol == packet.ProtoICMPv6 {
		reply.what.SourcePort, reply.what.DestPort = w.SourcePort, 0
	}
	reply.frame = frameOf(b, reply, true)
	return reply, ok
}

// frameOf writes the packet of a trial.
func frameOf(b *bed, t trial, reply bool) []byte {
	w := t.what
	body := []byte("sixteen bytes ...")
	switch w.Protocol {
	case packet.ProtoTCP:
		h := packet.TCP{SrcPort: w.SourcePort, DstPort: w.DestPort, Seq: 1000, Flags: packet.SYN, Window: 1000}
		if reply {
			h.Seq, h.Ack, h.Flags = 5000, 1001, packet.SYN|packet.ACK
		}
		if t.state == policy.Invalid {
			h.Flags = packet.RST
		}
		body = h.Append(nil, w.Source, w.Destination, nil)
	case packet.ProtoUDP:
		body = packet.UDP{SrcPort: w.SourcePort, DstPort: w.DestPort}.Append(nil, w.Source, w.Destination, body)
	case packet.ProtoICMP, packet.ProtoICMPv6:
		body = packet.ICMP{Type: w.ICMPType, Rest: uint32(w.SourcePort)<<16 | 1}.Append(nil, w.Source, w.Destination, append(body, "more"...))
	}
	e := packet.Ethernet{Dst: b.mac[t.port], Src: b.peer[t.port], Type: packet.TypeIPv6}
	if w.Source.Is4() {
		e.Type = packet.TypeIPv4
		return e.Append(nil, packet.IPv4{TTL: 64, Protocol: w.Protocol, Src: w.Source, Dst: w.Destination}.Append(nil, body))
	}
	return e.Append(nil, packet.IPv6{NextHeader: w.Protocol, HopLimit: 64, Src: w.Source, Dst: w.Destination}.Append(nil, body))
}
