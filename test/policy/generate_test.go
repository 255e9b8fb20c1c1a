// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"minne/internal/packet"
	"minne/internal/policy"
)

// draft is a policy in the making: the lines of a configuration that shrinking
// can leave out one by one.
type draft struct {
	sets     []string
	policies []draftPolicy
	defaults string
}

type draftPolicy struct {
	head  string // from, to and the like
	rules []string
	tail  string // the default, or ""
}

// zones of the ports: two ports in a, one in b, one in c.
var zoneOfPort = [ports]string{"a", "a", "b", "c"}

// text is the draft as a configuration.
func (d draft) text() string {
	var b strings.Builder
	b.WriteString("version: 1\ninterfaces:\n")
	for i, zone := range zoneOfPort {
		fmt.Fprintf(&b, "  %s: {zone: %s}\n", portName(i), zone)
	}
	b.WriteString("firewall:\n  icmp-limit: 1000000\n" + d.defaults)
	if len(d.sets) > 0 {
		b.WriteString("  sets:\n" + strings.Join(d.sets, ""))
	}
	if len(d.policies) > 0 {
		b.WriteString("  policies:\n")
	}
	for _, p := range d.policies {
		b.WriteString("    - " + p.head + "\n" + p.tail)
		if len(p.rules) > 0 {
			b.WriteString("      rules:\n")
		}
		for _, r := range p.rules {
			b.WriteString("        - " + r + "\n")
		}
	}
	return b.String()
}

// generator makes policies, and packets on their edges.
type generator struct {
	*rand.Rand
	stateless bool
	used      map[string]bool
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 0x6d696e6e65)), used: map[string]bool{}}
}

func choose[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *generator) prefix(four bool) netip.Prefix {
	net, bits := network6(g.IntN(ports)), 32+g.IntN(97)
	if four {
		net, bits = network4(g.IntN(ports)), 16+g.IntN(17)
	}
	p, _ := g.within(net).Prefix(bits)
	return p
}

// within is a random address of a network, of few different ones, so that rules meet.
func (g *generator) within(net netip.Prefix) netip.Addr {
	b := net.Addr().AsSlice()
	last := len(b) - 1
	b[last] = byte(choose(g, 0, 1, 7, 8, 127, 128, 255))
	b[last-1] = byte(choose(g, 0, 1, 128))
	a, _ := netip.AddrFromSlice(b)
	return a
}

