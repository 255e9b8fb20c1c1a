// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
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
	const seed = "305419896"
	notReady := routerNumber(routerReasonREASON_NOT_READY)
	sysctl(t, "ipv4/fib_multipath_hash_policy", "1")
	sysctl(t, "ipv6/fib_multipath_hash_policy", "1")
	sysctl(t, "ipv4/fib_multipath_hash_seed", seed)
	b.fast.locked(b.fast.tables.reread)
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
	}{
		{"two", []int{1, 1}, false},
		{"unequal", []int{3, 1, 7, 200}, false},
		{"objects", []int{1, 1, 1}, true},
		{"unequal objects", []int{5, 2, 9, 1}, true},
	} {
		for _, v6 := range []bool{false, true} {
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
				defer func() {
					ip(t, "route", "del", prefix)
					eventually(t, "the route is gone", func() bool { return b.run(ecmpFlow(r, v6), b.in).Reason != Forwarded })
				}()
				same := map[string]int{}
				for range 500 {
					frame := ecmpFlow(r, v6)
					v := b.expect(frame, b.in, Forwarded)
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
				if len(same) != len(c.weights) {
					t.Errorf("%d of %d gateways were used", len(same), len(c.weights))
				}
			})
		}
	}
}
