// SPDX-License-Identifier: Apache-2.0

package rulegen

import (
	"math/rand/v2"
	"net/netip"

	"minne/internal/base/ipnet"
	"minne/internal/subsystem/fastpath/classify"
)

// Aim is where packets are sent.
type Aim uint8

// The aims.
const (
	Hits  Aim = iota // inside random rules, as ClassBench's traces
	Edges            // at the first and last values of rules and one beside
	Stray            // anywhere
)

// Keys makes n packets of one family.
func Keys(rules []classify.Rule, n int, ipv6 bool, aim Aim, seed uint64) []classify.Key {
	rng := rand.New(rand.NewPCG(seed, uint64(aim)))
	keys := make([]classify.Key, n)
	for i := range keys {
		keys[i] = stray(rng, ipv6)
		if aim != Stray && len(rules) > 0 {
			towards(&keys[i], &rules[rng.IntN(len(rules))], rng, aim == Edges)
			if aim == Edges && rng.IntN(3) == 0 { // a corner of two rules
				mix(&keys[i], &rules[rng.IntN(len(rules))], rng)
			}
		}
	}
	return keys
}

var usual = []uint16{6, 6, 6 | classify.KindSYN, 17, 17, 1, 58, 47, 132, 6 | classify.KindFragment, 17 | classify.KindFragment, 89}

func stray(rng *rand.Rand, ipv6 bool) classify.Key {
	k := classify.Key{
		Source:          [2]uint64{rng.Uint64() << 32},
		Destination:     [2]uint64{rng.Uint64() << 32},
		SourcePort:      uint16(rng.Uint32()),
		DestinationPort: uint16(rng.Uint32()),
		Kind:            usual[rng.IntN(len(usual))],
		IPv6:            ipv6,
	}
	if ipv6 {
		k.Source = [2]uint64{1<<61 | rng.Uint64()>>3, rng.Uint64()}
		k.Destination = [2]uint64{1<<61 | rng.Uint64()>>3, rng.Uint64()}
	}
	return k
}

// towards changes a packet so that a rule matches it, nearly always when it is not for an edge.
func towards(k *classify.Key, r *classify.Rule, rng *rand.Rand, edge bool) {
	k.Source = address(k.Source, r.Source, k.IPv6, rng, edge)
	k.Destination = address(k.Destination, r.Destination, k.IPv6, rng, edge)
	if len(r.Zones) > 0 {
		k.Zone = r.Zones[rng.IntN(len(r.Zones))]
	}
	if r.Protocols != (classify.Protocols{}) && !(edge && rng.IntN(8) == 0) {
		for {
			if k.Kind = uint16(rng.IntN(256)); r.Protocols.Has(uint8(k.Kind)) {
				break
			}
		}
		if k.Kind == 6 && (r.SYN == classify.Only || r.SYN == classify.Either && rng.IntN(4) == 0) {
			k.Kind |= classify.KindSYN
		}
	}
	if r.Fragments == classify.Only || edge && rng.IntN(16) == 0 {
		k.Kind = k.Kind&0xff | classify.KindFragment
	}
	k.SourcePort = port(k.SourcePort, r.SourcePorts, rng, edge)
	k.DestinationPort = port(k.DestinationPort, r.DestinationPorts, rng, edge)
	if n := len(r.ICMP); n > 0 {
		one := r.ICMP[rng.IntN(n)]
		t := uint16(one.Type) << 8
		k.DestinationPort = port(0, []classify.Range{{First: t | uint16(one.FirstCode), Last: t | uint16(one.LastCode)}}, rng, edge)
	}
}

// mix takes one field over from what another rule asks for.
func mix(k *classify.Key, r *classify.Rule, rng *rand.Rand) {
	other := *k
	towards(&other, r, rng, true)
	switch rng.IntN(4) {
	case 0:
		k.Source = other.Source
	case 1:
		k.Destination = other.Destination
	case 2:
		k.SourcePort, k.DestinationPort, k.Kind = other.SourcePort, other.DestinationPort, other.Kind
	case 3:
		k.Zone = other.Zone
	}
}

func address(now [2]uint64, list []netip.Prefix, ipv6 bool, rng *rand.Rand, edge bool) [2]uint64 {
	var own []netip.Prefix
	for _, p := range list {
		if p.Addr().Is6() == ipv6 {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return now
	}
	p := own[rng.IntN(len(own))]
	if !edge {
		return classify.KeyAddress(Inside(p, rng))
	}
	a := p.Masked().Addr()
	if rng.IntN(2) == 0 {
		a = ipnet.Last(p)
	}
	switch rng.IntN(4) {
	case 0:
		if next := a.Next(); next.IsValid() {
			a = next
		}
	case 1:
		if before := a.Prev(); before.IsValid() {
			a = before
		}
	}
	return classify.KeyAddress(a)
}

func port(now uint16, list []classify.Range, rng *rand.Rand, edge bool) uint16 {
	if len(list) == 0 {
		return now
	}
	r := list[rng.IntN(len(list))]
	if !edge {
		return uint16(int(r.First) + rng.IntN(int(r.Last-r.First)+1))
	}
	return [...]uint16{r.First, r.Last, r.First - 1, r.Last + 1}[rng.IntN(4)]
}
