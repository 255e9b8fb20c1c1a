// SPDX-License-Identifier: Apache-2.0

package policygen

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"minne/internal/base/ipnet"
	"minne/internal/model/packet"
	"minne/internal/model/policy"
)

// Generator makes drafts, and packets on their edges.
type Generator struct {
	*rand.Rand
}

// New returns the generator of a seed.
func New(seed uint64) *Generator {
	return &Generator{Rand: rand.New(rand.NewPCG(seed, 0x6d696e6e65))}
}

// Choose is one of a list.
func Choose[T any](g *Generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *Generator) prefix(four bool) netip.Prefix {
	net, bits := Network6(g.IntN(Ports)), 32+g.IntN(97)
	if four {
		net, bits = Network4(g.IntN(Ports)), 16+g.IntN(17)
	}
	p, _ := g.within(net).Prefix(bits)
	return p
}

// within is a random address of a network, of few different ones, so that rules meet.
func (g *Generator) within(net netip.Prefix) netip.Addr {
	b := net.Addr().AsSlice()
	last := len(b) - 1
	b[last] = byte(Choose(g, 0, 1, 7, 8, 127, 128, 255))
	b[last-1] = byte(Choose(g, 0, 1, 128))
	a, _ := netip.AddrFromSlice(b)
	return a
}

func (g *Generator) address(four bool) string {
	p := g.prefix(four)
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// addresses are those of one family, 4 or 6, or of both.
func (g *Generator) addresses(family int) string {
	switch g.IntN(7) {
	case 0, 1:
		return "any"
	case 2, 3:
		return Choose(g, "@hosts", "@nets", "@guests", "@blocked", "@large", "@guests,@nets", "@large,@hosts",
			"@blocked,"+g.address(family != 6), "@nets,"+g.address(family != 6))
	}
	if family == 0 {
		return g.address(true) + "," + g.address(false)
	}
	return g.address(family == 4)
}

// edges are the ports that rules and packets use.
var edges = []int{0, 1, 22, 53, 79, 80, 81, 443, 1023, 1024, 8000, 8080, 8081, 65535}

func (g *Generator) ports() string {
	a, b := Choose(g, edges...), Choose(g, edges...)
	switch g.IntN(4) {
	case 0:
		return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
	case 1:
		return fmt.Sprintf("%d,%d", a, b)
	case 2:
		return Choose(g, "@doors", "http", "https,dns")
	}
	return fmt.Sprint(a)
}

func (g *Generator) rule() string {
	action := Choose(g, "permit", "permit", "permit", "deny", "deny", "reject")
	protocol := Choose(g, "any", "tcp", "tcp", "udp", "udp", "tcp/udp", "icmp", "icmpv6", "ping", "gre", "99")
	words := []string{action, protocol}
	family := Choose(g, 0, 4, 4, 6, 6)
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
			words = append(words, Choose(g, "echo-request", "13", "echo-reply,echo-request"))
		case protocol == "icmpv6" && g.IntN(2) == 0:
			words = append(words, Choose(g, "echo-request", "echo-reply"))
		}
	}
	if action == "permit" && g.IntN(12) == 0 {
		words = append(words, "limit 1000000/s burst 100000")
	}
	if g.IntN(4) == 0 {
		words = append(words, "log")
	}
	return strings.Join(words, " ")
}

// largeElements is more than a set has that is compiled into rules.
const largeElements = 600

// sets are of every kind: of single addresses and of networks, for ever and with a
// timeout, small and, now and then, large.
func (g *Generator) sets() []string {
	n := Choose(g, 2, 2, 2, 2, 2, 2, 2, largeElements)
	var large []string
	for i := range n {
		large = append(large, fmt.Sprintf("10.%d.%d.%d/31", i%Ports, i%3*64, i/2%128*2), fmt.Sprintf("\"fd00:%d::%x:%x/128\"", i%Ports, i%5, i))
	}
	return []string{
		fmt.Sprintf("    hosts: {addresses: [%s, %s, \"%s\"]}\n", g.within(Network4(0)), g.within(Network4(1)), g.within(Network6(2))),
		fmt.Sprintf("    nets: {prefixes: [%s, %s, \"%s\"]}\n", g.prefix(true), g.prefix(true), g.prefix(false)),
		fmt.Sprintf("    doors: {ports: [\"%s\", \"%d\"]}\n", "8000-8080", Choose(g, edges...)),
		fmt.Sprintf("    guests: {addresses: [%s, \"%s\"], timeout: 1h}\n", g.within(Network4(2)), g.within(Network6(0))),
		fmt.Sprintf("    blocked: {prefixes: [%s, \"%s\"], timeout: 1h}\n", g.prefix(true), g.prefix(false)),
		fmt.Sprintf("    large: {prefixes: [%s]}\n", strings.Join(large, ", ")),
	}
}

// Draft makes a firewall.
func (g *Generator) Draft() Draft {
	d := Draft{Sets: g.sets()}
	stateless := g.IntN(2) == 0
	for range 1 + g.IntN(4) {
		p := DraftPolicy{}
		from, to := Choose(g, "a", "b", "c", "any", "[a, c]", "[a, self]"), Choose(g, "a", "b", "c", "any", "self", "[self, b]")
		if stateless && strings.Contains(from, "self") {
			from = "a" // the router's own answers to rejects would need rules
		}
		p.Head = "from: " + from + "\n      to: " + to
		if stateless {
			p.Head += "\n      stateless: true"
		}
		for range 1 + g.IntN(6) {
			p.Rules = append(p.Rules, g.rule())
		}
		if g.IntN(3) == 0 {
			p.Tail = "      default: " + Choose(g, "permit", "deny", "reject") + "\n"
		}
		d.Policies = append(d.Policies, p)
	}
	if g.IntN(3) == 0 {
		d.Defaults = fmt.Sprintf("  defaults: {action: %s, within: %s}\n", Choose(g, "deny", "reject"), Choose(g, "permit", "deny"))
	}
	return d
}

