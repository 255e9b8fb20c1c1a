// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/ethtool"
	"minne/internal/base/plan"
	"minne/internal/model/config"
)

// Control traffic on a queue of its own: where CPUs are for control alone, and the card takes rules, what the router's sessions
// receive arrives on a queue that such a CPU serves and that no other flow is led to. A flood that fills the other queues, or
// their CPUs, then reaches no hello and no keepalive.

// steered is traffic of one session or service.
type steered struct {
	name  string
	match ethtool.Match
}

// Ports of BGP (RFC 4271), BFD (RFC 5881, RFC 5883) and Babel (RFC 8966); OSPF's protocol (RFC 2328); types of ICMPv6 (RFC 4861).
const (
	bgpPort, bfdPort, bfdEchoPort, bfdMultihopPort, babelPort = 179, 3784, 3785, 4784, 6696
	ospfProtocol                                              = 89
	neighbourSolicitation, neighbourAdvertisement             = 135, 136
)

// sessions says which there are, of IPv4 and of IPv6.
type sessions struct{ bgp, bfd, bfdMultihop, ospf, any [2]bool }

func sessionsOf(cfg *config.Config) (s sessions) {
	family := map[bool]int{false: 0, true: 1}
	for _, table := range cfg.Protocols() {
		s.bgpIn(table.BGP, family)
		s.ospfIn(0, table.OSPF)
		s.ospfIn(1, table.OSPF3)
	}
	for _, i := range cfg.Interfaces {
		s.any[0], s.any[1] = s.any[0] || i.DHCP.On(), s.any[1] || i.DHCPv6 != nil || i.Delegated != nil
		for _, a := range i.Addresses {
			s.any[family[a.Addr().Is6()]] = true
		}
	}
	return s
}

// bgpIn adds the sessions of one table; b may be nil.
func (s *sessions) bgpIn(b *config.BGP, family map[bool]int) {
	if b == nil {
		return
	}
	for _, p := range b.Peers {
		if p.Disabled {
			continue
		}
		f := family[p.Address.Is6()]
		far := p.Multihop > 0 || p.ASN == b.ASN
		s.bgp[f], s.bfd[f] = true, s.bfd[f] || p.BFD.On() && !far
		s.bfdMultihop[f] = s.bfdMultihop[f] || p.BFD.On() && far
	}
}

// ospfIn adds the adjacencies of one family and table; o may be nil.
func (s *sessions) ospfIn(f int, o *config.OSPF) {
	if o == nil {
		return
	}
	for _, a := range o.Areas {
		for _, i := range a.Interfaces {
			s.ospf[f], s.bfd[f] = s.ospf[f] || !i.Passive, s.bfd[f] || !i.Passive && i.BFD.On()
		}
	}
}

// controlTraffic is what a configuration's router receives for itself, and would miss first. Rules by the port of this end come
// first: many cards want the same fields in all rules, so those that they refuse stand at the end.
func controlTraffic(cfg *config.Config) (list []steered) {
	s := sessionsOf(cfg)
	add := func(name string, of [2]bool, m ethtool.Match) {
		for f, wanted := range of {
			if m.IPv6 = f == 1; wanted {
				list = append(list, steered{name, m})
			}
		}
	}
	udp := func(port uint16) ethtool.Match { return ethtool.Match{Protocol: unix.IPPROTO_UDP, Port: port} }
	add("BGP", s.bgp, ethtool.Match{Protocol: unix.IPPROTO_TCP, Port: bgpPort})
	add("BFD", s.bfd, udp(bfdPort))
	add("BFD", s.bfd, udp(bfdEchoPort))
	add("BFD", s.bfdMultihop, udp(bfdMultihopPort))
	if cfg.Routing.Babel != nil {
		add("Babel", [2]bool{false, true}, udp(babelPort))
	}
	if ssh := cfg.Services.SSH; ssh != nil {
		add("SSH", s.any, ethtool.Match{Protocol: unix.IPPROTO_TCP, Port: uint16(ssh.Port)})
	}
	add("OSPF", s.ospf, ethtool.Match{Protocol: ospfProtocol})
	add("BGP", s.bgp, ethtool.Match{Protocol: unix.IPPROTO_TCP, Source: bgpPort})
	if s.any[0] {
		list = append(list, steered{"ARP", ethtool.Match{EtherType: unix.ETH_P_ARP}})
	}
	for _, kind := range []uint8{neighbourSolicitation, neighbourAdvertisement} {
		add("ND", [2]bool{false, s.any[1]}, ethtool.Match{Protocol: unix.IPPROTO_ICMPV6, ICMPType: kind})
	}
	return list
}

