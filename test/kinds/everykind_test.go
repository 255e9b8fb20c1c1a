// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath"
	"minne/internal/testing/testframes"
)

// generated is how many frames there are of each family.
const generated = 4000

// TestEveryKind sends generated frames, good and damaged, through a router that has every kind of link: by the kernel
// alone, and again with the fast path on its ports. The two send the same frames, to the byte, out of the same ports.
// The program is also asked about each: what it forwards is what the kernel sends, what it drops the kernel does not
// send, what it leaves to the kernel is unchanged; and of honest frames it leaves none.
func TestEveryKind(t *testing.T) {
	b := newEveryKind(t)
	families := map[string][]testframes.Sample{"IPv4": frames(false), "IPv6": frames(true)}
	kernel := map[string][][]output{}
	for family, samples := range families {
		kernel[family] = b.ask(t, samples)
	}
	f := b.fast(t)
	b.waitUntilFast(t, f)
	for _, family := range slices.Sorted(maps.Keys(families)) {
		t.Run(family, func(t *testing.T) { b.compare(t, f, families[family], kernel[family]) })
	}
}

// frames are the generated frames of one family.
func frames(v6 bool) (samples []testframes.Sample) {
	g := testframes.NewGenerator(world(v6), 1)
	for n := range uint64(generated) {
		s := g.At(n)
		s.Frame = inPlace(s)
		samples = append(samples, s)
	}
	return samples
}

// world is what the generator has to know.
func world(v6 bool) testframes.World {
	w := testframes.World{EgressMTUs: []int{1500, 1492, 1508, 8996, 9000}}
	var senders, links []netip.Prefix
	for n, p := range places {
		p.number = n
		w.Entries = append(w.Entries, testframes.Entry{Port: n, MAC: p.own, MTU: p.mtu, Tags: p.tags, Sources: []netip.Prefix{p.senders(v6)}})
		senders = append(senders, p.senders(v6))
	}
	own, odd, nowhere := "10.20.%d.1", []string{"0.0.0.0", "127.0.0.1", "224.0.0.5", "255.255.255.255", "10.20.2.255", "10.20.2.0"}, "203.0.113.0/24"
	link := "10.20.%d.8/29"
	if v6 {
		own, odd, nowhere = "fd00:20:%d::1", []string{"::", "::1", "ff02::1", "ff0e::1", "fe80::1", "fd00:20:2::"}, "2001:db8::/32"
		link = "fd00:20:%d::8/125"
	}
	for n := 1; n <= 11; n++ {
		if n != 7 && n != 8 { // sessions have no network
			w.Specials = append(w.Specials, netip.MustParseAddr(fmt.Sprintf(own, n)))
			links = append(links, netip.MustParsePrefix(fmt.Sprintf(link, n)))
		}
	}
	for _, a := range odd {
		w.Specials = append(w.Specials, netip.MustParseAddr(a))
	}
	w.Destinations = []testframes.Pool{{Weight: 80, Prefixes: senders}, {Weight: 12, Prefixes: links}, {Weight: 8, Prefixes: []netip.Prefix{netip.MustParsePrefix(nowhere)}}}
	return w
}

// inPlace is a generated frame as its place sends it: from its station, in its session, and some with damage that
// only such a place knows.
func inPlace(s testframes.Sample) []byte {
	p, f := places[s.Port], bytes.Clone(s.Frame)
	rng := rand.New(rand.NewPCG(2, s.Number))
	copy(f[6:], p.station[:])
	switch {
	case p.session != 0 && rng.IntN(16) != 0: // else beside the session
		f = packet.AddSession(f, packet.Session{ID: p.session, Peer: p.station})
		if at, kind, ok := packet.NetworkOffset(f); ok && kind == packet.TypeSession && rng.IntN(8) == 0 {
			damageSession(rng, f, at)
		}
	case p.bridged && rng.IntN(8) == 0: // to another station of the bridge, or one that nobody knows
		others := []packet.MAC{places[1].station, places[2].station, places[3].station, places[4].station, {2, 0xee, 0, 0, 9, 9}}
		to := others[rng.IntN(len(others))]
		copy(f, to[:])
	case rng.IntN(16) == 0: // the same VLAN, of another priority
		if len(f) > 16 && binary.BigEndian.Uint16(f[12:]) == packet.TypeVLAN {
			f[14] |= 0xe0
		}
	}
	if len(f) > oneBuffer {
		f = append(f, make([]byte, -len(f)&7)...)
	}
	return f
}

