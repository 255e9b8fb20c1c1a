// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"minne/internal/lab/statistics"
	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/fastpath/flow"
)

// The kernel of these tests has no VRFs, so their links, rules and routes are told by hand. What a kernel that has them
// makes of the same packets, test/kinds and test/image compare.

const (
	redTable, blueTable = 100, 0x1_0002
	redIndex, blueIndex = 900, 901
)

// newVRFBench is a bench of which nobody but the test tells the kernel's state any more.
func newVRFBench(t testing.TB) *bench {
	b := newBench(t)
	b.untold()
	return b
}

// untold makes the test the only one who tells, and has rules as the router makes them for VRFs.
func (b *bench) untold() {
	b.watch()
	<-b.watched
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		b.rule(rib.Rule{Family: family, Table: rib.TableLocal, Deleted: true})
		b.rule(rib.Rule{Family: family, Priority: 1000, VRF: true})
		b.rule(rib.Rule{Family: family, Priority: 32765, Table: rib.TableLocal})
	}
}

func (b *bench) rule(r rib.Rule) { b.fast.Rules([]rib.Rule{r}) }

func (b *bench) vrf(index int, name string, table uint32, change func(*rib.Link)) {
	l := rib.Link{Index: index, Name: name, Kind: "vrf", Table: table, MTU: 65575, MAC: macIn, Up: true, Running: true}
	if change != nil {
		change(&l)
	}
	b.fast.Links([]rib.Link{l})
}

// enslave puts a port into a VRF, or with 0 out of it.
func (b *bench) enslave(port string, vrf int) {
	l := b.fast.tables.links[b.fast.tables.indexOf(port)].Link
	l.Master = vrf
	b.fast.Links([]rib.Link{l})
}

// route tells a route: by a gateway, or with a type instead of one.
func (b *bench) route(table uint32, prefix, via string, port string) {
	r := rib.Route{Prefix: netip.MustParsePrefix(prefix), Table: table, Type: rib.Unicast}
	kinds := map[string]rib.RouteType{"unreachable": rib.Unreachable, "local": rib.Local, "broadcast": rib.Broadcast, "blackhole": rib.Blackhole, "throw": rib.Throw}
	if kind, ok := kinds[via]; ok {
		r.Type = kind
	} else {
		h := rib.Hop{Interface: b.fast.tables.indexOf(port), Weight: 1}
		if via != "" {
			h.Gateway = netip.MustParseAddr(via)
		}
		r.Hops = []rib.Hop{h}
	}
	b.fast.Routes([]rib.RouteChange{{Route: r}})
}

// red puts the port in into a VRF, with its addresses and networks as the kernel has them there.
func (b *bench) red() {
	b.vrf(redIndex, "red", redTable, nil)
	b.enslave("in", redIndex)
	b.route(redTable, "0.0.0.0/0", "unreachable", "")
	b.route(redTable, "::/0", "unreachable", "")
	b.route(redTable, "192.0.2.0/24", "", "in")
	b.route(redTable, "192.0.2.1/32", "local", "")
	b.route(redTable, "192.0.2.255/32", "broadcast", "")
	b.route(redTable, "2001:db8:a::/64", "", "in")
	b.route(redTable, "2001:db8:a::1/128", "local", "")
}

// fromA is a packet of host a.
func fromA(dst string) []byte {
	if netip.MustParseAddr(dst).Is6() {
		return udp6(macIn, macA, "2001:db8:a::2", dst, 64, 18)
	}
	return udp4(macIn, macA, "192.0.2.2", dst, 64, 18)
}

const (
	unreachable = Reason(routerReasonREASON_UNREACHABLE)
	byVRF       = Reason(routerReasonREASON_VRF)
	isLocal     = Reason(routerReasonREASON_LOCAL)
	special     = Reason(routerReasonREASON_SPECIAL_ROUTE)
)

