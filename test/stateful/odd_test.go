// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"minne/internal/model/packet"
)

// Packets that something is odd about, each for a flow of its own: what comes out
// must be the same in both routers, and so must what comes of the flow afterwards.
func TestOddPackets(t *testing.T) {
	tw := newTwins(t)
	type trial struct {
		*flow
		oddity
		side int
	}
	var trials []trial
	var flows []*flow
	for _, w := range ways {
		for _, four := range []bool{true, false} {
			for _, tp := range transports {
				for i, o := range oddities(tp.protocol, four) {
					if tp.protocol == packet.ProtoUDP && tp.noSum != (i%2 == 1) {
						continue // they take turns
					}
					for side := range 2 {
						f := tw.newFlow(w, tp, four)
						trials, flows = append(trials, trial{f, o, side}), append(flows, f)
					}
				}
			}
		}
	}
	tw.establish(flows)
	passed := 0
	for part := range slices.Chunk(trials, 2048) {
		for step := range 4 {
			var in []frame
			for _, tr := range part {
				frames := []frame{}
				if step == 0 {
					frames = tr.frames(tr.flow, tr.side)
				} else {
					frames = append(frames, tr.say((tr.side+step)%2, fmt.Appendf(nil, "afterwards %d", step)))
				}
				for i := range frames {
					frames[i].label = fmt.Sprintf("%s, %s from side %d, step %d", tr.kind, tr.name, tr.side, step)
				}
				tw.mark(frames...)
				in = append(in, frames...)
			}
			out, _ := tw.both("odd packets", in)
			passed += len(out)
		}
	}
	if passed < 3*len(trials) {
		t.Errorf("of %d flows only %d packets came out", len(trials), passed)
	}
}

// oddity makes something odd of a flow's next packet.
type oddity struct {
	name   string
	frames func(f *flow, side int) []frame
}

// oddities are all that there are for a protocol and family.
func oddities(protocol uint8, four bool) []oddity {
	list := append(anyOddities(), upperOddities()...)
	if protocol == packet.ProtoTCP {
		list = append(list, tcpOddities()...)
	} else {
		list = append(list, udpOddities()...)
	}
	if four {
		list = append(list, oddities4()...)
	} else {
		list = append(list, oddities6()...)
	}
	return append(list, icmpOddities(four)...)
}

// text is a payload that is not a multiple of anything.
var text = []byte("something to carry that is long enough to be cut into pieces")

// edited changes the network packet of ordinary data.
func edited(name string, edit func(ip []byte) []byte) oddity {
	return oddity{name, func(f *flow, side int) []frame {
		return []frame{f.onWire(side, edit(f.network(side, 64, f.transport(side, packet.ACK|packet.PSH, text))))}
	}}
}

// message changes the upper-layer message of ordinary data, before the IP header is put in front.
func message(name string, edit func(f *flow, side int, upper []byte) []byte) oddity {
	return oddity{name, func(f *flow, side int) []frame {
		return []frame{f.onWire(side, f.network(side, 64, edit(f, side, f.transport(side, packet.ACK|packet.PSH, text))))}
	}}
}

// ethernet changes the whole frame.
func ethernet(name string, edit func(frame) frame) oddity {
	return oddity{name, func(f *flow, side int) []frame { return []frame{edit(f.say(side, text))} }}
}

