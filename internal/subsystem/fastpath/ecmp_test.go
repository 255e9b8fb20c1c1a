// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ecmpFlow is one flow to a multipath destination: random addresses, ports, and a protocol whose
// ports the kernel knows, or not.
func ecmpFlow(r *rand.Rand, v6 bool) []byte {
	protocols := []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE, unix.IPPROTO_DCCP,
		unix.IPPROTO_ESP, unix.IPPROTO_AH, unix.IPPROTO_GRE, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6, unix.IPPROTO_IPIP, 132, 200}
	protocol := protocols[r.IntN(len(protocols))]
	payload := make([]byte, []int{0, 2, 4, 8, 26}[r.IntN(5)])
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	if v6 {
		f := udp6(macIn, macA, "2001:db8:a::2", "2001:db8:f::", 64, 0)[:14+40]
		f[14+1], f[14+2], f[14+3] = byte(r.IntN(16)), byte(r.Uint32()), byte(r.Uint32()) // flow label
		binary.BigEndian.PutUint64(f[14+8+8:], r.Uint64())
		binary.BigEndian.PutUint64(f[14+24+8:], r.Uint64())
		f[14+8+7], f[14+6] = byte(r.Uint32()), protocol
		binary.BigEndian.PutUint16(f[14+4:], uint16(len(payload)))
		return append(f, payload...)
	}
	f := udp4(macIn, macA, "10.0.0.0", "203.0.113.0", 64, 0)[:14+20]
	binary.BigEndian.PutUint32(f[14+12:], 0x0a000000|r.Uint32()&0xffffff)
	f[14+19], f[14+9] = byte(r.Uint32()), protocol
	binary.BigEndian.PutUint16(f[14+2:], uint16(20+len(payload)))
	setChecksum4(f[14:])
	return append(f, payload...)
}

// TestMultipathChoosesAsTheKernel sends each flow through the kernel and asks the program where it
// would send it: the answers must be the same, for routes with hops and for next-hop objects, with
// equal and unequal weights.
func TestMultipathChoosesAsTheKernel(t *testing.T) {
	b := newBench(t)
	notReady := routerNumber(routerReasonREASON_NOT_READY)
	index := b.out.Attrs().Index
	gateways := map[byte]net.HardwareAddr{}
	for i := byte(1); i <= 4; i++ {
		gateways[i] = net.HardwareAddr{2, 0, 0, 0, 1, i}
		addNeighbour(t, b.out, fmt.Sprintf("198.51.100.%d", 10+i), gateways[i], unix.NUD_PERMANENT)
		addNeighbour(t, b.out, fmt.Sprintf("2001:db8:b::%d", 10+i), gateways[i], unix.NUD_PERMANENT)
	}
	wireA, wireB := newWire(t, b.a), newWire(t, b.b)
	for _, c := range []struct {
		name    string
		weights []int
		objects bool
		policy  string
		seed    string // changes as the router runs
	}{
		{"two", []int{1, 1}, false, "1", "305419896"},
		{"unequal", []int{3, 1, 7, 200}, false, "1", "7"},
		{"objects", []int{1, 1, 1}, true, "1", "7"},
		{"unequal objects", []int{5, 2, 9, 1}, true, "1", "4000000000"},
		{"addresses", []int{3, 1, 7}, false, "0", "4000000000"},
		{"addresses, objects", []int{5, 2, 9, 1}, true, "0", "8"},
	} {
		sysctl(t, "ipv4/fib_multipath_hash_policy", c.policy)
		sysctl(t, "ipv6/fib_multipath_hash_policy", c.policy)
		sysctl(t, "ipv4/fib_multipath_hash_seed", c.seed)
		b.look()
		for _, v6 := range []bool{false, true} {
			if v6 && c.policy == "0" {
				continue // the kernel's: TestMultipathHashesOfTheKernel
			}
			t.Run(fmt.Sprintf("%s v6=%v", c.name, v6), func(t *testing.T) {
				prefix, gateway, first := "203.0.113.0/24", "198.51.100.%d", 100
				if v6 {
					first = 200
					prefix, gateway = "2001:db8:f::/64", "2001:db8:b::%d"
				}
				_, dst, err := net.ParseCIDR(prefix)
				must(t, err)
				route := &netlink.Route{Dst: dst}
				for i, w := range c.weights {
					gw := netip.MustParseAddr(fmt.Sprintf(gateway, 11+i))
					if c.objects {
						ip(t, "nexthop", "replace", "id", fmt.Sprint(first+1+i), "via", gw.String(), "dev", "out")
						continue
					}
					route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: index, Gw: gw.AsSlice(), Hops: w - 1})
				}
				if c.objects {
					group := ""
					for i, w := range c.weights {
						group += fmt.Sprintf("/%d,%d", first+1+i, w)
					}
					ip(t, "nexthop", "replace", "id", fmt.Sprint(first), "group", group[1:])
					ip(t, "route", "replace", prefix, "nhid", fmt.Sprint(first))
				} else {
					must(t, netlink.RouteReplace(route))
				}
				r := rand.New(rand.NewPCG(1, 2))
				eventually(t, "the route is in the fast path", func() bool {
					v := b.run(ecmpFlow(r, v6), b.in)
					return v.Reason == Forwarded
				})
				icmp := 0
				defer func() {
					ip(t, "route", "del", prefix)
					eventually(t, "the route is gone", func() bool { return b.run(ecmpFlow(r, v6), b.in).Reason != Forwarded })
				}()
				same := map[string]int{}
				for range 500 {
					frame := ecmpFlow(r, v6)
					v := b.run(frame, b.in)
					if c.policy == "0" && isICMP(frame) { // of errors the kernel hashes what they are about
						b.expect(frame, b.in, Reason(routerReasonREASON_MULTIPATH_HASH))
						icmp++
						continue
					}
					if v.Reason != Forwarded {
						t.Fatalf("%x: %v", frame, v.Reason)
					}
					b.fast.locked(func() { b.fast.prog.control.store(0, pair(notReady, notReady)) }) // all up to the kernel
					wireA.send(frame)
					got := wireB.next(time.Second, func(f []byte) bool { return len(f) > 14 && f[4] == 1 && f[12] == frame[12] })
					b.fast.locked(b.fast.tables.renderControl)
					if got == nil {
						t.Fatalf("the kernel did not forward %x", frame)
					}
					if string(got) != string(v.Packet) {
						t.Fatalf("fast path sends\n%x\nkernel sends\n%x", v.Packet, got)
					}
					same[string(got[:6])]++
				}
				if c.policy == "0" && icmp == 0 {
					t.Error("no ICMP among the flows")
				}
				if len(same) != len(c.weights) {
					t.Errorf("%d of %d gateways were used", len(same), len(c.weights))
				}
			})
		}
	}
}

