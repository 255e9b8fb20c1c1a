// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"minne/internal/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// The rig with the kernel on both paths, as it is before any fast path is there.
func kernelOnly(t *testing.T) *Rig {
	t.Helper()
	r, err := NewRig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	commands := []string{
		"ethtool -K fast gro on", "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
		"ip route add 192.0.2.0/24 via " + NextHop(0, false).String(), "ip route add 2001:db8::/32 via " + NextHop(0, true).String(),
	}
	for port, addresses := range map[string][]netip.Prefix{"slow": SlowAddresses, "fast": FastAddresses, "out": OutAddresses} {
		for _, a := range addresses {
			// Before the routes, which need the addresses.
			commands = append([]string{"ip address add " + a.String() + " dev " + port}, commands...)
		}
	}
	if out, err := r.Router.Run(t.Context(), "sh", "-ec", strings.Join(commands, "; ")); err != nil {
		t.Fatal(err, out)
	}
	if err := r.Neighbours(); err != nil {
		t.Fatal(err)
	}
	if err := r.Aim([]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestComparingThePathsNeedsAFastPath(t *testing.T) {
	r := kernelOnly(t)
	for _, ipv6 := range []bool{false, true} {
		kernel := Side{Rig: r, Path: Kernel, IPv6: ipv6}
		if _, err := Compare(t.Context(), kernel, Side{Rig: r, Path: Fast, IPv6: ipv6}, 1); err == nil || !strings.Contains(err.Error(), "left") {
			t.Errorf("ipv6 %v: error %v, expected that the packets were left to the kernel", ipv6, err)
		}
		c, err := Compare(t.Context(), kernel, kernel, 3)
		if err != nil {
			t.Fatal(err)
		}
		if c.Rounds != 3 || c.Lost != 0 || c.A.PerPacket <= 0 || c.Ratio.Median <= 0 {
			t.Errorf("ipv6 %v: %+v", ipv6, c)
		}
		if direct, err := Measure(t.Context(), Side{Rig: r, Path: Direct, IPv6: ipv6}, 3); err != nil || direct.PerPacket <= 0 {
			t.Errorf("ipv6 %v: direct %+v, %v", ipv6, direct, err)
		}
	}
}

func TestTheRigNoticesAWrongRouter(t *testing.T) {
	r := kernelOnly(t)
	// A router that sets the TTL by itself, as a mangling rule does.
	if out, err := r.Router.Run(t.Context(), "nft", "table ip t { chain c { type filter hook postrouting priority 0; ip ttl set 9; }; }"); err != nil {
		t.Fatal(err, out)
	}
	if _, err := r.Try(t.Context(), Kernel, false, 1000, 0, 0); err == nil || !strings.Contains(err.Error(), "wrong TTL") {
		t.Errorf("error %v, expected that the TTL is wrong", err)
	}
}

func TestTableSpreadsRoutesOverTheNextHops(t *testing.T) {
	count := map[int]int{}
	for i := range 25_600 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(20 + i>>16), byte(i >> 8), byte(i), 0}), 24)
		count[spread(p)]++
	}
	if len(count) != NextHops {
		t.Fatalf("%d next hops used, expected %d", len(count), NextHops)
	}
	for hop, n := range count {
		if n < 200 || n > 800 {
			t.Errorf("next hop %d has %d routes of 25,600 over %d", hop, n, NextHops)
		}
	}
}

func TestIntervalHoldsTheMedian(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]float64, 101)
	for i := range values {
		values[i] = 2 + random.NormFloat64()/10
	}
	got := interval(values)
	if got.Low > got.Median || got.High < got.Median || got.Low < 1.9 || got.High > 2.1 || got.High-got.Low < 0.005 {
		t.Errorf("%+v for values around 2", got)
	}
	if one := interval([]float64{3}); one != (Interval{3, 3, 3}) {
		t.Errorf("one value: %+v", one)
	}
}