// noQueue is the control queue of a port that has none.
const noQueue = -1

// controlQueue is the queue for control traffic of a port that has a name now: that of a CPU for control alone, whose number it has
// as all queues have. noQueue where all CPUs forward, or for the reason that it says.
func (r *round) controlQueue(b *bound, now string, online []int) (queue int, why string) {
	cpus := r.desired.CPUs.forwarding(online)
	alone := slices.DeleteFunc(slices.Clone(r.desired.CPUs.Control), func(cpu int) bool { return slices.Contains(cpus, cpu) })
	if len(alone) == 0 {
		return noQueue, ""
	}
	if _, room, err := r.system.cardRules(now); err != nil || room == 0 {
		return noQueue, "its driver takes no rules"
	}
	if table, err := r.system.indirection(now); err != nil || len(table) == 0 {
		return noQueue, "its driver has no table that keeps other flows from a queue"
	}
	_, queues, _ := r.system.portSetting(now, ethtool.Queues)
	for _, s := range b.Ethernet {
		if s.what == ethtool.Queues {
			queues = s.to
		}
	}
	if alone[0] >= queues {
		return noQueue, fmt.Sprintf("it has %d queues, and none for CPU %d", queues, alone[0])
	}
	return alone[0], ""
}

// refusal is a rule that the card of a link does not take.
type refusal struct {
	index int
	match ethtool.Match
}

// steer compares the rules of a card with what there shall be; control is the queue. Rules that Minne has not added are left
// alone, also such as lead control traffic elsewhere.
func (r *round) steer(b *bound, control int) error {
	missing, spare, err := r.unsteered(b, b.link.Name, control)
	if err != nil || len(missing)+len(spare) == 0 {
		return err
	}
	change := plan.Change{Action: plan.Modify, Object: "queue of the control traffic of " + b.Name, To: "none"}
	if control != noQueue {
		change.To = fmt.Sprint(control)
	}
	r.add(change, func(context.Context) error {
		missing, spare, err := r.unsteered(b, b.Name, control)
		if err == nil {
			err = r.removeRules(b.Name, spare, 0)
		}
		if err != nil {
			return err
		}
		if err := r.former.note(b.Name, b.link.Index, func(p *formerPort) {
			p.Rules = slices.DeleteFunc(p.Rules, func(m ethtool.Match) bool { return slices.Contains(spare, m) })
		}); err != nil {
			return err
		}
		if on, _, err := r.system.portSetting(b.Name, ethtool.Filters); err == nil && on == 0 && len(missing) > 0 {
			_ = r.setPort(b, ethtool.Filters, 1) // without, the driver refuses the rules, or needs no switch
		}
		for _, m := range missing {
			if err := r.former.note(b.Name, b.link.Index, func(p *formerPort) { p.Rules = append(p.Rules, m) }); err != nil {
				return err
			}
			if err := r.system.addCardRule(b.Name, m, control); err != nil {
				r.refusals[refusal{b.link.Index, m}] = refusedRule(err)
				p := r.former.port(b.Name, b.link.Index)
				p.Rules = p.Rules[:len(p.Rules)-1]
			}
		}
		return r.former.write()
	}).of(b.Name, fmt.Sprintf("the queue of the control traffic of %s was changed", b.Name))
	return nil
}

// unsteered are the rules that a card lacks, and those of Minne's that are not needed or lead elsewhere.
func (r *round) unsteered(b *bound, now string, control int) (missing, spare []ethtool.Match, err error) {
	var own []ethtool.Match
	if p := r.former.port(b.Name, b.link.Index); p != nil {
		own = p.Rules
	}
	if control == noQueue && len(own) == 0 {
		return nil, nil, nil
	}
	rules, room, err := r.system.cardRules(now)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range r.desired.CPUs.Steered {
		refused := r.refusals[refusal{b.link.Index, s.match}]
		if control == noQueue || refused != "" && (refused != noRoom || len(rules) >= room) {
			continue
		}
		at := slices.IndexFunc(rules, func(o ethtool.Rule) bool { return o.Match == s.match })
		ours := slices.Contains(own, s.match)
		if at >= 0 && ours && rules[at].Queue != control {
			spare = append(spare, s.match)
		}
		if at < 0 || ours && rules[at].Queue != control {
			missing = append(missing, s.match)
		}
	}
	for _, m := range own {
		if control == noQueue || !slices.ContainsFunc(r.desired.CPUs.Steered, func(s steered) bool { return s.match == m }) {
			spare = append(spare, m)
		}
	}
	return missing, spare, nil
}

