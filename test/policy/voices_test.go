// SPDX-License-Identifier: Apache-2.0

// Package policy asks three voices about the same packets: the reference of package
// policy, the kernel with the nftables text that package firewall makes, and the
// classifier's tables with the rules that package offload makes. For each of many
// random policies, packets at the edges of its rules are sent through a router of the
// kernel's, and what comes out, what is answered, and which rule counted it must be what
// the reference says; so must the classifier's verdict and its counter. (The tests of
// package offload ask the reference and the classifier alone about many more.) With
// MINNE_TEST_LONG=1 there are 500 policies and 1,000 packets for each.
package policy

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"minne/internal/model/packet"
	"minne/internal/model/policy"
	"minne/internal/subsystem/firewall"
	"minne/internal/testing/offloadtest"
	"minne/internal/testing/policygen"
	"minne/internal/testing/testframes"
)

const firstStamp = 1

// many is how many policies there are and packets for each: as few as given, or those of the long test.
func many(policies, packets int) (int, int) {
	if os.Getenv("MINNE_TEST_LONG") == "1" {
		return 500, 1000
	}
	return policies, packets
}

func TestThreeVoices(t *testing.T) {
	b := newBed(t)
	for _, s := range []string{"net/ipv4/icmp_msgs_per_sec", "net/ipv4/icmp_msgs_burst"} {
		write(t, s, "1000000")
	}
	write(t, "net/ipv6/icmp/ratelimit", "0")
	v := &voices{b, firewall.New(t.TempDir(), slog.New(slog.DiscardHandler))}
	policies, perPolicy := many(120, 250)
	verdicts := map[string]int{}
	for seed := range uint64(policies) {
		g := policygen.New(seed)
		d := g.Draft()
		p, err := d.Compile()
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, d.Text())
		}
		wrong, counts := v.disagreements(p, trials(g, b, p, perPolicy), verdicts)
		if len(wrong) == 0 && counts == "" {
			continue
		}
		if len(wrong) == 0 {
			t.Fatalf("seed %d: the rules counted other packets than the reference:\n%s\n%s", seed, counts, d.Text())
		}
		small, one := v.shrink(d, wrong[0].trial)
		p, _ = small.Compile()
		again, _ := v.disagreements(p, one, verdicts)
		t.Fatalf("seed %d: %d disagreements, the first:\n%v\nmade small (nothing, if it takes all the packets to happen):\n%v\n%s\n%s",
			seed, len(wrong), wrong[0], again, small.Text(), firewall.Text(p))
	}
	t.Logf("%d policies, verdicts %v", policies, verdicts)
	for _, want := range []string{"permit", "deny", "reject", "reply permit", "self permit", "self deny", "self reject"} {
		if verdicts[want] < policies/10 {
			t.Errorf("only %d packets of the kind %q were tried", verdicts[want], want)
		}
	}
}

type voices struct {
	*bed
	firewall *firewall.Firewall
}

// disagreement is a packet about which a voice does not agree with the reference.
type disagreement struct {
	trial     []trial // the packet, with the one that it answers in front
	reference policy.Verdict
	other     string // what the other voice says
}

func (d disagreement) String() string {
	rule := "no rule"
	if d.reference.Rule != nil {
		rule = d.reference.Rule.Text
	}
	return fmt.Sprintf("%v\n  reference: %v (%s)\n  %s\n", d.trial, d.reference.Action, rule, d.other)
}

// disagreements asks the classifier, loads the policy, sends the packets and the
// replies to those that pass, and compares. counts tells of rules that counted otherwise.
func (v *voices) disagreements(p *policy.Policy, trials []trial, verdicts map[string]int) (wrong []disagreement, counts string) {
	v.t.Helper()
	classifier, err := offloadtest.New(p)
	must(v.t, err)
	// An empty policy between two makes the counters of equal ones begin anew.
	must(v.t, v.firewall.Apply(context.Background(), firewall.Desired{}))
	must(v.t, v.firewall.Apply(context.Background(), firewall.Desired{Policy: p}))
	must(v.t, netlink.ConntrackTableFlush(netlink.ConntrackTable))
	counted := map[int]uint64{}
	round := func(list []trial) (passed []trial) {
		s := &seen{port: map[stamped]int{}, answered: map[netip.Addr]map[string]bool{}}
		for i, t := range list {
			testframes.Stamp(t.frame, uint32(firstStamp+i))
			v.send(t.port, t.frame)
		}
		v.barrier(s)
		for i, t := range list {
			want := policy.Evaluate(p, t.what, t.state)
			if want.Rule != nil {
				counted[want.Rule.ID]++
			}
			verdicts[kind(t, want)]++
			if t.what.Out != "" && !t.reply { // what is forwarded and belongs to no known connection
				if _, got := classifier.Ask(t.what, 0, false); got != "" {
					wrong = append(wrong, disagreement{[]trial{t}, want, "classifier: " + got})
				}
			}
			if got := s.verdict(t, uint32(firstStamp+i), want); got != "" {
				d := disagreement{[]trial{t}, want, "kernel: " + got}
				if t.reply {
					d.trial = []trial{v.original(trials, t), t}
				}
				wrong = append(wrong, d)
			} else if want.Action == policy.Permit {
				passed = append(passed, t)
			}
		}
		return passed
	}
	var replies []trial
	for _, t := range round(trials) {
		if r, ok := answer(v.bed, t); ok && !t.reply {
			r.state = policy.Established
			replies = append(replies, r)
		}
	}
	round(replies)
	return wrong, v.compareCounts(p, counted)
}

