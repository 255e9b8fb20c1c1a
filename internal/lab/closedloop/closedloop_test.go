// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"net/netip"
	"strings"
	"testing"

	"minne/internal/kernel"
	"minne/internal/lab/device"
	"minne/internal/lab/statistics"
	"minne/internal/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

var (
	routes = device.Prefixes("192.0.2.0/24", "2001:db8::/32")
	hosts  = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
)

// rig builds one with a device of each text, named a, b, …
func rig(t *testing.T, texts ...string) *Rig {
	t.Helper()
	var places []Place
	for i, text := range texts {
		spec, err := device.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, Place{Name: string(rune('a' + i)), Device: spec, Slow: spec.Kind == device.Kernel, Routes: routes})
	}
	r, err := NewRig(t.Context(), device.Means{Load: kernel.BulkRoutes}, places...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.Aim(hosts); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryPathOfARigForwards(t *testing.T) {
	r := rig(t, "kernel", "bridge", "none")
	for _, ipv6 := range []bool{false, true} {
		for name, path := range map[string]*Path{
			"direct": r.Direct, "kernel": r.Path("a"), "kernel's second entry": r.SlowPath("a"), "bridge": r.Path("b"), "cable": r.Path("c"),
		} {
			for _, size := range []int{0, 508, 1514} {
				trial, err := path.Try(t.Context(), Load{IPv6: ipv6, FrameBytes: size}, 2000, 0)
				if err != nil || trial.Lost != 0 || trial.Arrived.Received != 2000 || trial.PerFrame <= 0 {
					t.Errorf("%s, ipv6 %v, %d bytes: %+v, %v", name, ipv6, size, trial, err)
				}
			}
		}
	}
}

func TestMeasuringTheFastPathNeedsOne(t *testing.T) {
	r := rig(t, "kernel")
	for _, ipv6 := range []bool{false, true} {
		load := Load{IPv6: ipv6}
		slow, pretender := Side{r.SlowPath("a"), load}, *r.Path("a")
		pretender.forwarder = device.ByFastPath
		if _, err := Compare(t.Context(), slow, Side{&pretender, load}, 1); err == nil || !strings.Contains(err.Error(), "left") {
			t.Errorf("ipv6 %v: error %v, expected that the packets were left to the kernel", ipv6, err)
		}
		cable := *r.Direct
		cable.device, cable.forwarder = r.Device("a"), device.ByKernel
		if _, err := Measure(t.Context(), Side{&cable, load}, 1); err == nil || !strings.Contains(err.Error(), "nobody else") {
			t.Errorf("ipv6 %v: error %v, expected that the kernel forwarded too little", ipv6, err)
		}
	}
}

func TestTheRigNoticesAWrongRouter(t *testing.T) {
	r := rig(t, "kernel")
	// A router that sets the TTL by itself, as a mangling rule does.
	if out, err := r.Device("a").Node().Run(t.Context(), "nft", "table ip t { chain c { type filter hook postrouting priority 0; ip ttl set 9; }; }"); err != nil {
		t.Fatal(err, out)
	}
	if _, err := r.Path("a").Try(t.Context(), Load{}, 1000, 0); err == nil || !strings.Contains(err.Error(), "wrong TTL") {
		t.Errorf("error %v, expected that the TTL is wrong", err)
	}
}

// What is measured of real devices is only looked at for sense: tests share the machine.
func TestFiguresOfRealDevices(t *testing.T) {
	r := rig(t, "kernel", "kernel", "none")
	load := Load{}
	a, b, cable := Side{r.Path("a"), load}, Side{r.Path("b"), load}, Side{r.Path("c"), load}
	const n = 3
	c, err := Compare(t.Context(), a, b, n)
	if err != nil {
		t.Fatal(err)
	}
	if c.Rounds != n || c.Lost != 0 || c.A.PerPacket <= 0 || c.Ratio.Median <= 0 {
		t.Errorf("%+v", c)
	}
	told := 0
	own, err := Cost(t.Context(), a, n, func(done int) { told = done })
	if err != nil {
		t.Fatal(err)
	}
	if own.PerPacket.Median <= 0 || own.PerPacket.Median >= own.With.Median || own.Without.Median <= 0 || own.Rounds != n || told != n {
		t.Errorf("%+v after %d rounds", own, told)
	}
	versus, err := Against(t.Context(), a, cable, b, n, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Even on a busy machine a kernel's forwarding takes longer than none.
	if versus.Verdict != string(statistics.Faster) || versus.CostRatio != nil || versus.A != "kernel" || versus.B != "none" {
		t.Errorf("a cable against the kernel: %+v", versus)
	}
	if versus, err = Against(t.Context(), a, b, a, n, nil); err != nil || versus.CostRatio == nil || versus.RateA <= 0 || versus.RateB <= 0 {
		t.Errorf("%+v, %v", versus, err)
	}
}

func TestARigThatCannotBeBuiltLeavesNothing(t *testing.T) {
	spec := device.Spec{Kind: device.Minne}
	if r, err := NewRig(t.Context(), device.Means{Binary: "/bin/false", Load: kernel.BulkRoutes}, Place{Name: "a", Device: spec, Routes: routes}); err == nil {
		r.Close()
		t.Fatal("a router whose command fails at once was taken")
	} else if !strings.Contains(err.Error(), "device minne") {
		t.Errorf("error %v, expected the device's name in it", err)
	}
}