// isICMP says whether a frame of either family is ICMP.
func isICMP(frame []byte) bool {
	if frame[12] == 0x86 {
		return frame[14+6] == unix.IPPROTO_ICMPV6
	}
	return frame[14+9] == unix.IPPROTO_ICMP
}

// TestMultipathHashesOfTheKernel: what the program can't hash as the kernel does is the kernel's, with the setting's
// name, and only where there are several next hops.
func TestMultipathHashesOfTheKernel(t *testing.T) {
	sysctl(t, "ipv6/fib_multipath_hash_policy", "1")
	b := newBench(t)
	t.Cleanup(func() {
		ip(t, "route", "flush", "203.0.113.0/24")
		ip(t, "route", "flush", "2001:db8:f::/64")
	})
	for _, family := range []struct{ prefix, gateway string }{{"203.0.113.0/24", "198.51.100.%d"}, {"2001:db8:f::/64", "2001:db8:b::%d"}} {
		args := []string{"route", "add", family.prefix}
		for i := 11; i <= 12; i++ {
			gateway := fmt.Sprintf(family.gateway, i)
			addNeighbour(t, b.out, gateway, macB, unix.NUD_PERMANENT)
			args = append(args, "nexthop", "via", gateway, "dev", "out")
		}
		ip(t, args...)
	}
	kernel := Reason(routerReasonREASON_MULTIPATH_HASH)
	for _, c := range []struct {
		path, value string
		v4, v6      Reason
	}{
		{"ipv4/fib_multipath_hash_policy", "1", Forwarded, Forwarded},
		{"ipv4/fib_multipath_hash_policy", "2", kernel, Forwarded},
		{"ipv6/fib_multipath_hash_policy", "3", kernel, kernel},
		{"ipv4/fib_multipath_hash_policy", "0", Forwarded, kernel},
		{"ipv6/fib_multipath_hash_policy", "0", Forwarded, kernel},
		{"ipv6/fib_multipath_hash_policy", "1", Forwarded, Forwarded},
		{"ipv4/fib_multipath_use_neigh", "1", kernel, Forwarded},
		{"ipv4/fib_multipath_use_neigh", "0", Forwarded, Forwarded},
	} {
		sysctl(t, c.path, c.value)
		for dst, want := range map[string]Reason{"203.0.113.7": c.v4, "2001:db8:f::7": c.v6} {
			eventually(t, fmt.Sprintf("%s=%s: %s %v", c.path, c.value, dst, want), func() bool {
				b.look()
				if dst[0] == '2' && dst[4] == ':' {
					return b.run(udp6(macIn, macA, "2001:db8:a::2", dst, 64, 0), b.in).Reason == want
				}
				return b.run(udp4(macIn, macA, "192.0.2.2", dst, 64, 0), b.in).Reason == want
			})
		}
		if name := strings.ReplaceAll(c.path, "/", "."); (c.v4 == kernel || c.v6 == kernel) && c.value != "0" && !strings.Contains(b.says(), name) {
			t.Errorf("%s=%s: show fast-path says %q", c.path, c.value, b.says())
		}
		b.expect(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0), b.in, Forwarded)
	}
}

// TestSettingsThatNobodyAnnounces: they are followed by looking.
func TestSettingsThatNobodyAnnounces(t *testing.T) {
	b := newBench(t)
	back := udp4(macIn, macA, "192.0.2.7", "192.0.2.2", 64, 0) // leaves where it came in
	reason := func(want Reason) {
		t.Helper()
		eventually(t, want.String(), func() bool {
			b.look()
			return b.run(back, b.in).Reason == want
		})
	}
	for _, name := range []string{"in", "all"} {
		reason(Forwarded)
		sysctl(t, "ipv4/conf/"+name+"/send_redirects", "1")
		reason(Reason(routerReasonREASON_REDIRECT))
		sysctl(t, "ipv4/conf/"+name+"/send_redirects", "0")
	}
	reason(Forwarded)
	big := udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, 1300)
	b.expect(big, b.in, Forwarded)
	sysctl(t, "ipv6/conf/out/mtu", "1280")
	eventually(t, "the smaller MTU", func() bool {
		b.look()
		return b.run(big, b.in).Reason == Reason(routerReasonREASON_TOO_BIG)
	})
}
