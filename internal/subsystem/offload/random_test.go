// SPDX-License-Identifier: Apache-2.0

package offload_test

import (
	"testing"

	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/testing/offloadtest"
	"minne/internal/testing/policygen"
)

const (
	policies  = 600
	perPolicy = 1000
)

// asked is a packet about which the voices are asked.
type asked struct {
	packet   policy.Packet
	code     uint8
	fragment bool
}

// packets are forwarded packets on the edges of a policy: those that the kernel of
// a test can be sent, and now and then any protocol, a code of ICMP, a fragment.
func packets(g *policygen.Generator, p *policy.Policy) (list []asked) {
	for len(list) < perPolicy {
		w, _, _ := g.Packet(p)
		if w.Out == "" {
			continue
		}
		w.At = policygen.Held
		one := asked{packet: w, code: uint8(g.IntN(3)), fragment: g.IntN(50) == 0}
		if g.IntN(8) == 0 {
			one.packet.Protocol = uint8(policygen.Choose(g, 0, 1, 2, 33, 43, 44, 47, 51, 58, 60, 89, 99, 132, 136, 255))
			one.packet.ICMPType = uint8(policygen.Choose(g, 0, 8, 13, 128, 129))
		}
		list = append(list, one)
	}
	return list
}

// kind is a verdict in words.
func kind(v filter.Verdict) string {
	words := [...]string{filter.Kernel: "kernel", filter.Permit: "permit", filter.Drop: "drop"}[v.Action]
	if v.Log {
		words += " log"
	}
	return words
}

// firstWrong is the first packet that the voices don't agree about; those that they do agree about
// are counted.
func firstWrong(p *policy.Policy, list []asked, tests map[int]int, kinds map[string]int) (one asked, words string, err error) {
	v, err := offloadtest.New(p)
	if err != nil {
		return one, "", err
	}
	for _, pair := range v.Lowered.Pairs {
		if tests != nil {
			tests[len(pair.Tests)]++
		}
	}
	for _, a := range list {
		verdict, words := v.Ask(a.packet, a.code, a.fragment)
		if words == "" && verdict.Action != filter.Kernel { // by a rule that holds always, so at another time too
			later := a.packet
			later.At = policygen.Unheld
			_, words = v.Ask(later, a.code, a.fragment)
		}
		if words != "" {
			return a, words, nil
		}
		if kinds != nil && timed(p, a.packet) {
			kinds["by a rule with a schedule"]++
		}
		if kinds != nil {
			kinds[kind(verdict)]++
		}
	}
	return one, "", nil
}

// timed reports whether the rule that decides holds at some hours only.
func timed(p *policy.Policy, w policy.Packet) bool {
	said := policy.Evaluate(p, w, policy.New)
	return said.Rule != nil && said.Rule.Schedule != nil
}

func TestReferenceAgainstClassifier(t *testing.T) {
	tests, kinds := map[int]int{}, map[string]int{}
	policies := policies
	if testing.Short() {
		policies /= 5
	}
	for seed := range uint64(policies) {
		g := policygen.New(seed)
		d := g.Draft()
		if g.IntN(3) == 0 {
			d = g.Timed(d)
		}
		p, err := d.Compile()
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, d.Text())
		}
		if g.IntN(3) == 0 {
			translated := d
			translated.NAT = []string{g.Translation()}
			if with, err := translated.Compile(); err == nil {
				p, d = with, translated
				kinds["translated policy"]++
			}
		}
		list := packets(g, p)
		one, words, err := firstWrong(p, list, tests, kinds)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, d.Text())
		}
		if words != "" {
			fails := func(d policygen.Draft) bool {
				p, err := d.Compile()
				if err != nil {
					return false
				}
				_, words, err := firstWrong(p, []asked{one}, nil, nil)
				return err == nil && words != ""
			}
			small := d.Shrink(fails)
			p, _ := small.Compile()
			_, words, _ = firstWrong(p, []asked{one}, nil, nil)
			t.Fatalf("seed %d: %s\n%s", seed, words, small.Text())
		}
	}
	t.Logf("%d policies; ways by their tests %v; packets %v", policies, tests, kinds)
	if kinds["translated policy"] < policies/5 {
		t.Errorf("only %d policies had translations", kinds["translated policy"])
	}
	for n := range filter.MaxTests + 1 {
		if tests[n] == 0 {
			t.Errorf("no way had %d tests", n)
		}
	}
	for _, want := range []string{"permit", "drop", "kernel", "permit log", "drop log", "by a rule with a schedule"} {
		if kinds[want] < policies {
			t.Errorf("only %d packets of the kind %q were tried", kinds[want], want)
		}
	}
}