// TestVRF: what comes in by an interface in a VRF is routed by the VRF's table and by no other, sources too.
func TestVRF(t *testing.T) {
	b := newVRFBench(t)
	for _, dst := range []string{"198.51.100.2", "2001:db8:b::2"} {
		b.expect(fromA(dst), b.in, Forwarded)
	}
	b.red()
	b.route(redTable, "203.0.113.0/24", "198.51.100.2", "out") // which leads out of the VRF
	b.route(redTable, "2001:db8:f::/64", "2001:db8:b::2", "out")
	b.route(redTable, "203.0.113.128/25", "throw", "")
	for _, c := range []struct {
		dst  string
		want Reason
	}{
		{"198.51.100.2", unreachable}, {"2001:db8:b::2", unreachable},
		{"192.0.2.1", isLocal}, {"2001:db8:a::1", isLocal}, // which main has no more
		{"192.0.2.255", Reason(routerReasonREASON_BROADCAST)},
		{"203.0.113.9", Forwarded}, {"2001:db8:f::9", Forwarded}, {"203.0.113.129", special},
	} {
		v := b.expect(fromA(c.dst), b.in, c.want)
		if c.want == Forwarded && v.Egress != b.out.Attrs().Index {
			t.Errorf("%s leaves by %d", c.dst, v.Egress)
		}
	}
	want := udp4(macB, macOut, "192.0.2.2", "203.0.113.9", 63, 18)
	if got := b.expect(fromA("203.0.113.9"), b.in, Forwarded).Packet; !bytes.Equal(got, want) {
		t.Errorf("out comes\n%x\nexpected\n%x", got, want)
	}
	// The main table goes on as it was, and may lead into a VRF.
	b.expect(udp4(macOut, macB, "198.51.100.2", "192.0.2.2", 64, 18), b.out, Forwarded)
	b.expect(udp4(macOut, macB, "198.51.100.2", "203.0.113.9", 64, 18), b.out, Reason(routerReasonREASON_NO_ROUTE))

	spoofed := source4(fromA("203.0.113.9"), "198.51.100.2")
	b.expect(spoofed, b.in, Forwarded) // nothing is checked
	b.expect(source4(fromA("203.0.113.9"), "192.0.2.1"), b.in, Reason(routerReasonREASON_OWN_SOURCE))
	b.expect(source4(fromA("203.0.113.9"), "192.0.2.255"), b.in, Reason(routerReasonREASON_SOURCE_CHECK))
	b.expect(source4(fromA("203.0.113.9"), "198.51.100.1"), b.in, Forwarded) // an address of the router, not in this VRF
	d := b.desired()
	d.Interfaces["in"] = DesiredPort{FastPath: true, AntiSpoof: "strict"}
	b.fast.desired = d
	b.fast.tables.desired = d
	b.enslave("in", redIndex)
	b.expect(fromA("203.0.113.9"), b.in, Forwarded)
	b.expect(spoofed, b.in, Reason(routerReasonREASON_SPOOFED))
	b.expect(fromA("2001:db8:f::9"), b.in, Forwarded)

	b.enslave("in", 0)
	b.expect(fromA("198.51.100.2"), b.in, Forwarded)
	b.expect(fromA("203.0.113.9"), b.in, Reason(routerReasonREASON_NO_ROUTE))
}

// TestVRFsApart: two VRFs with the same networks, and one whose table ends without a route, where the kernel goes on.
func TestVRFsApart(t *testing.T) {
	b := newVRFBench(t)
	b.route(blueTable, "203.0.113.0/24", "192.0.2.2", "in") // before there is such a VRF
	b.red()
	b.vrf(blueIndex, "blue", blueTable, nil)
	b.enslave("out", blueIndex)
	b.route(redTable, "203.0.113.0/24", "198.51.100.2", "out")
	b.route(redTable, "203.0.113.7/32", "blackhole", "")
	fromB := func(dst string) []byte { return udp4(macOut, macB, "198.51.100.2", dst, 64, 18) }
	in, out := b.in.Attrs().Index, b.out.Attrs().Index
	for range 2 {
		if v := b.expect(fromA("203.0.113.9"), b.in, Forwarded); v.Egress != out {
			t.Errorf("red's leave by %d", v.Egress)
		}
		if v := b.expect(fromB("203.0.113.9"), b.out, Forwarded); v.Egress != in {
			t.Errorf("blue's leave by %d", v.Egress)
		}
		b.expect(fromA("203.0.113.7"), b.in, Reason(routerReasonREASON_BLACKHOLE))
		b.expect(fromB("203.0.113.7"), b.out, Forwarded)
		b.expect(fromB("192.0.2.2"), b.out, special) // nor has the router sources of it to drop
		// Another program, whose tables are filled anew.
		s := b.fast.prog.shape
		s.capacity4 = fib.Full
		must(t, b.fast.rebuild(s))
	}
	b.fast.load = func(shape, map[string]*ebpf.Map) (*program, error) { return nil, errNoMemory }
	s := b.fast.prog.shape
	s.vrfs = fullVRFs
	if b.fast.rebuild(s) == nil {
		t.Error("a program was loaded that could not be")
	}
	b.expect(fromB("203.0.113.9"), b.out, Forwarded)
	b.fast.load = load

	words := func() (list []string) {
		o, err := b.fast.Observe(context.Background())
		must(t, err)
		for _, one := range o.Tables[2:] {
			list = append(list, fmt.Sprint(one.VRF, " ", one.Family, " ", one.Prefixes))
			if one.UsedBytes > 4096 {
				t.Errorf("the %d routes of %s take %d bytes", one.Prefixes, one.VRF, one.UsedBytes)
			}
		}
		return list
	}
	if got, want := words(), []string{"blue ipv4 1", "blue ipv6 0", "red ipv4 6", "red ipv6 3"}; !slices.Equal(got, want) {
		t.Errorf("tables %q, expected %q", got, want)
	}
	// The VRF goes: its interface is in the main table, and its number is another's one day.
	b.enslave("out", 0)
	b.vrf(blueIndex, "blue", blueTable, func(l *rib.Link) { l.Deleted = true })
	b.expect(fromB("203.0.113.9"), b.out, Reason(routerReasonREASON_NO_ROUTE))
	if got := len(words()); got != 2 {
		t.Errorf("%d tables of VRFs are left", got)
	}
}