// Times at which all schedules of Timed hold, and at which none does.
var (
	Held   = time.Date(2026, 1, 7, 12, 0, 0, 0, time.Local) // a Wednesday
	Unheld = time.Date(2026, 1, 11, 20, 0, 0, 0, time.Local)
)

// Timed is a draft of which some rules hold at some hours only.
func (g *Generator) Timed(d Draft) Draft {
	d.Schedules = []string{"    lessons: {days: mon-fri, from: 08:00, to: 13:00}\n", "    noon: {from: 11:00, to: 14:00}\n"}
	d.Policies = slices.Clone(d.Policies)
	for i := range d.Policies {
		rules := slices.Clone(d.Policies[i].Rules)
		for k := range rules {
			if g.IntN(3) == 0 {
				rules[k] += " schedule " + Choose(g, "lessons", "noon")
			}
		}
		d.Policies[i].Rules = rules
	}
	return d
}

// Translation is a port forward or a one-to-one translation, as a line of a draft's NAT.
// A stateless draft may refuse it.
func (g *Generator) Translation() string {
	inside, outside := g.within(Network4(0)), g.within(Network4(g.IntN(Ports)))
	if g.IntN(3) == 0 {
		return fmt.Sprintf("  - {from: [a], to: [c], one-to-one: {outside: %s/32, inside: %s/32}}\n", outside, inside)
	}
	parts := []string{"protocol: " + Choose(g, "tcp", "udp"), fmt.Sprintf("port: \"%d\"", Choose(g, 22, 80, 443)), fmt.Sprintf("target: %s", inside)}
	if g.IntN(3) > 0 {
		parts = append(parts, fmt.Sprintf("address: %s", outside))
	}
	if g.IntN(2) == 0 {
		parts = append(parts, "target-port: 8080")
	}
	return fmt.Sprintf("  - {from: [c], forward: {%s}}\n", strings.Join(parts, ", "))
}

// edgeAddress is an address at the edge of a prefix that the policy speaks of, or any.
func (g *Generator) edgeAddress(p *policy.Policy, net netip.Prefix) netip.Addr {
	if len(p.Rules) > 0 && g.IntN(3) > 0 {
		r := p.Rules[g.IntN(len(p.Rules))]
		all := append(append([]netip.Prefix{}, r.Source.Prefixes...), r.Destination.Prefixes...)
		for _, s := range append(append([]int{}, r.Source.Sets...), r.Destination.Sets...) {
			all = append(all, p.Sets[s].Prefixes...)
		}
		if len(all) > 0 {
			q := Choose(g, all...)
			a := Choose(g, q.Addr(), q.Addr().Prev(), ipnet.Last(q), ipnet.Last(q).Next())
			if a.IsValid() && net.Contains(a) {
				return a
			}
		}
	}
	return g.within(net)
}

// Packet makes a packet that begins a connection, and what conntrack will say of it:
// New, or Invalid for one that can begin none (a reset, an answer to nothing). An
// ICMP echo has its identifier in the place of the source port. port is where it
// comes in.
func (g *Generator) Packet(p *policy.Policy) (w policy.Packet, state policy.State, port int) {
	four := g.IntN(2) == 0
	port = g.IntN(Ports)
	out := g.IntN(Ports)
	net := Network6
	if four {
		net = Network4
	}
	w = policy.Packet{In: PortName(port), Out: PortName(out), Source: g.edgeAddress(p, net(port)), Destination: g.edgeAddress(p, net(out)), HopLimit: 64}
	if g.IntN(6) == 0 {
		w.Out, w.Destination = "", Own(port, four)
	}
	return w, g.upper(&w, four), port
}

// upper chooses protocol and ports, and what conntrack will make of them.
func (g *Generator) upper(w *policy.Packet, four bool) (state policy.State) {
	switch g.IntN(8) {
	case 0, 1, 2:
		w.Protocol = packet.ProtoTCP
		if g.IntN(12) == 0 {
			state = policy.Invalid // a reset out of the blue
		}
	case 3, 4:
		w.Protocol = packet.ProtoUDP
	case 5, 6:
		w.Protocol, w.ICMPType = packet.ProtoICMPv6, uint8(Choose(g, 128, 128, 129))
		if four {
			w.Protocol, w.ICMPType = packet.ProtoICMP, uint8(Choose(g, 8, 8, 0, 13))
		}
		if w.ICMPType == 129 || w.ICMPType == 0 {
			state = policy.Invalid // an answer that nobody asked for
		}
		w.SourcePort, w.DestPort = uint16(g.IntN(1<<16)), 0 // the echo's identifier; rules don't see it
	default:
		w.Protocol = uint8(Choose(g, 99, 253, 50)) // whole headers don't matter to these
	}
	if w.Protocol == packet.ProtoTCP || w.Protocol == packet.ProtoUDP {
		w.SourcePort, w.DestPort = uint16(Choose(g, edges...)), uint16(Choose(g, edges...))
	}
	return state
}