// oneBuffer is what a veth pair puts into the first buffer of a frame, bytes. Linux 6.12 puts the rest of a longer one, whatever
// its length, in front of the next frame's buffer. That must stand at an even address, or the kernel ends in a panic
// (skb_pp_cow_data, VETH_XDP_FLAG). Network cards have buffers of one size.
const oneBuffer = 3520

// damageSession changes the headers of PPPoE and PPP that stand at a place of a frame. Never the session's end: that is
// another EtherType.
func damageSession(rng *rand.Rand, f []byte, at int) {
	length := binary.BigEndian.Uint16(f[at+4:])
	switch rng.IntN(7) {
	case 0: // version and type
		f[at] ^= 1 << rng.IntN(8)
	case 1: // code
		f[at+1] = byte(1 + rng.IntN(255))
	case 2: // another session
		f[at+3] ^= 1 << rng.IntN(8)
	case 3, 4:
		lies := []uint16{0, 1, 2, 3, 21, length - 1, length + 1, length - 8, length + 300, 0xffff}
		binary.BigEndian.PutUint16(f[at+4:], lies[rng.IntN(len(lies))])
	case 5: // the other family, no family of ours, compressed
		other := []uint16{0x0021, 0x0057, 0x0031, 0x2145, 0x2160, 0x0000, 0xff03}
		binary.BigEndian.PutUint16(f[at+6:], other[rng.IntN(len(other))])
	case 6: // another concentrator
		f[11] ^= 1
	}
}

// inUse is the reason for which now and then a frame goes up, so that a bridge keeps its station.
const inUse = "refresh"

// waitUntilFast returns when the program forwards from each place to each.
func (b *everyBed) waitUntilFast(t *testing.T, f *fastpath.FastPath) {
	t.Helper()
	why := ""
	defer func() {
		if t.Failed() {
			t.Logf("the last: %s", why)
			if o, err := f.Observe(t.Context()); err == nil {
				t.Logf("ports %+v\n%+v", o.Ports, o.Held)
			}
		}
	}()
	until(t, "the program forwards between all places", func() bool {
		for _, from := range places {
			for _, to := range places {
				v, err := f.Run(b.marker(from, to, 0), b.ifindex(t, from))
				must(t, err)
				if v.Reason != fastpath.Forwarded && v.Reason.String() != inUse {
					why = fmt.Sprintf("from %s to %s: %v", from.name, to.name, v.Reason)
					return false
				}
			}
		}
		return true
	})
}

// ifindex is the router's port at which a place's frames come in.
func (b *everyBed) ifindex(t *testing.T, p place) int {
	t.Helper()
	for index, fars := range b.ports {
		if len(fars) == 1 && fars[0] == p.far {
			return index
		}
	}
	t.Fatalf("no port for far end %d", p.far)
	return 0
}

