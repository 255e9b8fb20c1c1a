// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"testing"

	"minne/internal/model/rib"
	"minne/internal/subsystem/fastpath/fib"
)

// newTestTables are tables that no packet meets, after a first and empty account.
func newTestTables(t testing.TB) *tables {
	t.Helper()
	prog, err := load(shape{structure: fib.Default, capacity4: fib.Small, capacity6: fib.Small}, nil)
	must(t, err)
	t.Cleanup(prog.close)
	s := newTables(slog.New(slog.DiscardHandler), prog, forwardingEverywhere{})
	s.Begin()
	s.Links([]rib.Link{{Index: 1, Name: "one", Up: true, Running: true, MTU: 1500, MAC: macIn}, {Index: 2, Name: "two", Up: true, Running: true, MTU: 1500, MAC: macOut}})
	s.End()
	return s
}

func route(prefix string, change func(*rib.Route)) rib.RouteChange {
	r := rib.Route{Prefix: netip.MustParsePrefix(prefix), Table: rib.TableMain, Type: rib.Unicast, Hops: []rib.Hop{{Interface: 1, Weight: 1}}}
	if change != nil {
		change(&r)
	}
	return rib.RouteChange{Route: r}
}

func gone(c rib.RouteChange) rib.RouteChange {
	c.Deleted = true
	return c
}

// word is what the next hop of an address means now.
func (t *tables) word(address string) uint64 {
	a := netip.MustParseAddr(address)
	if a.Is4() {
		return t.prog.nexthops.load(int(t.prog.table4.Lookup(a)))
	}
	return t.prog.nexthops.load(int(t.prog.table6.Lookup(a)))
}