// original is the trial that a reply answers.
func (v *voices) original(trials []trial, reply trial) trial {
	i := slices.IndexFunc(trials, func(t trial) bool {
		return t.what.Source == reply.what.Destination && t.what.Destination == reply.what.Source && t.what.Protocol == reply.what.Protocol &&
			(t.what.SourcePort == reply.what.DestPort && t.what.DestPort == reply.what.SourcePort || t.what.ICMPType != 0)
	})
	return trials[i]
}

func kind(t trial, v policy.Verdict) string {
	words := v.Action.String()
	if t.reply {
		words = "reply " + words
	}
	if t.what.Out == "" {
		words = "self " + words
	}
	return words
}

// compareCounts holds the counters of the rules against those of the reference.
func (v *voices) compareCounts(p *policy.Policy, want map[int]uint64) string {
	o, err := v.firewall.Observe(context.Background())
	must(v.t, err)
	if o.Problem != "" {
		v.t.Fatal(o.Problem)
	}
	var wrong strings.Builder
	for _, r := range o.Rules {
		if r.ID <= len(p.Rules) && r.Packets != want[r.ID] {
			fmt.Fprintf(&wrong, "#%d %s: %d packets, the reference says %d\n", r.ID, r.Text, r.Packets, want[r.ID])
		}
	}
	return wrong.String()
}

// note remembers a frame that came out of the router.
func (s *seen) note(port int, frame []byte) {
	id, ok := testframes.StampOf(frame)
	at, etherType, _ := packet.NetworkOffset(frame)
	b := frame[at:]
	if !ok {
		return
	}
	var src, dst netip.Addr
	var protocol byte
	var upper []byte
	switch {
	case etherType == packet.TypeIPv4 && len(b) >= 28:
		src, dst, protocol, upper = netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20])), b[9], b[20:]
	case etherType == packet.TypeIPv6 && len(b) >= 48:
		src, dst, protocol, upper = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40])), b[6], b[40:]
	default:
		return
	}
	if s.answered[dst] == nil {
		s.answered[dst] = map[string]bool{}
	}
	switch {
	case protocol == packet.ProtoTCP && len(upper) >= 14 && upper[13]&packet.RST != 0:
		s.answered[dst][fmt.Sprint("reset ", src, binary.BigEndian.Uint16(upper), binary.BigEndian.Uint16(upper[2:]))] = true
	case protocol == packet.ProtoICMP && upper[0] == packet.ICMPUnreachable, protocol == packet.ProtoICMPv6 && upper[0] == packet.ICMPv6Unreachable:
		inner := packet.Ethernet{Type: etherType}.Append(nil, upper[8:])
		if of, ok := testframes.StampOf(inner); ok {
			s.answered[dst][fmt.Sprint("unreachable ", of)] = true
			return
		}
	}
	s.port[stamped{id, src}] = port
}

// verdict says what the kernel did with a packet, or "" when it did what is wanted.
// What it does with packets to itself is left to the counters, but for answers.
func (s *seen) verdict(t trial, id uint32, want policy.Verdict) string {
	port, out := s.port[stamped{id, t.what.Source}]
	answered := s.answered[t.what.Source][fmt.Sprint("unreachable ", id)] || t.what.Protocol == packet.ProtoTCP &&
		s.answered[t.what.Source][fmt.Sprint("reset ", t.what.Destination, t.what.DestPort, t.what.SourcePort)]
	// Nobody answers a reset with a reset (RFC 9293), nor an error with an error.
	wantAnswer := want.Action == policy.Reject && t.state != policy.Invalid
	switch {
	case t.what.Out != "" && out != (want.Action == policy.Permit):
		return fmt.Sprintf("forwarded: %t, answered: %t", out, answered)
	case out && policygen.PortName(port) != t.what.Out:
		return "left by port " + policygen.PortName(port)
	case t.state == policy.New && !t.reply && !t.odd() && answered != wantAnswer:
		return fmt.Sprintf("forwarded: %t, answered: %t", out, answered)
	}
	return ""
}

// odd tells of protocols without a checksum that the kernel knows: it takes their
// bytes for damaged and tells nobody of a reject.
func (t trial) odd() bool { return t.what.Protocol == 99 || t.what.Protocol == 253 }

// shrink makes a failing policy small: it leaves out lines as long as the packets
// are evaluated differently.
func (v *voices) shrink(d policygen.Draft, trials []trial) (policygen.Draft, []trial) {
	return d.Shrink(func(d policygen.Draft) bool {
		p, err := d.Compile()
		if err != nil {
			return false
		}
		wrong, _ := v.disagreements(p, trials, map[string]int{})
		return len(wrong) > 0
	}), trials
}
