// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"strings"
	"testing"

	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// rig builds one with a device of each text, named a, b, …
func rig(t *testing.T, texts ...string) *Rig {
	t.Helper()
	var places []Place
	for i, text := range texts {
		spec, err := device.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, Place{Name: string(rune('a' + i)), Device: spec, Slow: spec.Kind == device.Kernel, Routes: HostRoutes()})
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
	return r
}

// load prepares packets of a pattern, or to the test's own hosts when there is none.
func load(t *testing.T, r *Rig, text string) *Load {
	t.Helper()
	p, err := pattern.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.Load(p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEveryPathOfARigForwards(t *testing.T) {
	r := rig(t, "kernel", "bridge", "none")
	for _, text := range []string{"", "family=ipv6", "size=1518", "flows=256 ports=rfc4814 size=512", "flows=64@8 size=imix", "syn family=ipv4:70,ipv6:30"} {
		l := load(t, r, text)
		for name, path := range map[string]*Path{
			"direct": r.Direct, "kernel": r.Path("a"), "kernel's second entry": r.SlowPath("a"), "bridge": r.Path("b"), "cable": r.Path("c"),
		} {
			if trial, err := path.TryWhole(t.Context(), l, 2000); err != nil || trial.Lost != 0 || trial.Arrived.Received != 2000 || trial.PerFrame <= 0 {
				t.Errorf("%q through %s: %+v, %v", text, name, trial, err)
			}
		}
	}
}

func TestMeasuringTheFastPathNeedsOne(t *testing.T) {
	r := rig(t, "kernel")
	for _, text := range []string{"family=ipv4", "family=ipv6"} {
		load := load(t, r, text)
		slow, pretender := Side{r.SlowPath("a"), load}, *r.Path("a")
		pretender.forwarder = device.ByFastPath
		if _, err := Compare(t.Context(), slow, Side{&pretender, load}, 1); err == nil || !strings.Contains(err.Error(), "left") {
			t.Errorf("%s: error %v, expected that the packets were left to the kernel", text, err)
		}
		cable := *r.Direct
		cable.device, cable.forwarder = r.Device("a"), device.ByKernel
		if _, err := Measure(t.Context(), Side{&cable, load}, 1); err == nil || !strings.Contains(err.Error(), "another program interferes") {
			t.Errorf("%s: error %v, expected that the kernel forwarded too little", text, err)
		}
	}
}

func TestTheRigNoticesAWrongRouter(t *testing.T) {
	r := rig(t, "kernel")
	// A router that sets the TTL by itself, as a mangling rule does.
	if out, err := r.Device("a").Node().Run(t.Context(), "nft", "table ip t { chain c { type filter hook postrouting priority 0; ip ttl set 9; }; }"); err != nil {
		t.Fatal(err, out)
	}
	if _, err := r.Path("a").Try(t.Context(), load(t, r, ""), 1000, 0); err == nil || !strings.Contains(err.Error(), "wrong TTL") {
		t.Errorf("error %v, expected that the TTL is wrong", err)
	}
}

// What is measured of real devices is only looked at for sense: tests share the machine.
func TestFiguresOfRealDevices(t *testing.T) {
	r := rig(t, "kernel", "kernel", "none")
	load := load(t, r, "flows=64")
	a, b, cable := Side{r.Path("a"), load}, Side{r.Path("b"), load}, Side{r.Path("c"), load}
	const n = 1
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
	if own.With.Median <= 0 || own.Without.Median <= 0 || own.Device != "kernel" || own.Rounds != n || told != n {
		t.Errorf("%+v after %d rounds", own, told)
	}
	versus, err := Against(t.Context(), a, cable, b, n, nil)
	if err != nil {
		t.Fatal(err)
	}
	if versus.Verdict == "" || versus.A != "kernel" || versus.B != "none" || versus.RateA <= 0 || versus.RateB <= 0 || versus.Rounds != n {
		t.Errorf("a cable against the kernel: %+v", versus)
	}
}

func TestARigThatCannotBeBuiltLeavesNothing(t *testing.T) {
	spec := device.Spec{Kind: device.Minne}
	if r, err := NewRig(t.Context(), device.Means{Binary: "/bin/false", Load: kernel.BulkRoutes}, Place{Name: "a", Device: spec, Routes: HostRoutes()}); err == nil {
		r.Close()
		t.Fatal("a router whose command fails at once was taken")
	} else if !strings.Contains(err.Error(), "device minne") {
		t.Errorf("error %v, expected the device's name in it", err)
	}
}

func TestPatternsThatAClosedLoopCannotSend(t *testing.T) {
	for text, want := range map[string]string{"bidirectional": "one direction", "pcap=x": "no stamps"} {
		p, err := pattern.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := Supports(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected %q", text, err, want)
		}
	}
}