func TestTheRouteThatCounts(t *testing.T) {
	s := newTestTables(t)
	one, two := uint64(hopVia|(viaOnLink|1)<<32), uint64(hopVia|(viaOnLink|2)<<32)
	none := stopWord(Reason(routerReasonREASON_NO_ROUTE))
	special := stopWord(Reason(routerReasonREASON_SPECIAL_ROUTE))
	local := stopWord(Reason(routerReasonREASON_LOCAL))
	via2 := func(r *rib.Route) { r.Hops = []rib.Hop{{Interface: 2, Weight: 1}} }
	metric := func(m uint32, also func(*rib.Route)) func(*rib.Route) {
		return func(r *rib.Route) {
			r.Metric = m
			if also != nil {
				also(r)
			}
		}
	}
	isLocal := func(r *rib.Route) { r.Table, r.Type = rib.TableLocal, rib.Local }
	from := func(r *rib.Route) { r.Source = netip.MustParsePrefix("2001:db8:1::/48") }
	for _, c := range []struct {
		name    string
		changes []rib.RouteChange
		address string
		want    uint64
	}{
		{"none", nil, "10.0.0.1", none},
		{"longest", []rib.RouteChange{route("10.0.0.0/8", nil), route("10.1.0.0/16", via2)}, "10.1.2.3", two},
		{"beside the longest", []rib.RouteChange{route("10.0.0.0/8", nil), route("10.1.0.0/16", via2)}, "10.2.2.3", one},
		{"default", []rib.RouteChange{route("0.0.0.0/0", nil)}, "203.0.113.1", one},
		{"lowest metric", []rib.RouteChange{route("10.0.0.0/8", metric(9, nil)), route("10.0.0.0/8", metric(3, via2))}, "10.0.0.1", two},
		{"lowest metric gone", []rib.RouteChange{route("10.0.0.0/8", metric(9, nil)), route("10.0.0.0/8", metric(3, via2)), gone(route("10.0.0.0/8", metric(3, via2)))}, "10.0.0.1", one},
		{"replaced", []rib.RouteChange{route("10.0.0.0/8", nil), route("10.0.0.0/8", via2)}, "10.0.0.1", two},
		{"gone", []rib.RouteChange{route("10.0.0.0/8", nil), gone(route("10.0.0.0/8", nil))}, "10.0.0.1", none},
		{"gone twice", []rib.RouteChange{route("10.0.0.0/8", nil), gone(route("10.0.0.0/8", nil)), gone(route("10.0.0.0/8", nil))}, "10.0.0.1", none},
		{"local wins", []rib.RouteChange{route("10.0.0.1/32", nil), route("10.0.0.1/32", isLocal)}, "10.0.0.1", local},
		{"local wins over longer", []rib.RouteChange{route("10.0.0.0/8", isLocal), route("10.0.0.0/16", nil)}, "10.0.0.1", local},
		{"local gone", []rib.RouteChange{route("10.0.0.0/8", isLocal), route("10.0.0.0/16", nil), gone(route("10.0.0.0/8", isLocal))}, "10.0.0.1", one},
		{"TOS", []rib.RouteChange{route("10.0.0.0/8", nil), route("10.0.0.0/8", func(r *rib.Route) { r.TOS = 8 })}, "10.0.0.1", special},
		{"TOS gone", []rib.RouteChange{route("10.0.0.0/8", func(r *rib.Route) { r.TOS = 8 }), route("10.0.0.0/8", nil), gone(route("10.0.0.0/8", func(r *rib.Route) { r.TOS = 8 }))}, "10.0.0.1", one},
		{"encapsulated", []rib.RouteChange{route("10.0.0.0/8", func(r *rib.Route) { r.Encap = true })}, "10.0.0.1", special},
		{"other table", []rib.RouteChange{route("10.0.0.0/8", func(r *rib.Route) { r.Table = 100 })}, "10.0.0.1", none},
		{"anycast", []rib.RouteChange{route("2001:db8::/128", func(r *rib.Route) { r.Table, r.Type = rib.TableLocal, rib.Anycast })}, "2001:db8::", local},
		{"source-specific", []rib.RouteChange{route("2001:db8::/32", nil), route("2001:db8::/32", from)}, "2001:db8::1", special},
		{"longer than source-specific", []rib.RouteChange{route("2001:db8::/32", from), route("2001:db8::/48", nil)}, "2001:db8::1", one},
		{"source-specific gone", []rib.RouteChange{route("2001:db8::/32", from), route("2001:db8::/32", nil), gone(route("2001:db8::/32", from))}, "2001:db8::1", one},
		{"unknown object", []rib.RouteChange{route("10.0.0.0/8", func(r *rib.Route) { r.NextHopID = 5 })}, "10.0.0.1", special},
		{"MTU", []rib.RouteChange{route("10.0.0.0/8", func(r *rib.Route) { r.MTU = 1400 })}, "10.0.0.1", one | 1400<<16},
		{"unknown link", []rib.RouteChange{route("10.0.0.0/8", func(r *rib.Route) { r.Hops[0].Interface = 99 })}, "10.0.0.1", stopWord(Reason(routerReasonREASON_EGRESS))},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Routes(c.changes)
			if got := s.word(c.address); got != c.want {
				t.Errorf("%#x, expected %#x", got, c.want)
			}
			for _, undo := range c.changes {
				s.Routes([]rib.RouteChange{gone(undo)})
			}
			if got := s.word(c.address); got != none {
				t.Errorf("%#x after all is gone", got)
			}
		})
	}
}

// TestObjectsMoveRoutesTogether: routes by a next-hop object follow it without being told again.
func TestObjectsMoveRoutesTogether(t *testing.T) {
	s := newTestTables(t)
	object := func(id uint32, link int) rib.NextHopGroup {
		return rib.NextHopGroup{ID: id, Hop: rib.Hop{Interface: link, Weight: 1}}
	}
	byID := func(r *rib.Route) { r.NextHopID, r.Hops = 10, nil }
	s.Routes([]rib.RouteChange{route("10.0.0.0/8", byID), route("2001:db8::/32", byID)})
	s.NextHops([]rib.NextHopGroup{object(10, 1)})
	if got := s.word("10.0.0.1"); got != hopVia|(viaOnLink|1)<<32 {
		t.Errorf("single: %#x", got)
	}
	s.NextHops([]rib.NextHopGroup{object(11, 1), object(12, 2), {ID: 10, Members: []rib.NextHopMember{{ID: 11, Weight: 3}, {ID: 12, Weight: 1}}}})
	got := s.word("2001:db8::1")
	if got&0xffff != hopGroup|2<<8 {
		t.Fatalf("group: %#x", got)
	}
	first := int(got >> 32)
	if a, b := s.prog.members.load(first), s.prog.members.load(first+1); a != (viaOnLink|1)<<32|(3<<29-1) || b != (viaOnLink|2)<<32|(1<<31-1) {
		t.Errorf("members %#x %#x", a, b)
	}
	s.NextHops([]rib.NextHopGroup{{ID: 10, Blackhole: true}})
	if got := s.word("10.0.0.1"); got != stopWord(Reason(routerReasonREASON_BLACKHOLE)) {
		t.Errorf("blackhole: %#x", got)
	}
}

