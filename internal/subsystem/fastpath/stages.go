// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"minne/internal/model/packet"
	"minne/internal/model/rib"
)

// The stages of a packet's journey (bpf/maps.h) in an operator's words. A stage that
// passed says what it found in the tables as they are; the tables change under the
// lock that the question holds, so what is said is what the program saw.

// stageWords is the name of a stage and what it has to say of a packet that passed it.
type stageWords struct {
	name string
	says func(*journey) string
}

var stageTexts = [routerStageSTAGE_COUNT]stageWords{
	routerStageSTAGE_ARRIVAL:    {"arrival", (*journey).arrival},
	routerStageSTAGE_FAMILY:     {"family", (*journey).family},
	routerStageSTAGE_SANITY:     {"sanity", (*journey).sanity},
	routerStageSTAGE_ORDINARY:   {"ordinary", (*journey).ordinary},
	routerStageSTAGE_TRANSPORT:  {"transport", (*journey).transport},
	routerStageSTAGE_CONNECTION: {"connection", (*journey).connection},
	routerStageSTAGE_ROUTE:      {"route", (*journey).route},
	routerStageSTAGE_SOURCE:     {"source", (*journey).source},
	routerStageSTAGE_NEXT_HOP:   {"next hop", (*journey).neighbour},
	routerStageSTAGE_SIZE:       {"size", (*journey).size},
	routerStageSTAGE_FIREWALL:   {"firewall", (*journey).firewall},
	routerStageSTAGE_CHECKSUM:   {"checksum", (*journey).summed},
	routerStageSTAGE_FRESH:      {"fresh", (*journey).fresh},
	routerStageSTAGE_LABEL:      {"label", (*journey).labelled},
	routerStageSTAGE_REWRITE:    {"rewrite", (*journey).rewrite},
}

// journey is one packet's way through the program, for those who put it in words.
type journey struct {
	t       *tables
	verdict Verdict
	ip      packet.Summary // of the frame as it came
}

// steps is what each stage that was reached said.
func (j *journey) steps() []Step {
	var steps []Step
	for stage, words := range stageTexts {
		told := j.verdict.trace.Noted[stage]
		if told == 0 {
			continue
		}
		s := Step{Stage: words.name, Passed: told == 1}
		if s.Passed {
			if s.Text = words.says(j); s.Text == "" {
				continue // a stage of a firewall that is not there
			}
		} else {
			s.Text = j.refusal(stage, Reason(told-1))
		}
		steps = append(steps, s)
	}
	return steps
}

// refusal is the reason, with what of the tables led to it.
func (j *journey) refusal(stage int, why Reason) string {
	text := why.Text()
	if held := j.heldWords(why); held != "" {
		text += ": " + held
	}
	switch routerStage(stage) {
	case routerStageSTAGE_ROUTE:
		return j.route() + ": " + text
	case routerStageSTAGE_SOURCE:
		return j.source() + ": " + text
	case routerStageSTAGE_FIREWALL:
		return j.firewall() + ": " + text
	case routerStageSTAGE_LABEL:
		return j.labelled() + ": " + text
	case routerStageSTAGE_NEXT_HOP:
		return j.neighbour() + ": " + text
	case routerStageSTAGE_SIZE, routerStageSTAGE_FRESH:
		return fmt.Sprintf("%s: %s", j.neighbour(), text)
	case routerStageSTAGE_ARRIVAL:
		if why == Reason(routerReasonREASON_OTHER_MAC) {
			return fmt.Sprintf("%s, and this interface has %s", text, j.t.macOf(j.verdict.Ingress))
		}
	}
	return text
}

func (j *journey) arrival() string {
	name := j.t.nameOf(j.verdict.Ingress)
	if _, tags, ok := j.t.base(j.verdict.Ingress); ok && len(tags) > 0 {
		for _, t := range tags {
			name += fmt.Sprintf(", VLAN %d", t.id)
		}
	}
	if j.ip.InSession {
		name += fmt.Sprintf(", PPPoE session %d", j.ip.Session)
	}
	return "for us, by " + name
}

func (j *journey) family() string { return j.ip.Family() + " is forwarded by the fast path" }

func (j *journey) sanity() string {
	if j.ip.Source.Is4() {
		return fmt.Sprintf("%d bytes, header and checksum are right", j.ip.Length)
	}
	return fmt.Sprintf("%d bytes, the header is right", j.ip.Length)
}

func (j *journey) ordinary() string {
	return fmt.Sprintf("unicast, TTL %d, nothing that only the kernel can handle", j.ip.TTL)
}

// route names the destination's prefix and next hop.
func (j *journey) route() string {
	prefix, hop := j.t.lookupIn(j.verdict.Ingress, j.ip.Destination)
	if hop == 0 {
		return "no prefix matches " + j.ip.Destination.String()
	}
	return fmt.Sprintf("%v %s", prefix, j.t.hopWords(hop))
}

// source says what the check of the source's address looks at.
func (j *journey) source() string {
	check := j.t.sourceCheck(j.verdict.Ingress, j.ip.Source.Is4())
	if check == "" {
		return "not checked on " + j.t.nameOf(j.verdict.Ingress)
	}
	prefix, hop := j.t.lookupIn(j.verdict.Ingress, j.ip.Source)
	if hop == 0 {
		return fmt.Sprintf("%s: no prefix matches %v", check, j.ip.Source)
	}
	return fmt.Sprintf("%s: %v %s", check, prefix, j.t.hopWords(hop))
}