// anyOddities are of the link and the length.
func anyOddities() (list []oddity) {
	for _, ttl := range []uint8{0, 1} {
		list = append(list, oddity{fmt.Sprintf("TTL %d", ttl), func(f *flow, side int) []frame {
			return []frame{f.onWire(side, f.network(side, ttl, f.transport(side, packet.ACK, text)))}
		}})
	}
	// Larger than narrow's MTU: the kernel fragments, or tells the sender.
	for _, size := range []int{narrowMTU, narrowMTU + 1, 1500} {
		for _, flags := range []uint16{0, packet.DontFragment} {
			list = append(list, oddity{fmt.Sprintf("%d bytes, fragment flags %#x", size, flags), func(f *flow, side int) []frame {
				header := packet.IPv6Len
				if f.four() {
					header = packet.IPv4Len
				}
				ip := f.network(side, 64, f.transport(side, packet.ACK, make([]byte, size-header-f.headerLen())))
				if f.four() {
					binary.BigEndian.PutUint16(ip[6:], flags)
					reheader(ip)
				}
				return []frame{f.onWire(side, ip)}
			}})
		}
	}
	lengthen := func(by int) func([]byte) []byte {
		return func(ip []byte) []byte {
			if ip[0]>>4 == 6 {
				binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-packet.IPv6Len+by))
				return ip
			}
			binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+by))
			return reheader(ip)
		}
	}
	return append(list,
		edited("longer by its header than on the wire", lengthen(1)),
		edited("shorter by its header than on the wire", lengthen(-3)),
		edited("cut on the wire", func(ip []byte) []byte { return ip[:len(ip)-5] }),
		edited("padded on the wire", func(ip []byte) []byte { return append(ip, 1, 2, 3, 4, 5, 6, 7) }),
		edited("class and congestion bits", func(ip []byte) []byte {
			if ip[0]>>4 == 6 {
				ip[0], ip[1] = ip[0]|0xb, ip[1]|0xb0
				return ip
			}
			ip[1] = 0xbb
			return reheader(ip)
		}),
		ethernet("on another wire", func(f frame) frame {
			f.port = (f.port + 1) % ports
			copy(f.bytes, sliceOf(portMAC(f.port)))
			return f
		}),
		ethernet("for another station", func(f frame) frame { f.bytes[5] ^= 0x40; return f }),
		ethernet("for a group", func(f frame) frame { f.bytes[0] |= 1; return f }),
		ethernet("for all", func(f frame) frame { copy(f.bytes, sliceOf(packet.BroadcastMAC)); return f }),
		ethernet("with a tag", func(f frame) frame {
			f.bytes = slices.Insert(f.bytes, 12, 0x81, 0, 0, 5)
			return f
		}),
		ethernet("as the other family", func(f frame) frame {
			f.bytes[12], f.bytes[13] = 0x86^0x08^f.bytes[12], 0xdd^f.bytes[13]
			return f
		}),
	)
}

func sliceOf(m packet.MAC) []byte { return m[:] }

// reheader makes the checksum of an IPv4 header right.
func reheader(ip []byte) []byte {
	copy(ip[10:], []byte{0, 0})
	binary.BigEndian.PutUint16(ip[10:], packet.Checksum(ip[:int(ip[0]&0xf)*4]))
	return ip
}

// upperOddities are of any transport.
func upperOddities() (list []oddity) {
	for _, n := range []int{0, 1, 2, 3, 4, 7, 8, 12, 13, 19, 20} {
		list = append(list, message(fmt.Sprintf("%d bytes of the transport's header", n), func(_ *flow, _ int, upper []byte) []byte { return upper[:n] }))
	}
	for _, sum := range []uint16{0, 1, 0xffff, 0x1234} {
		list = append(list, message(fmt.Sprintf("checksum %#x", sum), func(f *flow, _ int, upper []byte) []byte {
			binary.BigEndian.PutUint16(upper[f.checksumAt():], sum)
			return upper
		}))
	}
	for name, edit := range map[string]func(upper []byte){
		"from port 0":        func(u []byte) { u[0], u[1] = 0, 0 },
		"to port 0":          func(u []byte) { u[2], u[3] = 0, 0 },
		"to another port":    func(u []byte) { u[3] ^= 1 },
		"to a port denied":   func(u []byte) { binary.BigEndian.PutUint16(u[2:], 666) },
		"between both ports": func(u []byte) { u[0], u[1], u[2], u[3] = u[2], u[3], u[0], u[1] },
	} {
		list = append(list, message(name, func(f *flow, side int, upper []byte) []byte {
			edit(upper)
			return f.resum(side, upper)
		}))
	}
	list = byName(list)
	for _, protocol := range []uint8{0, 2, 4, 6, 17, 33, packet.ProtoGRE, packet.ProtoESP, packet.ProtoAH, 41, packet.ProtoNoNext, 132, 136, 253, 255} {
		list = append(list, oddity{fmt.Sprintf("protocol %d", protocol), func(f *flow, side int) []frame {
			upper := f.transport(side, packet.ACK, text)
			other := *f
			other.protocol = protocol
			return []frame{f.onWire(side, other.network(side, 64, upper))}
		}})
	}
	return list
}