// TestVRFsOfTheKernel: where the fast path can't route by a VRF, the kernel does, the main table never, and the reason is told.
func TestVRFsOfTheKernel(t *testing.T) {
	b := newVRFBench(t)
	b.red()
	b.route(redTable, "198.51.100.0/24", "198.51.100.2", "out")
	b.route(redTable, "2001:db8:b::/64", "2001:db8:b::2", "out")
	all := []string{"198.51.100.2", "2001:db8:b::2"} // which main has a way to as well
	says := func(reason string, wants ...Reason) {
		t.Helper()
		for i, dst := range all {
			b.expect(fromA(dst), b.in, wants[i])
		}
		o, err := b.fast.Observe(context.Background())
		must(t, err)
		told := fmt.Sprint(o.Held)
		if reason == "" && strings.Contains(told, "in by in") || !strings.Contains(told, reason) {
			t.Errorf("show fast-path says %q, expected %q", told, reason)
		}
	}
	says("", Forwarded, Forwarded)
	b.vrf(redIndex, "red", redTable, func(l *rib.Link) { l.Up = false })
	says("VRF red is down", byVRF, byVRF)
	b.vrf(redIndex, "red", redTable, nil)
	says("", Forwarded, Forwarded)

	before := rib.Rule{Family: unix.AF_INET, Priority: 0, Table: rib.TableLocal}
	b.rule(before)
	says("IPv4 that comes in by in in VRF red: ip rule of priority 0 comes before", byVRF, Forwarded)
	before.Deleted = true
	b.rule(before)
	says("", Forwarded, Forwarded)
	some := rib.Rule{Family: unix.AF_INET6, Priority: 999, VRF: true, Partial: true}
	b.rule(some)
	says("ip rule of priority 999", Forwarded, byVRF)
	some.Deleted = true
	b.rule(some)
	same := rib.Rule{Family: unix.AF_INET, Priority: 1000, Table: 7}
	b.rule(same)
	b.expect(fromA(all[1]), b.in, Forwarded)
	b.expect(fromA(all[0]), b.in, Reason(routerReasonREASON_POLICY_RULES)) // which takes all of the family
	if words := b.fast.tables.vrfRuleWords(unix.AF_INET); !strings.Contains(words, "priority 1000") {
		t.Errorf("a rule of the same priority: %q", words)
	}
	same.Deleted = true
	b.rule(same)
	says("", Forwarded, Forwarded)

	b.vrf(redIndex, "red", redTable, func(l *rib.Link) { l.Kind = "team" })
	says("", Reason(routerReasonREASON_UNKNOWN_INTERFACE), Reason(routerReasonREASON_UNKNOWN_INTERFACE))
	b.vrf(redIndex, "red", redTable, nil)

	for n := range fib.MaxShared { // more than there are numbers for
		b.vrf(1000+n, fmt.Sprint("vrf", n), uint32(1000+n), nil)
	}
	says("", Forwarded, Forwarded)
	b.enslave("in", 1000+fib.MaxShared-1)
	says("has room for 63", byVRF, byVRF)
	for n := range fib.MaxShared {
		b.vrf(1000+n, fmt.Sprint("vrf", n), uint32(1000+n), func(l *rib.Link) { l.Deleted = n != fib.MaxShared-1 })
	}
	says("", special, special) // it has a table now, without a route
}

