// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// What the daemon makes for uplinks, made by hand here.
const (
	deadGroup   = "77"
	backupTable = "4711"
)

var macThird, macFar = net.HardwareAddr{2, 0, 0, 0, 0, 5}, net.HardwareAddr{2, 0, 0, 0, 0, 6}

// standing makes the two rules of both families.
func standing(t *testing.T) {
	t.Helper()
	for _, family := range []string{"-4", "-6"} {
		ip(t, family, "rule", "add", "pref", "32100", "table", "main", "suppress_ifgroup", deadGroup)
		ip(t, family, "rule", "add", "pref", "32101", "table", backupTable)
		t.Cleanup(func() { // the namespace is that of all tests
			ip(t, family, "rule", "del", "pref", "32100")
			ip(t, family, "rule", "del", "pref", "32101")
		})
	}
}

// TestPassedOver: what the kernel passes over because its interface is in the group, the program passes over, too, at once for
// all prefixes; what it cannot repeat is the kernel's.
func TestPassedOver(t *testing.T) {
	b := newBench(t)
	third, c := addVeth(t, "third", "c", macThird)
	sysctl(t, "ipv4/conf/third/rp_filter", "0")
	sysctl(t, "ipv4/conf/third/send_redirects", "0")
	addAddress(t, third, "203.0.113.1/24")
	addAddress(t, third, "2001:db8:c::1/64")
	addNeighbour(t, third, "203.0.113.2", macFar, unix.NUD_PERMANENT)
	addNeighbour(t, third, "2001:db8:c::2", macFar, unix.NUD_PERMANENT)
	three := b.desired()
	three.Interfaces["third"] = DesiredPort{FastPath: true}
	must(t, b.fast.Apply(t.Context(), three))
	ip(t, "route", "add", "198.18.5.0/24", "via", "198.51.100.2") // by "out", the uplink that dies
	ip(t, "-6", "route", "add", "2001:db8:d::/48", "via", "2001:db8:b::2")
	standing(t)

	wireA, wireB, wireC := newWire(t, b.a), newWire(t, b.b), newWire(t, c)
	to4, to6 := udp4(macIn, macA, "192.0.2.2", "198.18.5.9", 64, 18), udp6(macIn, macA, "2001:db8:a::2", "2001:db8:d::9", 64, 18)
	none4 := udp4(macIn, macA, "192.0.2.2", "100.64.0.9", 64, 18)
	byOut := []*wayOf{{"IPv4", to4, b.in, addressed(macB), wireB, wireA}, {"IPv6", to6, b.in, addressed(macB), wireB, wireA}}
	byThird := []*wayOf{{"IPv4 passed over", to4, b.in, addressed(macFar), wireC, wireA}, {"IPv6 passed over", to6, b.in, addressed(macFar), wireC, wireA}}
	unrouted := []*wayOf{{"IPv4 without a route in main", none4, b.in, addressed(macFar), wireC, wireA}}
	inside := b.ways()

	// both asks the program, and then the kernel with the program away from the port.
	both := func(ways []*wayOf) {
		t.Helper()
		b.holds(ways, "", Forwarded)
		for _, w := range ways {
			passes(t, w)
		}
		must(t, b.fast.Apply(t.Context(), Desired{Mode: "off"}))
		for _, w := range ways {
			passes(t, w)
		}
		must(t, b.fast.Apply(t.Context(), three))
	}
	both(byOut)
	if r := b.run(none4, b.in).Reason; r != Reason(routerReasonREASON_NO_ROUTE) {
		t.Errorf("a destination without a route: %v", r)
	}

	ip(t, "link", "set", "out", "group", deadGroup) // no backup yet: the rules lead back to main
	both(byOut)
	ip(t, "route", "add", "default", "via", "203.0.113.2", "table", backupTable)
	ip(t, "-6", "route", "add", "default", "via", "2001:db8:c::2", "table", backupTable)
	both(byThird)
	both(unrouted)
	b.holds(inside, "01", Reason(routerReasonREASON_POLICY_RULES)) // to the network of the dead uplink itself
	both(inside[2:])                                               // hosts inside are reached as before

	// The uplinks' networks are in the other table, too, so that the router reaches the neighbours of an uplink that it has left.
	ip(t, "route", "add", "198.51.100.0/24", "dev", "out", "table", backupTable)
	ip(t, "-6", "route", "add", "2001:db8:b::/64", "dev", "out", "table", backupTable)
	both(byThird)
	passes(t, inside[0])

	// A route of main inside such a network, and other networks: what the kernel makes of them is too much.
	policy := Reason(routerReasonREASON_POLICY_RULES)
	ip(t, "route", "add", "198.51.100.128/25", "via", "198.51.100.2")
	b.holds(byThird, "0", policy)
	ip(t, "route", "del", "198.51.100.128/25")
	b.holds(byThird, "", Forwarded)
	ip(t, "route", "add", "10.9.0.0/16", "dev", "out", "table", backupTable)
	b.holds(byThird, "0", policy)
	ip(t, "route", "del", "10.9.0.0/16", "table", backupTable)
	both(byThird)

	// Several ways, one of them by the dead uplink.
	ip(t, "route", "replace", "198.18.5.0/24", "nexthop", "via", "198.51.100.2", "nexthop", "via", "203.0.113.2")
	b.holds(byThird, "0", policy)
	ip(t, "route", "replace", "198.18.5.0/24", "via", "198.51.100.2")
	both(byThird)

	// A default route in main comes before the other table's, and is passed over itself.
	ip(t, "route", "add", "default", "via", "192.0.2.2")
	eventually(t, "main's default route", func() bool { return b.run(none4, b.in).Egress == b.in.Attrs().Index })
	ip(t, "route", "del", "default")
	both(unrouted)
	ip(t, "route", "add", "default", "via", "198.51.100.2")
	both(unrouted)
	ip(t, "route", "del", "default")

	b.stop() // another daemon finds it so
	b.start()
	must(t, b.fast.Apply(t.Context(), three))
	both(byThird)
	both(unrouted)

	ip(t, "link", "set", "out", "group", "0")
	both(byOut)
	ip(t, "route", "flush", "table", backupTable)
	eventually(t, "no route", func() bool { return b.run(none4, b.in).Reason == Reason(routerReasonREASON_NO_ROUTE) })
}