// removeRules removes those of some rules that lead to a queue, or one above it.
func (r *round) removeRules(name string, list []ethtool.Match, from int) error {
	if len(list) == 0 {
		return nil
	}
	rules, _, err := r.system.cardRules(name)
	for _, o := range rules {
		if slices.Contains(list, o.Match) && o.Queue >= from {
			err = errors.Join(err, r.system.removeCardRule(name, o.Location))
		}
	}
	return err
}

// hasForeignRules says whether a card has a rule that Minne has not added.
func (r *round) hasForeignRules(name string, p *formerPort) bool {
	rules, _, err := r.system.cardRules(name)
	return err == nil && slices.ContainsFunc(rules, func(o ethtool.Rule) bool { return !slices.Contains(p.Rules, o.Match) })
}

const noRoom = "the card has no room for more rules"

// refusedRule is why a card does not take a rule.
func refusedRule(err error) string {
	if errors.Is(err, unix.ENOSPC) {
		return noRoom
	}
	return fmt.Sprintf("the card refuses the rule: %v", err)
}

// ControlTraffic is where the packets of the router's own sessions arrive on a port.
type ControlTraffic struct {
	Queue   int          `json:"queue"`         // and the CPU that serves it; -1: there is none
	Why     string       `json:"why,omitempty"` // there is none
	Steered []string     `json:"steered"`       // sessions and services
	Missing []NotSteered `json:"not_steered"`
}

// NotSteered is traffic that arrives on any queue.
type NotSteered struct {
	Name string `json:"name"`
	Rule string `json:"rule"` // in the words of ethtool -N
	Why  string `json:"why"`
}

// controlTraffic says what of it is steered; nil where no CPU is for control alone.
func (r *round) controlTraffic(b *bound, online []int) (*ControlTraffic, error) {
	control, why := r.controlQueue(b, b.link.Name, online)
	if control == noQueue && why == "" {
		return nil, nil
	}
	t := &ControlTraffic{Queue: control, Why: why, Steered: []string{}, Missing: []NotSteered{}}
	var rules []ethtool.Rule
	if control != noQueue {
		var err error
		if rules, _, err = r.system.cardRules(b.link.Name); err != nil {
			return nil, err
		}
	}
	for _, s := range r.desired.CPUs.Steered {
		at := slices.IndexFunc(rules, func(o ethtool.Rule) bool { return o.Match == s.match })
		switch {
		case control == noQueue:
			t.Missing = append(t.Missing, NotSteered{s.name, s.match.String(), why})
		case at < 0:
			reason := r.refusals[refusal{b.link.Index, s.match}]
			if reason == "" {
				reason = "the card has not got the rule yet"
			}
			t.Missing = append(t.Missing, NotSteered{s.name, s.match.String(), reason})
		case rules[at].Queue != control:
			t.Missing = append(t.Missing, NotSteered{s.name, s.match.String(), fmt.Sprintf("a rule that Minne has not added leads it to queue %d", rules[at].Queue)})
		case !slices.Contains(t.Steered, s.name):
			t.Steered = append(t.Steered, s.name)
		}
	}
	t.Steered = slices.DeleteFunc(t.Steered, func(name string) bool {
		return slices.ContainsFunc(t.Missing, func(m NotSteered) bool { return m.Name == name })
	})
	return t, nil
}

func (live) cardRules(name string) ([]ethtool.Rule, int, error) {
	tool, err := ethtool.Open()
	if err != nil {
		return nil, 0, err
	}
	defer tool.Close()
	return tool.Rules(name)
}

func (live) addCardRule(name string, m ethtool.Match, queue int) error {
	tool, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.AddRule(name, m, queue)
}

func (live) removeCardRule(name string, location int) error {
	tool, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.RemoveRule(name, location)
}
