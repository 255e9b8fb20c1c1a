// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"minne/internal/lab/device"
	"minne/internal/lab/result"
	"minne/internal/lab/rulegen"
	"minne/internal/lab/traffic"
	"minne/internal/model/packet"
)

// Whole TCP connections through a translator: beginning, a little data each way, end.
// The generator plays both hosts from recorded frames. The router keeps the source
// ports, for no two of these connections would have the same address and port on the
// other side; so the frames of the answering host can be made in advance. After a lap the
// connections begin again: conntrack then takes the SYN for a new connection in place of one that
// has ended (RFC 9293 section 3.6.1).

// steps of a connection, in their order.
var steps = []struct {
	reply    bool
	flags    uint8
	seq, ack uint32
	data     int // bytes
}{
	{false, packet.SYN, 1000, 0, 0},
	{true, packet.SYN | packet.ACK, 5000, 1001, 0},
	{false, packet.ACK, 1001, 5001, 0},
	{false, packet.ACK | packet.PSH, 1001, 5001, someData},
	{true, packet.ACK | packet.PSH, 5001, 1001 + someData, someData},
	{false, packet.FIN | packet.ACK, 1001 + someData, 5001 + someData, 0},
	{true, packet.FIN | packet.ACK, 5001 + someData, 1002 + someData, 0},
	{false, packet.ACK, 1002 + someData, 5002 + someData, 0},
}

// PacketsPerConnection is how many packets the router forwards for one connection.
var PacketsPerConnection = len(steps)

const someData = 12 // bytes

// together is how many connections take the same step side by side: as many as the frames of one turn of the
// generator, so that no packet overtakes the one before it on its way through another port.
const together = traffic.Batch

// Connect prepares whole connections through both routers and sends every one of them once; all
// packets must come out.
func (t *Translators) Connect(ctx context.Context) (err error) {
	for _, r := range []*Translator{t.Fast, t.Slow} {
		if r.Connections.Load, err = r.connections(); err != nil {
			return err
		}
		anyone := *r.Path // beginnings and ends are the kernel's, data may be the fast path's
		anyone.forwarder = device.ByAny
		r.Connections.Path = &anyone
		trial, err := r.Try(ctx, r.Connections.Load, r.Connections.Load.packets, 0)
		if err == nil && trial.Lost > 0 {
			err = fmt.Errorf("%s: %d of %d packets of new connections were lost", r.Name, trial.Lost, r.Connections.Load.packets)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// connections makes a load of as many connections as a replay holds.
func (r *Translator) connections() (*Load, error) {
	n := traffic.MaxReplay / len(steps) / together * together
	random := rand.New(rand.NewPCG(PolicySeed, 6))
	pairs := make([][2]netip.AddrPort, n)
	for i := range pairs {
		pairs[i][0] = netip.AddrPortFrom(rulegen.Inside(device.InHosts[0], random), uint16(1024+i))
		pairs[i][1] = netip.AddrPortFrom(rulegen.Inside(device.OutHosts[0], random), 443)
	}
	var frames []traffic.Recorded
	for group := 0; group < n; group += together {
		for step := range steps {
			for _, p := range pairs[group : group+together] {
				frames = append(frames, segment(step, p[0], p[1]))
			}
		}
	}
	g, err := traffic.NewGenerator()
	if err != nil {
		return nil, err
	}
	r.rig.generators = append(r.rig.generators, g)
	if err := g.SetReplay(frames, 0); err != nil {
		return nil, err
	}
	return &Load{
		Subject:   result.Subject{Traffic: fmt.Sprintf("%d TCP connections of %d packets", n, len(steps))},
		generator: g, packets: len(frames), streams: map[uint8]int{stream4: 0, streamReply: 0},
		unit: together * len(steps), recorded: true,
	}, nil
}

// segment is the frame of a step of a connection between a host inside and one outside.
func segment(step int, inside, outside netip.AddrPort) traffic.Recorded {
	s := steps[step]
	from, to, stream := inside, outside, uint8(stream4)
	if s.reply {
		from, to, stream = outside, netip.AddrPortFrom(device.OutAddresses[0].Addr(), inside.Port()), streamReply
	}
	tcp := packet.TCP{SrcPort: from.Port(), DstPort: to.Port(), Seq: s.seq, Ack: s.ack, Flags: s.flags, Window: 0xffff}
	ip := packet.IPv4{TTL: 64, Protocol: packet.ProtoTCP, Fragment: packet.DontFragment, Src: from.Addr(), Dst: to.Addr()}
	frame := packet.Ethernet{Type: packet.TypeIPv4}.Append(nil, ip.Append(nil, tcp.Append(nil, from.Addr(), to.Addr(), make([]byte, s.data))))
	for len(frame) < traffic.MinFrame4 {
		frame = append(frame, 0)
	}
	return traffic.Recorded{Stream: stream, Frame: frame}
}
