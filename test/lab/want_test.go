// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
)

// want is what the packets of a pattern must be.
type want struct {
	table  []netip.Prefix       // its routes, and where destinations are from unless anywhere is set
	every  bool                 // … each prefix in turn
	anyway bool                 // destinations are from the whole Internet
	sizes  map[int]int          // frames of each size, without FCS
	order  []int                // sizes come in this order
	ipv6   int                  // packets of IPv6
	tcp    bool                 // all packets
	back   int                  // packets from right to left
	flows  int                  // different flows, all the time the same
	alive  int                  // at most so many flows at the same time …
	life   int                  // … of at most so many packets
	fresh  func([]packet) error // what random packets must be
}

// check holds packets, in the order in which they were sent, against what was asked for.
func (w want) check(t *testing.T, packets []packet) {
	t.Helper()
	sizes, six, tcp, back := map[int]int{}, 0, 0, 0
	for i, p := range packets {
		sizes[len(p.bytes)]++
		if w.order != nil && len(p.bytes) != w.order[i%len(w.order)] {
			t.Fatalf("frame %d has %d bytes, expected %d", i, len(p.bytes), w.order[i%len(w.order)])
		}
		from := 0
		if p.stream >= 2 {
			back, from = back+1, 1
		}
		if p.source.Is6() {
			six++
		}
		if p.protocol == 6 {
			tcp++
		}
		if p.ttl != 64 {
			t.Fatalf("frame %d has a TTL of %d", i, p.ttl)
		}
		w.addresses(t, i, p, from)
	}
	if !maps.Equal(sizes, w.sizes) {
		t.Errorf("sizes without FCS are %v, expected %v", sizes, w.sizes)
	}
	if six != w.ipv6 || back != w.back || tcp != map[bool]int{true: frames}[w.tcp] {
		t.Errorf("%d packets of IPv6, %d from right to left, %d of TCP", six, back, tcp)
	}
	w.checkFlows(t, packets)
	if w.fresh != nil {
		if err := w.fresh(packets); err != nil {
			t.Error(err)
		}
	}
	if w.every {
		w.inTurn(t, packets)
	}
}

// addresses holds a packet's addresses against the pools.
func (w want) addresses(t *testing.T, i int, p packet, from int) {
	t.Helper()
	family := 0
	if p.source.Is6() {
		family = 1
	}
	pools := behind[family]
	ok := pools[from].Contains(p.source)
	switch {
	case w.anyway && from == 0:
		ok = ok && p.destination.IsGlobalUnicast() && !p.destination.IsPrivate() && !pools[0].Contains(p.destination)
	case w.table != nil && from == 0:
		ok = ok && slices.ContainsFunc(w.table, func(n netip.Prefix) bool { return n.Contains(p.destination) })
	default:
		ok = ok && pools[1-from].Contains(p.destination)
	}
	if !ok {
		t.Fatalf("packet %d goes from %v to %v: not the addresses of this pattern", i, p.source, p.destination)
	}
}

// checkFlows counts flows, how many of them are alive at the same time, and how long they live.
func (w want) checkFlows(t *testing.T, packets []packet) {
	t.Helper()
	type life struct{ first, last, packets int }
	lives := map[flow]*life{}
	for i, p := range packets {
		l := lives[p.flow()]
		if l == nil {
			l = &life{first: i}
			lives[p.flow()] = l
		}
		l.last = i
		l.packets++
	}
	if w.flows > 0 && w.fresh == nil && len(lives) != w.flows {
		t.Errorf("%d flows, expected %d", len(lives), w.flows)
	}
	if w.alive == 0 {
		return
	}
	births, deaths := make([]int, len(packets)+1), make([]int, len(packets)+1)
	longest := 0
	for _, l := range lives {
		births[l.first]++
		deaths[l.last+1]++
		longest = max(longest, l.packets)
	}
	alive, most := 0, 0
	for i := range packets {
		alive += births[i] - deaths[i]
		most = max(most, alive)
	}
	if longest > w.life || most > w.alive {
		t.Errorf("up to %d flows at a time of up to %d packets, expected %d of %d", most, longest, w.alive, w.life)
	}
	// One new flow every life packets, beside those that are there from the beginning.
	if expected := len(packets)/w.life + min(w.alive, len(packets)); len(lives) > expected+w.alive/w.life+2 || len(lives) < len(packets)/w.life {
		t.Errorf("%d flows in %d packets, expected about %d", len(lives), len(packets), expected)
	}
}

// inTurn sees that every prefix of the table got as many packets as any other.
func (w want) inTurn(t *testing.T, packets []packet) {
	t.Helper()
	hits := map[netip.Prefix]int{}
	for _, p := range packets {
		for _, n := range w.table {
			if n.Contains(p.destination) {
				hits[n]++
			}
		}
	}
	of := 0
	for _, n := range w.table {
		if n.Addr().Is6() == packets[0].source.Is6() {
			of++
		}
	}
	for _, n := range hits {
		if len(hits) != of || n < len(packets)/of-1 || n > len(packets)/of+1 {
			t.Errorf("packets of each of %d prefixes: %v", of, hits)
			return
		}
	}
}

// distinct counts different values.
func distinct[T comparable](packets []packet, value func(packet) T) int {
	all := map[T]struct{}{}
	for _, p := range packets {
		all[value(p)] = struct{}{}
	}
	return len(all)
}

// newTargets: nearly every packet goes to another address (two may fall on one by chance).
func newTargets(packets []packet) error {
	if n := distinct(packets, func(p packet) netip.Addr { return p.destination }); n < len(packets)*9/10 {
		return fmt.Errorf("only %d destinations of %d packets", n, len(packets))
	}
	return nil
}

// newDestinations: … and all are from one address.
func newDestinations(packets []packet) error {
	if n := distinct(packets, func(p packet) netip.Addr { return p.source }); n != 1 {
		return fmt.Errorf("%d sources", n)
	}
	return newTargets(packets)
}

// newTuples: no two packets are of one flow.
func newTuples(packets []packet) error {
	if n := distinct(packets, packet.flow); n != len(packets) {
		return fmt.Errorf("%d flows of %d packets", n, len(packets))
	}
	return newTargets(packets)
}

// newPorts: one source and one destination, every packet with other ports.
func newPorts(packets []packet) error {
	pairs := distinct(packets, func(p packet) [2]netip.Addr { return [2]netip.Addr{p.source, p.destination} })
	if n := distinct(packets, packet.flow); pairs != 1 || n < len(packets)-5 {
		return fmt.Errorf("%d pairs of addresses and %d flows", pairs, n)
	}
	return portsOfRFC4814(packets)
}

// portsOfRFC4814: sources from 1024 on, destinations from 1 to 49151 (RFC 4814 section 4.5), spread over all of that.
func portsOfRFC4814(packets []packet) error {
	low, high := uint16(65535), uint16(0)
	for _, p := range packets {
		if p.sourcePort < 1024 || p.targetPort < 1 || p.targetPort > 49151 {
			return fmt.Errorf("ports %d to %d", p.sourcePort, p.targetPort)
		}
		low, high = min(low, p.targetPort), max(high, p.targetPort)
	}
	if low > 49151/4 || high < 49151*3/4 {
		return fmt.Errorf("destination ports are only from %d to %d", low, high)
	}
	return nil
}