// compare sends the frames again and compares all that is said of each.
func (b *everyBed) compare(t *testing.T, f *fastpath.FastPath, samples []testframes.Sample, kernel [][]output) {
	verdicts := make([]fastpath.Verdict, len(samples))
	outputs := make([][]output, len(samples))
	for i, s := range samples {
		for {
			var err error
			verdicts[i], err = f.Run(s.Frame, b.ifindex(t, places[s.Port]))
			must(t, err)
			if verdicts[i].Reason.String() != inUse {
				break
			}
			b.mark(t, nil, samples, outputs) // all stations are heard again
		}
	}
	before, windows := sent(t, f), b.windows
	live := b.ask(t, samples)
	carried := sent(t, f) - before - (b.windows-windows)*uint64(markers)
	counts, ways, wrong := map[string]int{}, map[string]int{}, 0
	for i, s := range samples {
		v := verdicts[i]
		counts[fmt.Sprint(v.Reason)]++
		if v.Reason == fastpath.Forwarded {
			ways["in by "+places[s.Port].name]++
			ways["out by "+b.placeOf(v)]++
		}
		if err := errors.Join(b.programAgrees(s, v, kernel[i]), sameOutputs(s, kernel[i], live[i])); err != nil {
			wrong++
			t.Errorf("frame %d (%s) from %s:\n%x\nprogram: %v\n%v", s.Number, s.Kind(), places[s.Port].name, head(s.Frame), v.Reason, err)
		}
		if wrong == 10 {
			t.Fatal("too many disagreements")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-24s %6d", key, counts[key])
	}
	// Now and then one goes up for the bridge's sake.
	if n := counts[fastpath.Forwarded.String()]; carried < uint64(n)*9/10 || carried > uint64(n) {
		t.Errorf("the fast path forwarded %d frames of %d", carried, n)
	}
	for _, p := range places {
		for _, way := range []string{"in by " + p.name, "out by " + p.name} {
			if ways[way] < generated/100 {
				t.Errorf("only %d frames were forwarded %s", ways[way], way)
			}
		}
	}
}

// sent is how many packets the fast path has forwarded.
func sent(t *testing.T, f *fastpath.FastPath) (n uint64) {
	t.Helper()
	o, err := f.Observe(t.Context())
	must(t, err)
	for _, i := range o.Traffic {
		n += i.TxPackets
	}
	return n
}

// placeOf is the place to which a forwarded packet goes.
func (b *everyBed) placeOf(v fastpath.Verdict) string {
	to := v.Packet[:6]
	for _, p := range places {
		if bytes.Equal(to, p.station[:]) {
			return p.name
		}
	}
	return fmt.Sprintf("%x", to)
}

// programAgrees: the kernel sends what the program forwards, the same bytes out of the same port, and nothing of what
// it drops; the rest is unchanged.
func (b *everyBed) programAgrees(s testframes.Sample, v fastpath.Verdict, kernel []output) error {
	switch {
	case v.Action == fastpath.ActionDrop:
		if len(kernel) > 0 {
			return fmt.Errorf("the program drops it, the kernel sends it out of %d", kernel[0].far)
		}
	case v.Action == fastpath.ActionPass:
		if !bytes.Equal(s.Frame, v.Packet) {
			return fmt.Errorf("it is left to the kernel as %x", head(v.Packet))
		}
		routed := len(kernel) == 1 && !bytes.Equal(kernel[0].frame[6:12], s.Frame[6:12])
		odd := packet.Summarize(s.Frame).Type == packet.TypeSession // Linux looks at neither version nor code of a session's header
		if s.Kind() == "plain" && routed && !odd && v.Reason.String() != "redirect" {
			return errors.New("an honest frame is left to the kernel")
		}
	case len(kernel) != 1:
		return fmt.Errorf("the program forwards it, the kernel sends %d frames", len(kernel))
	case !slices.Contains(b.ports[v.Port], kernel[0].far) || !bytes.Equal(v.Packet, kernel[0].frame):
		return fmt.Errorf("the program forwards it out of one of %v, the kernel out of %d:\n%x\n%x", b.ports[v.Port], kernel[0].far, head(v.Packet), head(kernel[0].frame))
	}
	return nil
}

// sameOutputs: with the fast path the same frames come out of the same ports. The kernel writes the time of day into some
// IPv4 options.
func sameOutputs(s testframes.Sample, kernel, live []output) error {
	ordered := func(list []output) []output {
		list = slices.Clone(list)
		for i, o := range list {
			if core := places[placeOf("core")]; o.far == core.far+1 && o.frame[12] == packet.TypeVLAN>>8 {
				list[i].far = core.far // see docs/design/fast-path.md, "Bonds"
			}
		}
		return slices.SortedFunc(slices.Values(list), func(x, y output) int { return cmp.Or(cmp.Compare(x.far, y.far), bytes.Compare(x.frame, y.frame)) })
	}
	kernel, live = ordered(kernel), ordered(live)
	same := func(x, y output) bool {
		return x.far == y.far && (bytes.Equal(x.frame, y.frame) || strings.Contains(s.Kind(), "options") && len(x.frame) == len(y.frame))
	}
	if slices.EqualFunc(kernel, live, same) {
		return nil
	}
	text := fmt.Sprintf("%d frames without fast path, %d with it", len(kernel), len(live))
	for _, o := range kernel {
		text += fmt.Sprintf("\nwithout, %d: %x", o.far, head(o.frame))
	}
	for _, o := range live {
		text += fmt.Sprintf("\nwith,    %d: %x", o.far, head(o.frame))
	}
	return errors.New(text)
}