// TestASecondAccount: what is not repeated is gone, and at no time is anything missing that is.
func TestASecondAccount(t *testing.T) {
	s := newTestTables(t)
	var kept, dropped []rib.RouteChange
	for i := range 200 {
		c := route(fmt.Sprintf("10.%d.0.0/16", i), nil)
		if i%2 == 0 {
			kept = append(kept, c)
		} else {
			dropped = append(dropped, c)
		}
	}
	s.Routes(kept)
	s.Routes(dropped)
	links := []rib.Link{{Index: 1, Name: "one", Up: true, Running: true, MTU: 1500, MAC: macIn}}
	s.Begin()
	s.Links(links)
	for i := range kept {
		s.Routes(kept[i : i+1])
		if s.word("10.0.0.1") != hopVia|(viaOnLink|1)<<32 {
			t.Fatal("a route that is there was missing during the account")
		}
	}
	s.End()
	for i := range 200 {
		want := stopWord(Reason(routerReasonREASON_NO_ROUTE))
		if i%2 == 0 {
			want = hopVia | (viaOnLink|1)<<32
		}
		if got := s.word(fmt.Sprintf("10.%d.0.1", i)); got != want {
			t.Errorf("10.%d.0.0/16: %#x, expected %#x", i, got, want)
		}
	}
	if len(s.links) != 1 || s.prog.interfaces.load(4) != 0 {
		t.Error("the link that was not repeated is still known")
	}
	if n := s.v4.prefixes(); n != len(kept) {
		t.Errorf("%d prefixes, expected %d", n, len(kept))
	}
}

// TestNextHopsAreGivenBack: after any sequence of changes and their undoing, nothing is left.
func TestNextHopsAreGivenBack(t *testing.T) {
	s := newTestTables(t)
	before := len(s.hops.bySpec)
	r := rand.New(rand.NewPCG(3, 4))
	told := map[netip.Prefix]rib.RouteChange{}
	for range 3000 {
		c := route(fmt.Sprintf("10.0.%d.0/24", r.IntN(40)), func(x *rib.Route) {
			x.Hops = nil
			for range 1 + r.IntN(3) {
				x.Hops = append(x.Hops, rib.Hop{Gateway: netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(9))}), Interface: 1 + r.IntN(2), Weight: 1})
			}
		})
		if r.IntN(3) == 0 {
			c.Deleted = true
			delete(told, c.Route.Prefix)
		} else {
			told[c.Route.Prefix] = c
		}
		s.Routes([]rib.RouteChange{c})
	}
	for _, c := range told {
		s.Routes([]rib.RouteChange{gone(c)})
	}
	if len(s.hops.bySpec) != before || len(s.adjs.all) != 0 || s.v4.prefixes() != 0 {
		t.Errorf("%d next hops, %d adjacencies, %d prefixes are left", len(s.hops.bySpec)-before, len(s.adjs.all), s.v4.prefixes())
	}
}

// TestATableThatDoesNotFit: the family goes to the kernel, the other does not, and comes back.
func TestATableThatDoesNotFit(t *testing.T) {
	s := newTestTables(t)
	var many []rib.RouteChange
	for i := range uint32(400_000) {
		a := netip.AddrFrom4([4]byte{byte(10 + i>>16), byte(i >> 8), byte(i), 0})
		hop := rib.Hop{Interface: 1 + int(i*2654435761>>31), Weight: 1}
		many = append(many, rib.RouteChange{Route: rib.Route{Prefix: netip.PrefixFrom(a, 24), Table: rib.TableMain, Type: rib.Unicast, Hops: []rib.Hop{hop}}})
	}
	s.Routes(many)
	if off4, off6 := splitPair(s.prog.control.load(0)); off4 != routerNumber(routerReasonREASON_TABLE_FULL) || off6 != 0 {
		t.Errorf("full: IPv4 %v, IPv6 %v", Reason(off4), Reason(off6))
	}
	for i := range many {
		many[i].Deleted = true
	}
	s.Routes(many)
	s.Routes(nil)
	if off := s.prog.control.load(0); off != 0 {
		t.Errorf("%#x after the routes are gone", off)
	}
}