func udpOddities() (list []oddity) {
	for _, length := range []int{0, 1, 7, 8, 9, -1, +1, 0xffff} {
		list = append(list, message(fmt.Sprintf("UDP length %d", length), func(f *flow, side int, upper []byte) []byte {
			n := length
			if n < 0 || n == 1 {
				n += len(upper)
			}
			binary.BigEndian.PutUint16(upper[4:], uint16(n))
			return f.resum(side, upper)
		}))
	}
	return append(list, message("more than UDP's length says", func(_ *flow, _ int, upper []byte) []byte { return append(upper, 1, 2, 3) }))
}

func tcpOddities() (list []oddity) {
	for flags := range 64 {
		list = append(list, oddity{fmt.Sprintf("TCP flags %#02x", flags), func(f *flow, side int) []frame { return []frame{f.tcp(side, uint8(flags))} }})
	}
	for _, flags := range []uint8{0x40, 0x50, 0x80, 0x90, 0xc0, 0xc2, 0xd0, 0xff} {
		list = append(list, oddity{fmt.Sprintf("TCP flags %#02x", flags), func(f *flow, side int) []frame { return []frame{f.tcp(side, flags)} }})
	}
	for offset := range 16 {
		list = append(list, message(fmt.Sprintf("TCP data offset %d", offset), func(f *flow, side int, upper []byte) []byte {
			upper[12] = byte(offset)<<4 | upper[12]&0xf
			return f.resum(side, upper)
		}))
	}
	for name, edit := range map[string]func(u []byte){
		"TCP reserved bits":    func(u []byte) { u[12] |= 0xf },
		"TCP urgent pointer":   func(u []byte) { u[13] |= 0x20; u[19] = 3 },
		"TCP window 0":         func(u []byte) { u[14], u[15] = 0, 0 },
		"TCP sequence behind":  func(u []byte) { u[4] -= 0x40 },
		"TCP sequence ahead":   func(u []byte) { u[4] += 0x40 },
		"TCP ack behind":       func(u []byte) { u[8] -= 0x40 },
		"TCP ack ahead":        func(u []byte) { u[8] += 0x40 },
		"TCP RST from nowhere": func(u []byte) { u[4] += 0x40; u[13] = packet.RST },
		"TCP RST ACK behind":   func(u []byte) { u[4] -= 0x40; u[13] = packet.RST | packet.ACK },
		"TCP FIN from nowhere": func(u []byte) { u[4] += 0x40; u[13] = packet.FIN | packet.ACK },
		"TCP SYN with data":    func(u []byte) { u[13] = packet.SYN },
	} {
		list = append(list, message(name, func(f *flow, side int, upper []byte) []byte { edit(upper); return f.resum(side, upper) }))
	}
	for name, options := range map[string][]byte{
		"TCP timestamps":      {1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2},
		"TCP SACK":            {1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 9},
		"TCP option too long": {8, 44, 0, 0},
		"TCP option length 0": {8, 0, 0, 0},
	} {
		list = append(list, message(name, func(f *flow, side int, upper []byte) []byte {
			upper = slices.Insert(upper, 20, options...)
			upper[12] = byte(5+len(options)/4) << 4
			return f.resum(side, upper)
		}))
	}
	list = append(list,
		oddity{"TCP FIN, then data", func(f *flow, side int) []frame { return []frame{f.tcp(side, packet.FIN|packet.ACK), f.say(side, text)} }},
		oddity{"TCP RST, then data", func(f *flow, side int) []frame { return []frame{f.tcp(side, packet.RST), f.say(side, text)} }},
	)
	return byName(list)
}