// TestVRFGrows: routes of a VRF that do not fit make the image larger; what does not fit then is the kernel's.
func TestVRFGrows(t *testing.T) {
	b := newVRFBench(t)
	b.red()
	var batch []rib.RouteChange
	hop := []rib.Hop{{Gateway: netip.MustParseAddr("198.51.100.2"), Interface: b.out.Attrs().Index, Weight: 1}}
	other := []rib.Hop{{Gateway: netip.MustParseAddr("192.0.2.2"), Interface: b.in.Attrs().Index, Weight: 1}}
	for i := range 1 << 17 {
		r := rib.Route{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 15), byte(i >> 7), byte(i << 1)}), 32), Table: redTable, Type: rib.Unicast, Hops: hop}
		if i%3 == 0 {
			r.Hops = other
		}
		batch = append(batch, rib.RouteChange{Route: r})
	}
	b.fast.Routes(batch)
	if b.fast.prog.shape.vrfs != fullVRFs {
		t.Error("the image did not grow")
	}
	v := b.expect(fromA("10.0.0.2"), b.in, Forwarded)
	if v.Egress != b.out.Attrs().Index {
		t.Errorf("by %d", v.Egress)
	}
	b.fast.tables.others[redTable].full[0] = fib.ErrFull
	b.enslave("in", redIndex)
	b.expect(fromA("10.0.0.2"), b.in, byVRF)
	b.expect(fromA("2001:db8:a::1"), b.in, isLocal)
	for i := range batch {
		batch[i].Deleted = true
	}
	b.fast.Routes(batch)
	b.expect(fromA("10.0.0.2"), b.in, unreachable)
}

// TestVRFOfTheRules: with a firewall, an interface has its zone only while it is in the VRF that the kernel's rules have it in.
func TestVRFOfTheRules(t *testing.T) {
	b := newVRFBench(t)
	b.red()
	b.route(redTable, "203.0.113.0/24", "198.51.100.2", "out")
	p := stateless(classify.Rule{Verdict: permit(1)})
	p.VRFs = map[string]uint32{"in": redTable}
	must(t, b.fast.Firewall().Apply(context.Background(), p))
	back := udp4(macOut, macB, "198.51.100.2", "192.0.2.2", 64, 18)
	b.expect(fromA("203.0.113.9"), b.in, Forwarded)
	b.expect(back, b.out, Forwarded)
	b.enslave("in", 0)
	b.expect(fromA("198.51.100.2"), b.in, Reason(routerReasonREASON_ZONE))
	b.expect(back, b.out, Reason(routerReasonREASON_ZONE))
	b.vrf(blueIndex, "blue", blueTable, nil)
	b.route(blueTable, "203.0.113.0/24", "198.51.100.2", "out")
	b.enslave("in", blueIndex)
	b.expect(fromA("203.0.113.9"), b.in, Reason(routerReasonREASON_ZONE))
	b.enslave("in", redIndex)
	b.expect(fromA("203.0.113.9"), b.in, Forwarded)
	b.enslave("out", redIndex)
	b.expect(back, b.out, Reason(routerReasonREASON_ZONE))
}

// inZone makes the kernel keep the connections of both ports in a zone.
func inZone(ruleset string, zone int) string {
	return strings.Replace(ruleset, "chain forward", fmt.Sprintf("chain vrf_in { type filter hook prerouting priority raw; ct zone set iifname map { \"in\" : %d, \"out\" : %[1]d }; }\n\tchain forward", zone), 1)
}

