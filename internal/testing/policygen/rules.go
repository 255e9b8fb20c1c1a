// SPDX-License-Identifier: Apache-2.0

package policygen

import (
	"math/rand/v2"
	"net/netip"

	"minne/internal/lab/rulegen"
	"minne/internal/subsystem/fastpath/classify"
)

// Rules makes a policy that no one would write: up to n rules of both families over few addresses
// and ports, so that they overlap in every way, with every kind of condition.
func Rules(n int, seed uint64) []classify.Rule {
	g := rulesOf{rand.New(rand.NewPCG(seed, 0xa1))}
	rules := make([]classify.Rule, 1+g.IntN(n))
	for i := range rules {
		rules[i] = g.wild()
		rules[i].Verdict = uint32(i+1)<<3 | g.Uint32()&7
	}
	return rules
}

// rulesOf draws the parts of a rule.
type rulesOf struct{ *rand.Rand }

func (g rulesOf) wild() (r classify.Rule) {
	for range g.IntN(3) {
		r.Zones = append(r.Zones, uint8(g.IntN(5)*63))
	}
	r.Family = classify.Family(g.IntN(4))
	r.Source, r.Destination = g.crowd(), g.crowd()
	if g.IntN(2) == 0 {
		for range 1 + g.IntN(3) {
			r.Protocols.Add([]uint8{6, 6, 17, 1, 58, 132, 47, uint8(g.Uint32())}[g.IntN(8)])
		}
	}
	if g.IntN(3) == 0 {
		r.SourcePorts = g.somePorts()
	}
	if g.IntN(2) == 0 {
		r.DestinationPorts = g.somePorts()
	}
	if g.IntN(8) == 0 {
		first := uint8(g.IntN(4))
		r.ICMP = []classify.ICMPRange{{Type: []uint8{0, 3, 8, 128}[g.IntN(4)], FirstCode: first, LastCode: first + uint8(g.IntN(250))}}
	}
	if g.IntN(6) == 0 {
		r.Fragments = classify.Ask(g.IntN(3))
	}
	if g.IntN(6) == 0 {
		r.SYN = classify.Ask(g.IntN(3))
	}
	return r
}

// crowd is none to a few prefixes of any length near two addresses of each family, or anywhere.
func (g rulesOf) crowd() (list []netip.Prefix) {
	for range max(0, g.IntN(6)-2) {
		near := netip.MustParseAddr([]string{"192.0.2.130", "192.0.3.255", "2001:db8:0:1:8000::", "2001:db8:0:1::ffff"}[g.IntN(4)])
		if g.IntN(5) == 0 {
			near = rulegen.Inside(netip.PrefixFrom(near, g.IntN(near.BitLen()+1)).Masked(), g.Rand)
		}
		bits := near.BitLen() - min(g.IntN(near.BitLen()+1), g.IntN(near.BitLen()+1))
		list = append(list, netip.PrefixFrom(near, bits).Masked())
	}
	return list
}

func (g rulesOf) somePorts() (list []classify.Range) {
	for range 1 + g.IntN(2) {
		first := []uint16{0, 22, 80, 81, 443, 1023, 1024, 65535, uint16(g.Uint32())}[g.IntN(9)]
		last := first
		if g.IntN(2) == 0 {
			last += uint16(g.IntN(65536 - int(first)))
		}
		list = append(list, classify.Range{First: first, Last: last})
	}
	return list
}
