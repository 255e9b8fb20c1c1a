// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/energy"
	"minne/internal/lab/method"
	"minne/internal/lab/pattern"
	"minne/internal/lab/report"
	"minne/internal/lab/session"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func plan(t *testing.T, traffic string, methods ...Method) Plan {
	t.Helper()
	p, err := pattern.Parse(traffic)
	if err != nil {
		t.Fatal(err)
	}
	return Plan{
		Devices: []device.Spec{{Kind: device.Kernel}}, Traffic: []pattern.Pattern{p},
		Means: device.Means{Load: kernel.BulkRoutes}, Methods: methods,
	}
}

// noMeter is a source of power that knows nothing, as on most virtual machines.
func noMeter(t *testing.T) energy.Source {
	t.Helper()
	s, err := energy.Found{}.Choose("")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every method on a real rig, with as little traffic as it needs, comes out in the report.
func TestAllMethodsComeOutInOneReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "report")
	s, err := session.Begin(session.Options{Title: "All", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	short := 100 * time.Millisecond
	p := plan(t, "flows=8 size=128",
		Known(20_000),
		Loss(method.LossCurveOptions{Duration: short, Step: 0.5}),
		BackToBack(method.BackToBackOptions{Repeat: 1, Longest: short, Resolution: 0.5}),
		Latency(method.LatencyOptions{Duration: short, Repeat: 1}),
		Reset(method.ResetOptions{Name: "device-reset", Rate: 5000, Before: short, After: 10 * time.Second, Repeat: 1},
			func(ctx context.Context, t *Target) error { return t.Rig.Device().Reset(ctx) }),
		Soak(method.SoakOptions{Duration: time.Second, Trial: short}, 0.5),
		MRR(method.MRROptions{Duration: short, Repeat: 2}),
		Power(noMeter(t), []float64{0, 1}, short),
	)
	if _, err := s.End(p.Run(context.Background(), s)); err != nil {
		t.Fatal(err)
	}
	r, err := report.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range map[string]int{
		"devices": len(r.Devices), "loss": len(r.Loss), "back-to-back": len(r.BackToBack), "latency": len(r.Latency),
		"soak": len(r.Soak), "MRR": len(r.MRR), "energy": len(r.Energy), "ports": len(r.Tester.Ports),
	} {
		if n == 0 {
			t.Errorf("the report has no %s", what)
		}
	}
	if len(r.Recovery) != 2 { // of the reset, by either method
		t.Errorf("%d recoveries: expected 2", len(r.Recovery))
	}
	if len(r.Latency) > 0 && (r.Latency[0].BiasNS <= 0 || r.Latency[0].Subject.FrameSize != 128 || r.Latency[0].Device != "kernel") {
		t.Errorf("latency of %+v with a bias of %g ns", r.Latency[0].Subject, r.Latency[0].BiasNS)
	}
	if len(r.Energy) > 0 && r.Energy[0].Missing == "" {
		t.Error("energy without a meter has no reason why there is no figure")
	}
}

func TestMethodsThatNeedAThroughputSayThatThereIsNone(t *testing.T) {
	s, err := session.Begin(session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []Method{Latency(method.LatencyOptions{}), Overload(method.OverloadOptions{}), Soak(method.SoakOptions{}, 0.5), Power(noMeter(t), []float64{1}, time.Second)} {
		if err := m.Run(context.Background(), &Target{Session: s}); !errors.Is(err, errNoRate) {
			t.Errorf("%s: %v: expected that no throughput is known", m.Name, err)
		}
	}
	err = Known(2e6).Run(context.Background(), &Target{MaxLoad: 1e6})
	if err == nil || !strings.Contains(err.Error(), "2.000 M") {
		t.Errorf("a rate beyond the tester: %v", err)
	}
}