// TestVRFConnections: connections of a VRF are carried as conntrack has them in the VRF's zone, translated as by the kernel, and
// they are those of no other VRF.
func TestVRFConnections(t *testing.T) {
	p := stateful(true)
	p.VRFs = map[string]uint32{"in": redTable, "out": redTable}
	b := newFlowBench(t, inZone(masquerading, redTable), p)
	b.untold()
	b.red()
	b.enslave("out", redIndex)
	outside := func(table uint32) {
		b.route(table, "198.51.100.0/24", "", "out")
		b.route(table, "198.51.100.1/32", "local", "")
		b.route(table, "2001:db8:b::/64", "", "out")
		b.route(table, "2001:db8:b::1/128", "local", "")
	}
	outside(redTable)
	var list []*talk
	for _, c := range talks {
		k := b.open(c.p)
		by := map[bool][]byte{}
		for _, fast := range []bool{false, true} {
			b.fast.ForgetFlows()
			if fast {
				k.carried()
			} else {
				b.evaluateBy(&filter.Policy{Kernel: "for comparison"})
			}
			there, back := b.there(k.out.toB()), b.back(k.in.toA())
			by[fast] = append(append(by[fast], there...), back...)
			b.evaluateBy(p)
		}
		if !bytes.Equal(by[false], by[true]) {
			t.Errorf("%s: the kernel sends\n%x\nthe fast path\n%x", c.name, by[false], by[true])
		}
		k.carried()
		list = append(list, k)
	}
	flows := b.flows()
	if len(flows) < len(list) {
		t.Errorf("%d flows of %d connections", len(flows), len(list))
	}
	for _, f := range flows {
		if f.Key[0].Zone != redTable || f.Key[1].Zone != redTable {
			t.Errorf("flow %v is not in the VRF's zone", f.Key)
		}
	}
	carried := func() (n int) {
		for _, k := range list {
			if b.run(k.out.toB(), b.in).Reason == Forwarded {
				n++
			}
		}
		return n
	}
	keys := func(zone uint16) (keys []flow.Key) {
		for _, f := range flows {
			k := f.Key[0]
			k.Zone = zone
			keys = append(keys, k)
		}
		return keys
	}
	b.fast.EndConnections(keys(0))
	if got := len(b.flows()); got != len(flows) {
		t.Errorf("the end of connections of the main table has ended flows of the VRF: %d of %d are left", got, len(flows))
	}
	b.fast.EndConnections(keys(redTable))
	if got := len(b.flows()); got != 0 {
		t.Errorf("%d flows of connections that have ended are left", got)
	}

	// The same packets, by interfaces in another VRF: conntrack knows nothing of them there.
	const otherTable = 101
	b.vrf(blueIndex, "blue", otherTable, nil)
	outside(otherTable)
	b.route(otherTable, "192.0.2.0/24", "", "in")
	b.route(otherTable, "2001:db8:a::/64", "", "in")
	b.enslave("in", blueIndex)
	b.enslave("out", blueIndex)
	q := *p
	q.VRFs = map[string]uint32{"in": otherTable, "out": otherTable}
	b.evaluateBy(&q)
	if n := carried(); n != 0 {
		t.Errorf("%d connections of a VRF are carried in another", n)
	}
	b.enslave("in", redIndex)
	b.enslave("out", redIndex)
	b.evaluateBy(p)
	if n := carried(); n != len(list) {
		t.Errorf("%d of %d connections are carried in their VRF", n, len(list))
	}
}

// BenchmarkVRF is what a packet costs more that is routed by a VRF's table, and what one of the main table does in a program that
// knows of VRFs. Routes are few, and the same in both.
func BenchmarkVRF(b *testing.B) {
	bench := newVRFBench(b)
	addNeighbour(b, bench.out, "198.51.100.3", macIn, unix.NUD_PERMANENT)
	for _, gateway := range []string{"198.51.100.3", "2001:db8:b::3"} {
		bench.fast.Neighbours([]rib.Neighbour{{Interface: bench.out.Attrs().Index, Address: netip.MustParseAddr(gateway), State: rib.NeighPermanent, MAC: macIn}})
	}
	routes := func(table uint32) {
		bench.route(table, "203.0.113.0/24", "198.51.100.3", "out")
		bench.route(table, "2001:db8:f::/64", "2001:db8:b::3", "out")
	}
	routes(rib.TableMain)
	frames := map[string][]byte{
		"IPv4": udp4(macIn, macA, "192.0.2.2", "203.0.113.2", 255, 18),
		"IPv6": udp6(macIn, macA, "2001:db8:a::2", "2001:db8:f::2", 255, 0),
	}
	without := bench.fast.prog
	bench.red()
	routes(redTable)
	const loopback = 1
	inVRF := bench.fast.prog.interfaces.load(2 * bench.in.Attrs().Index)
	bench.enslave("in", 0)
	bench.loopBy(bench.in)
	inMain := bench.fast.prog.interfaces.load(2 * loopback)
	if inVRF == inMain || bench.fast.prog == without {
		b.Fatal("the port was in no VRF")
	}
	for name, frame := range frames {
		b.Run(name, func(b *testing.B) {
			once := func(word uint64) float64 {
				bench.fast.prog.interfaces.store(2*loopback, word)
				return float64(bench.repeat(frame).Nanoseconds())
			}
			var plain, again, vrf []float64
			for range b.N {
				for range 400 { // in turn
					plain, vrf, again = append(plain, once(inMain)), append(vrf, once(inVRF)), append(again, once(inMain))
				}
			}
			b.ReportMetric(statistics.Median(plain), "ns/plain")
			b.ReportMetric(statistics.Median(vrf)-statistics.Median(plain), "ns-more/vrf")
			b.ReportMetric(statistics.Median(again)-statistics.Median(plain), "ns-more/plain")
			b.ReportMetric(0, "ns/op")
		})
	}
}
