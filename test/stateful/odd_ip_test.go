// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"minne/internal/model/packet"
)

// oddities4 are of the IPv4 header.
func oddities4() (list []oddity) {
	for name, options := range map[string][]byte{
		"no operation":           {1, 1, 1, 1},
		"router alert":           {148, 4, 0, 0},
		"record route":           {7, 7, 4, 0, 0, 0, 0, 0},
		"timestamp, full":        {68, 8, 9, 0, 0, 0, 0, 0},
		"loose source route":     {131, 7, 4, 198, 51, 100, 1, 0},
		"longer than the header": {130, 255, 0, 0},
		"forty bytes":            slices.Repeat([]byte{1, 1, 1, 1}, 10),
	} {
		list = append(list, edited("IPv4 option "+name, func(ip []byte) []byte {
			ip = slices.Insert(ip, packet.IPv4Len, options...)
			ip[0] = 0x40 | byte(len(options)/4+5)
			binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
			return reheader(ip)
		}))
	}
	for _, header := range []byte{0, 4, 6, 15} {
		list = append(list, edited(fmt.Sprintf("IPv4 header length %d", header), func(ip []byte) []byte {
			ip[0] = 0x40 | header
			if header < 5 {
				return ip
			}
			return reheader(ip)
		}))
	}
	list = append(list,
		edited("IPv4 bad checksum", func(ip []byte) []byte { ip[11] ^= 1; return ip }),
		edited("IPv4 version 5", func(ip []byte) []byte { ip[0] = 0x55; return reheader(ip) }),
		edited("IPv4 reserved flag", func(ip []byte) []byte { ip[6] |= 0x80; return reheader(ip) }),
		edited("IPv4 don't fragment", func(ip []byte) []byte { ip[6] |= 0x40; return reheader(ip) }),
	)
	for name, order := range orders {
		list = append(list, oddity{"IPv4 fragments " + name, func(f *flow, side int) (frames []frame) {
			upper := f.transport(side, packet.ACK|packet.PSH, text)
			for _, p := range order {
				part := upper[p.from:min(p.to, len(upper))]
				fragment := uint16(p.from / 8)
				if p.to < len(upper) {
					fragment |= packet.MoreFragments
				}
				h := packet.IPv4{TTL: 64, Protocol: f.protocol, Fragment: fragment, Src: f.src[side].Addr(), Dst: f.dst[side].Addr()}
				frames = append(frames, f.onWire(side, h.Append(nil, part)))
			}
			return frames
		}})
	}
	return byName(list)
}

// piece is a fragment by the bytes of the upper-layer message that it has.
type piece struct{ from, to int }

// orders are ways in which fragments come.
var orders = map[string][]piece{
	"in order":        {{0, 32}, {32, 1000}},
	"in reverse":      {{32, 1000}, {0, 32}},
	"small":           {{0, 8}, {8, 16}, {16, 1000}},
	"first only":      {{0, 32}},
	"last only":       {{32, 1000}},
	"that overlap":    {{0, 32}, {24, 1000}},
	"twice the first": {{0, 32}, {0, 32}, {32, 1000}},
	"of one":          {{0, 1000}},
}