// neighbour names the adjacency, and of a group the member that the flow's hash chose.
func (j *journey) neighbour() string {
	a := j.t.adjs.at(j.verdict.trace.Adjacency)
	if a == nil {
		return fmt.Sprintf("%v is not known as a neighbour", j.ip.Destination)
	}
	chosen := ""
	if _, hop := j.t.lookupIn(j.verdict.Ingress, j.ip.Destination); int(hop) < len(j.t.hops.byIndex) {
		if h := j.t.hops.byIndex[hop]; h != nil && len(h.members) > 0 {
			chosen = fmt.Sprintf(", by the flow's hash among %d", len(h.members))
		}
	}
	where := fmt.Sprintf("%v on %s", a.key.addr, j.t.nameOf(a.key.ifindex))
	if a.key.addr == farEnd {
		where = "the far end of " + j.t.nameOf(a.key.ifindex)
		if a.mac == ([6]byte{}) {
			return where + chosen
		}
	}
	if a.mac == ([6]byte{}) {
		return where + chosen + " has no MAC yet"
	}
	return fmt.Sprintf("%s is %v (%s)%s%s", where, net.HardwareAddr(a.mac[:]), cmp.Or(rib.NeighbourState(a.state), "not known to the kernel"), chosen,
		j.t.stationWords(a.key.ifindex, a.mac))
}

func (j *journey) size() string {
	a := j.t.adjs.at(j.verdict.trace.Adjacency)
	if a == nil {
		return ""
	}
	way, _, _ := j.t.egressTo(a.key.ifindex, a.mac)
	mtu := way.mtu4
	if j.ip.Source.Is6() {
		mtu = way.mtu6
	}
	return fmt.Sprintf("%d bytes fit the MTU of %s (%d)", j.ip.Length, j.t.nameOf(a.key.ifindex), mtu)
}

// summed has nothing to say of a checksum that is there.
func (j *journey) summed() string { return "" }

func (j *journey) fresh() string { return "the kernel trusts the neighbour's MAC" }

func (j *journey) rewrite() string {
	if j.verdict.Action != ActionRedirect {
		return "tags fit"
	}
	left := packet.Summarize(j.verdict.Packet)
	text := fmt.Sprintf("MAC %v to %v, TTL %d", left.SrcMAC, left.DstMAC, left.TTL)
	for _, tag := range left.Tags {
		text += fmt.Sprintf(", VLAN %d", tag.TCI&0xfff)
	}
	if left.InSession {
		text += fmt.Sprintf(", PPPoE session %d", left.Session)
	}
	return text
}

func (t *tables) nameOf(ifindex int) string {
	if l := t.links[ifindex]; l != nil {
		return l.Name
	}
	if ifindex == 0 {
		return "no interface of ours"
	}
	return fmt.Sprintf("link %d", ifindex)
}

func (t *tables) macOf(ifindex int) string {
	if l := t.links[ifindex]; l != nil {
		return l.MAC.String()
	}
	return "none"
}

// sourceCheck is the check of sources on an interface as its flags in the shared table say; "" for none.
func (t *tables) sourceCheck(ifindex int, v4 bool) string {
	flags := t.prog.interfaces.load(2*ifindex) >> 48
	strict, loose := uint64(ifStrict4), uint64(ifLoose4)
	if !v4 {
		strict, loose = ifStrict6, ifLoose6
	}
	switch {
	case flags&strict != 0:
		return "strict"
	case flags&loose != 0:
		return "loose"
	}
	return ""
}

// lookup is the longest prefix that matches an address and the index of its next hop, 0 for none.
// As in the kernel, the local table comes first.
func (t *tables) lookup(a netip.Addr) (netip.Prefix, uint16) {
	if a.Is4() {
		return longest(t, t.v4, a)
	}
	return longest(t, t.v6, a)
}

func longest[K comparable](t *tables, f *family[K], a netip.Addr) (netip.Prefix, uint16) {
	for _, routes := range []*routeTable[K]{f.local, f.main} {
		for bits := a.BitLen(); bits >= 0; bits-- {
			p := netip.PrefixFrom(a, bits).Masked()
			if hop := routes.best(f.key(p), t.hops.special.index); hop != 0 {
				return p, hop
			}
		}
	}
	return netip.Prefix{}, 0
}

// hopWords says where a next hop leads, as ip route would.
func (t *tables) hopWords(index uint16) string {
	h := t.hops.byIndex[index]
	if h == nil {
		return ""
	}
	if h.spec.stop != 0 {
		return "only the kernel can follow"
	}
	if h.spec.kind != rib.Unicast {
		return routeKinds[h.spec.kind]
	}
	members, stop := t.hops.membersOf(h)
	if stop != 0 {
		return "leads nowhere now"
	}
	var ways []string
	for _, m := range members {
		one := "dev " + t.nameOf(m.hop.Interface)
		if m.hop.Gateway.IsValid() {
			one = fmt.Sprintf("via %v %s", m.hop.Gateway, one)
		}
		ways = append(ways, one)
	}
	text := strings.Join(ways, ", ")
	if len(ways) > 1 {
		text = fmt.Sprintf("over %d next hops: %s", len(ways), text)
	}
	if h.spec.mtu != 0 {
		text += fmt.Sprintf(" mtu %d", h.spec.mtu)
	}
	return text
}

var routeKinds = map[rib.RouteType]string{
	rib.Local: "is the router's own", rib.Broadcast: "is a broadcast address", rib.Anycast: "is an anycast address of the router",
	rib.Multicast: "is multicast", rib.Blackhole: "blackhole", rib.Unreachable: "unreachable", rib.Prohibit: "prohibit", rib.Throw: "throw",
}

// at is the adjacency of an index; nil when there is none.
func (s *adjTable) at(index uint32) *adjacency {
	if index == 0 {
		return nil
	}
	for _, a := range s.all {
		if a.index == index {
			return a
		}
	}
	return nil
}