func (g *generator) address(four bool) string {
	p := g.prefix(four)
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// addresses are those of one family, 4 or 6, or of both.
func (g *generator) addresses(family int) string {
	switch g.IntN(6) {
	case 0, 1:
		return "any"
	case 2:
		return choose(g, "@hosts", "@nets")
	}
	if family == 0 {
		return g.address(true) + "," + g.address(false)
	}
	return g.address(family == 4)
}

// edges are the ports that rules and packets use.
var edges = []int{0, 1, 22, 53, 79, 80, 81, 443, 1023, 1024, 8000, 8080, 8081, 65535}

func (g *generator) ports() string {
	a, b := choose(g, edges...), choose(g, edges...)
	switch g.IntN(4) {
	case 0:
		return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
	case 1:
		return fmt.Sprintf("%d,%d", a, b)
	case 2:
		return choose(g, "@doors", "http", "https,dns")
	}
	return fmt.Sprint(a)
}

func (g *generator) rule() string {
	action := choose(g, "permit", "permit", "permit", "deny", "deny", "reject")
	protocol := choose(g, "any", "tcp", "tcp", "udp", "udp", "tcp/udp", "icmp", "icmpv6", "ping", "gre", "99")
	words := []string{action, protocol}
	family := choose(g, 0, 4, 4, 6, 6)
	switch protocol {
	case "icmp":
		family = 4
	case "icmpv6":
		family = 6
	}
	if g.IntN(8) > 0 {
		words = append(words, g.addresses(family))
		hasPorts := protocol == "tcp" || protocol == "udp" || protocol == "tcp/udp"
		if hasPorts && g.IntN(5) == 0 {
			words = append(words, "from", g.ports())
		}
		destination := g.addresses(family)
		if g.IntN(8) == 0 {
			destination = "self"
		}
		words = append(words, destination)
		switch {
		case hasPorts && g.IntN(3) > 0:
			words = append(words, g.ports())
		case protocol == "icmp" && g.IntN(2) == 0:
			words = append(words, choose(g, "echo-request", "13", "echo-reply,echo-request"))
		case protocol == "icmpv6" && g.IntN(2) == 0:
			words = append(words, choose(g, "echo-request", "echo-reply"))
		}
	}
	if action == "permit" && g.IntN(12) == 0 {
		words = append(words, "limit 1000000/s burst 100000")
	}
	if g.IntN(8) == 0 {
		words = append(words, "log")
	}
	return strings.Join(words, " ")
}

func (g *generator) draft() draft {
	d := draft{sets: []string{
		fmt.Sprintf("    hosts: {addresses: [%s, %s, \"%s\"]}\n", g.within(network4(0)), g.within(network4(1)), g.within(network6(2))),
		fmt.Sprintf("    nets: {prefixes: [%s, %s, \"%s\"]}\n", g.prefix(true), g.prefix(true), g.prefix(false)),
		fmt.Sprintf("    doors: {ports: [\"%s\", \"%d\"]}\n", "8000-8080", choose(g, edges...)),
	}}
	g.stateless = g.IntN(4) == 0
	for range 1 + g.IntN(4) {
		p := draftPolicy{}
		from, to := choose(g, "a", "b", "c", "any", "[a, c]", "[a, self]"), choose(g, "a", "b", "c", "any", "self", "[self, b]")
		if g.stateless && strings.Contains(from, "self") {
			from = "a" // the router's own answers to rejects would need rules
		}
		p.head = "from: " + from + "\n      to: " + to
		if g.stateless {
			p.head += "\n      stateless: true"
		}
		for range 1 + g.IntN(6) {
			p.rules = append(p.rules, g.rule())
		}
		if g.IntN(3) == 0 {
			p.tail = "      default: " + choose(g, "permit", "deny", "reject") + "\n"
		}
		d.policies = append(d.policies, p)
	}
	if g.IntN(3) == 0 {
		d.defaults = fmt.Sprintf("  defaults: {action: %s, within: %s}\n", choose(g, "deny", "reject"), choose(g, "permit", "deny"))
	}
	return d
}

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

// edgeAddress is an address at the edge of a prefix that the policy speaks of, or any.
func (g *generator) edgeAddress(p *policy.Policy, net netip.Prefix) netip.Addr {
	if len(p.Rules) > 0 && g.IntN(3) > 0 {
		r := p.Rules[g.IntN(len(p.Rules))]
		all := append(append([]netip.Prefix{}, r.Source.Prefixes...), r.Destination.Prefixes...)
		for _, s := range append(append([]int{}, r.Source.Sets...), r.Destination.Sets...) {
			all = append(all, p.Sets[s].Prefixes...)
		}
		if len(all) > 0 {
			q := choose(g, all...)
			a := choose(g, q.Addr(), q.Addr().Prev(), last(q), last(q).Next())
			if a.IsValid() && net.Contains(a) {
				return a
			}
		}
	}
	return g.within(net)
}

func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// trial makes a packet that begins a connection of its own, or none that is known.
func (g *generator) trial(b *bed, p *policy.Policy) trial {
	for {
		four := g.IntN(2) == 0
		in, out := g.IntN(ports), g.IntN(ports)
		net := network6
		if four {
			net = network4
		}
		w := policy.Packet{In: portName(in), Out: portName(out), Source: g.edgeAddress(p, net(in)), Destination: g.edgeAddress(p, net(out)), HopLimit: 64}
		if g.IntN(6) == 0 {
			w.Out, w.Destination = "", own(in, four)
		}
		t := trial{port: in, what: w}
		g.upper(&t, four)
		key := fmt.Sprint(t.what.Source, t.what.Destination, t.what.Protocol, t.what.SourcePort, t.what.DestPort)
		back := fmt.Sprint(t.what.Destination, t.what.Source, t.what.Protocol, t.what.DestPort, t.what.SourcePort)
		if w.Source == w.Destination || g.used[key] || g.used[back] {
			continue // conntrack would take it for the same connection
		}
		g.used[key], g.used[back] = true, true
		t.frame = frameOf(b, t, false)
		return t
	}
}

// upper chooses protocol and ports, and what conntrack will make of them.
func (g *generator) upper(t *trial, four bool) {
	w := &t.what
	switch g.IntN(8) {
	case 0, 1, 2:
		w.Protocol = packet.ProtoTCP
		if g.IntN(12) == 0 {
			t.state = policy.Invalid // a reset out of the blue
		}
	case 3, 4:
		w.Protocol = packet.ProtoUDP
	case 5, 6:
		w.Protocol, w.ICMPType = packet.ProtoICMPv6, uint8(choose(g, 128, 128, 129))
		if four {
			w.Protocol, w.ICMPType = packet.ProtoICMP, uint8(choose(g, 8, 8, 0, 13))
		}
		if w.ICMPType == 129 || w.ICMPType == 0 {
			t.state = policy.Invalid // an answer that nobody asked for
		}
		w.SourcePort, w.DestPort = uint16(g.IntN(1<<16)), 0 // the echo's identifier; rules don't see it
	default:
		w.Protocol = uint8(choose(g, 99, 253, 50)) // whole headers don't matter to these
	}
	if w.Protocol == packet.ProtoTCP || w.Protocol == packet.ProtoUDP {
		w.SourcePort, w.DestPort = uint16(choose(g, edges...)), uint16(choose(g, edges...))
	}
}

// answer is the reply to a trial, from where the trial went to.
func answer(b *bed, t trial) (reply trial, ok bool) {
	w := t.what
	reply = trial{what: policy.Packet{In: w.Out, Out: w.In, Source: w.Destination, Destination: w.Source, Protocol: w.Protocol,
		SourcePort: w.DestPort, DestPort: w.SourcePort, HopLimit: 64}, reply: true}
	for i := range ports {
		if portName(i) == w.Out {
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