// oddities6 are of the IPv6 header and of those behind it.
func oddities6() (list []oddity) {
	chains := map[string][]byte{ // each with the kind of header in front, and a place for the next one's
		"hop by hop":               {packet.ProtoHopByHop, 0, 0, 1, 4, 0, 0, 0, 0},
		"router alert":             {packet.ProtoHopByHop, 0, 0, 5, 2, 0, 0, 1, 0},
		"unknown option":           {packet.ProtoHopByHop, 0, 0, 0xc2, 4, 0, 1, 0, 0},
		"option to be discarded":   {packet.ProtoHopByHop, 0, 0, 0x80, 4, 0, 0, 0, 0},
		"hop by hop too long":      {packet.ProtoHopByHop, 0, 99, 1, 4, 0, 0, 0, 0},
		"destination options":      {packet.ProtoDestOpts, 0, 0, 1, 4, 0, 0, 0, 0},
		"destination options long": {packet.ProtoDestOpts, 0, 200, 1, 4, 0, 0, 0, 0},
		"routing, done":            slices.Concat([]byte{packet.ProtoRouting, 0, 2, 4, 0}, make([]byte, 20)),
		"routing, one left":        slices.Concat([]byte{packet.ProtoRouting, 0, 2, 0, 1}, make([]byte, 20)),
		"authentication":           slices.Concat([]byte{packet.ProtoAH, 0, 4}, make([]byte, 22)),
		"mobility":                 {135, 0, 0, 0, 0, 0, 0, 0, 0},
		"unknown header":           {253, 0, 0, 0, 0, 0, 0, 0, 0},
		"fragment of one":          {packet.ProtoFragment, 0, 0, 0, 0, 9, 9, 9, 9},
		"two headers": {packet.ProtoHopByHop, packet.ProtoDestOpts, 0, 1, 4, 0, 0, 0, 0,
			0, 0, 1, 4, 0, 0, 0, 0},
	}
	for name, chain := range chains {
		list = append(list, edited("IPv6 "+name, func(ip []byte) []byte {
			headers := slices.Clone(chain[1:])
			last := 0
			if name == "two headers" {
				last = 8
			}
			headers[last], ip[6] = ip[6], chain[0]
			ip = slices.Insert(ip, packet.IPv6Len, headers...)
			binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-packet.IPv6Len))
			return ip
		}))
	}
	list = append(list,
		edited("IPv6 payload length 0", func(ip []byte) []byte { copy(ip[4:], []byte{0, 0}); return ip }),
		edited("IPv6 version 7", func(ip []byte) []byte { ip[0] |= 0x10; return ip }),
	)
	for name, order := range orders {
		list = append(list, oddity{"IPv6 fragments " + name, func(f *flow, side int) (frames []frame) {
			upper := f.transport(side, packet.ACK|packet.PSH, text)
			for _, p := range order {
				header := []byte{f.protocol, 0, 0, 0, 0, byte(side), 0, 0}
				binary.BigEndian.PutUint16(header[2:], uint16(p.from))
				if p.to < len(upper) {
					header[3] |= 1
				}
				binary.BigEndian.PutUint16(header[6:], f.src[0].Port())
				h := packet.IPv6{HopLimit: 64, NextHeader: packet.ProtoFragment, Src: f.src[side].Addr(), Dst: f.dst[side].Addr()}
				frames = append(frames, f.onWire(side, h.Append(nil, append(header, upper[p.from:min(p.to, len(upper))]...))))
			}
			return frames
		}})
	}
	return byName(list)
}

// icmpOddities are errors about the flow, by the machine that got a packet and by
// another one, and an echo.
func icmpOddities(four bool) (list []oddity) {
	kinds := map[string]packet.ICMP{
		"port unreachable": {Type: packet.ICMPUnreachable, Code: 3}, "too big": {Type: packet.ICMPUnreachable, Code: 4, Rest: 1300},
		"time exceeded": {Type: packet.ICMPTimeExceeded}, "redirect": {Type: packet.ICMPRedirect, Code: 1, Rest: 0xc6336409},
		"parameter problem": {Type: 12}, "echo": {Type: packet.ICMPEcho, Rest: 7<<16 | 1}, "timestamp": {Type: 13},
	}
	if !four {
		kinds = map[string]packet.ICMP{
			"port unreachable": {Type: packet.ICMPv6Unreachable, Code: 4}, "too big": {Type: packet.ICMPv6TooBig, Rest: 1300},
			"time exceeded": {Type: packet.ICMPv6TimeExceeded}, "parameter problem": {Type: 4}, "echo": {Type: packet.ICMPv6Echo, Rest: 7<<16 | 1},
		}
	}
	quotes := map[string]int{"": 1000, " that quotes eight bytes": 8, " that quotes four bytes": 4, " that quotes no transport": 0, " about itself": -1}
	for name, icmp := range kinds {
		for how, bytes := range quotes {
			list = append(list,
				oddity{"ICMP " + name + how, func(f *flow, side int) []frame { return []frame{f.report(side, f.src[side].Addr(), icmp, bytes)} }},
				oddity{"ICMP " + name + how + " by a stranger", func(f *flow, side int) []frame {
					return []frame{f.report(side, stranger.addr(four), icmp, bytes)}
				}})
		}
	}
	return byName(list)
}

// report is an ICMP message of a side that quotes what it got from the other: the
// header and as many bytes behind it; with -1 what it sent itself.
func (f *flow) report(side int, from netip.Addr, icmp packet.ICMP, bytes int) frame {
	got := *f
	got.src[side], got.dst[side] = f.dst[side], f.src[side]
	if bytes < 0 {
		got, bytes = *f, 1000
	}
	quoted := got.network(side, 63, got.transport(side, packet.ACK|packet.PSH, text))
	header := packet.IPv4Len
	answer := *f
	answer.protocol = packet.ProtoICMP
	if !f.four() {
		header, answer.protocol = packet.IPv6Len, packet.ProtoICMPv6
	}
	answer.src[side] = netip.AddrPortFrom(from, 0)
	upper := icmp.Append(nil, from, f.dst[side].Addr(), quoted[:min(len(quoted), header+bytes)])
	return f.onWire(side, answer.network(side, 64, upper))
}

// byName puts what comes out of a map in order.
func byName(list []oddity) []oddity {
	slices.SortFunc(list, func(a, b oddity) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return list
}
