// SPDX-License-Identifier: Apache-2.0

package energy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
)

// sysfs is a file tree whose files change and may be forbidden.
type sysfs struct {
	mu        sync.Mutex
	tree      fstest.MapFS
	forbidden string
}

func newSysfs(files map[string]string) *sysfs {
	s := &sysfs{tree: fstest.MapFS{}}
	for name, text := range files {
		s.set(name, text)
	}
	return s
}

func (s *sysfs) set(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree[name] = &fstest.MapFile{Data: []byte(text + "\n")}
}

func (s *sysfs) Open(name string) (fs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forbidden != "" && strings.HasSuffix(name, s.forbidden) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return s.tree.Open(name)
}

const (
	package0 = "sys/class/powercap/intel-rapl:0/"
	package1 = "sys/class/powercap/intel-rapl:1/"
)

// A server with two packages, memory beside the first, and the same counters over MMIO.
func server() *sysfs {
	return newSysfs(map[string]string{
		package0 + "name": "package-0", package0 + "energy_uj": "1000000", package0 + "max_energy_range_uj": "262143328850",
		package1 + "name": "package-1", package1 + "energy_uj": "5000000", package1 + "max_energy_range_uj": "262143328850",
		"sys/class/powercap/intel-rapl:0:0/name": "core", "sys/class/powercap/intel-rapl:0:0/energy_uj": "7",
		"sys/class/powercap/intel-rapl:0:1/name": "dram", "sys/class/powercap/intel-rapl:0:1/energy_uj": "300",
		"sys/class/powercap/intel-rapl:0:1/max_energy_range_uj": "65712999613",
		"sys/class/powercap/intel-rapl-mmio:0/name":             "package-0", "sys/class/powercap/intel-rapl-mmio:0/energy_uj": "1000000",
	})
}

func TestRAPL(t *testing.T) {
	root := server()
	found := Find(root)
	if len(found.Sources) != 1 || found.Sources[0].Name() != "RAPL package-0 + package-1 + dram" {
		t.Fatalf("found %+v", found)
	}
	s := found.Sources[0]
	expect := func(joules float64) {
		t.Helper()
		r, err := s.Read(t.Context())
		if err != nil || !r.Cumulative || math.Abs(r.Joules-joules) > 1e-6 {
			t.Errorf("read %+v, %v; expected %v J", r, err, joules)
		}
	}
	expect(0)
	root.set(package0+"energy_uj", "3000000")
	root.set(package1+"energy_uj", "5500000")
	expect(2.5)
	// Package 0 runs around: from 262143.32885 J to 0.5 J are 0.5 J.
	root.set(package0+"energy_uj", "262143328850")
	expect(2.5 + 262140.32885)
	root.set(package0+"energy_uj", "500000")
	expect(2.5 + 262140.32885 + 0.5)
}

func TestRAPLPlatformFirst(t *testing.T) {
	root := newSysfs(map[string]string{
		package0 + "name": "package-0", package0 + "energy_uj": "1",
		package1 + "name": "psys", package1 + "energy_uj": "1",
	})
	found := Find(root)
	if len(found.Sources) != 2 || found.Sources[0].Name() != "RAPL psys" || !strings.Contains(found.Sources[0].Scope(), "preferred") {
		t.Fatalf("found %+v", found)
	}
	root.set(package0+"energy_uj", "0")
	if _, err := found.Sources[1].Read(t.Context()); err == nil || !strings.Contains(err.Error(), "range is not known") {
		t.Errorf("a counter without a range that ran backwards: %v", err)
	}
}

func TestForbidden(t *testing.T) {
	root := server()
	root.forbidden = "energy_uj"
	found := Find(root)
	if len(found.Sources) != 0 || !strings.Contains(found.Missing(), "run as root") {
		t.Errorf("found %+v, missing %q", found, found.Missing())
	}
}

func TestHwmon(t *testing.T) {
	const d = "sys/class/hwmon/"
	found := Find(newSysfs(map[string]string{
		d + "hwmon0/name": "ina226", d + "hwmon0/power1_input": "18750000", d + "hwmon0/curr1_input": "1560", d + "hwmon0/in1_input": "12019",
		d + "hwmon1/name": "ina3221", d + "hwmon1/curr2_input": "-500", d + "hwmon1/in2_input": "12000", d + "hwmon1/in2_label": "VIN",
		d + "hwmon2/name": "fam15h_power", d + "hwmon2/power1_average": "2500000",
		d + "hwmon3/name": "coretemp", d + "hwmon3/temp1_input": "40000",
		d + "hwmon4/name": "nct6775", d + "hwmon4/curr1_input": "1", d + "hwmon4/in1_input": "1", // no INA: its channels don't belong together
		d + "hwmon5/name": "ina219", d + "hwmon5/power1_input": "broken",
	}))
	got := map[string]float64{}
	for _, s := range found.Sources {
		r, err := s.Read(t.Context())
		if err != nil || r.Cumulative {
			t.Errorf("%s: %+v, %v", s.Name(), r, err)
		}
		got[s.Name()] = r.Watts
	}
	want := map[string]float64{"hwmon ina226 power1 (hwmon0)": 18.75, "hwmon ina3221 in2 VIN (hwmon1)": 6, "hwmon fam15h_power power1 (hwmon2)": 2.5}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sensors %v, expected %v", got, want)
	}
	if len(found.Refused) != 1 || !strings.Contains(found.Refused[0], "ina219") || !strings.Contains(found.Refused[0], "expected a number") {
		t.Errorf("refused %q", found.Refused)
	}
}

func TestBattery(t *testing.T) {
	const d = "sys/class/power_supply/"
	root := newSysfs(map[string]string{
		d + "AC/type": "Mains", d + "AC/online": "0",
		d + "BAT0/type": "Battery", d + "BAT0/status": "Discharging", d + "BAT0/power_now": "9500000",
		d + "BAT1/type": "Battery", d + "BAT1/status": "Discharging", d + "BAT1/current_now": "-800000", d + "BAT1/voltage_now": "12500000",
		d + "BAT2/type": "Battery", d + "BAT2/status": "Charging", d + "BAT2/power_now": "1",
		d + "hid-mouse/type": "Battery", d + "hid-mouse/scope": "Device", d + "hid-mouse/status": "Discharging",
	})
	found := Find(root)
	if len(found.Sources) != 2 || len(found.Refused) != 1 || !strings.Contains(found.Refused[0], "unplug the charger") {
		t.Fatalf("found %+v", found)
	}
	for i, watts := range []float64{9.5, 10} {
		if r, err := found.Sources[i].Read(t.Context()); err != nil || r.Watts != watts {
			t.Errorf("%s: %+v, %v; expected %v W", found.Sources[i].Name(), r, err, watts)
		}
	}
	root.set(d+"BAT0/status", "Charging")
	if _, err := found.Sources[0].Read(t.Context()); err == nil {
		t.Error("a battery that is being charged tells the machine's power")
	}
}

func TestChoose(t *testing.T) {
	none, err := Find(newSysfs(nil)).Choose("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.Read(t.Context()); err == nil || err.Error() != "not measurable on this machine: no RAPL, no power sensor (hwmon), no battery" {
		t.Errorf("reading nothing: %v", err)
	}
	found := Find(newSysfs(map[string]string{
		package0 + "name": "package-0", package0 + "energy_uj": "1",
		"sys/class/hwmon/hwmon0/name": "ina226", "sys/class/hwmon/hwmon0/power1_input": "1",
		"sys/class/hwmon/hwmon1/name": "ina226", "sys/class/hwmon/hwmon1/power1_input": "1",
	}))
	for _, c := range []struct{ ask, want, wrong string }{
		{"", "RAPL package-0", ""},
		{"rapl", "RAPL package-0", ""},
		{"hwmon1", "hwmon ina226 power1 (hwmon1)", ""},
		{"ina226", "", "give more of its name"},
		{"solar", "", "there are"},
	} {
		s, err := found.Choose(c.ask)
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q: %v, expected an error with %q", c.ask, err, c.wrong)
		case c.wrong == "" && (err != nil || s.Name() != c.want):
			t.Errorf("%q: %v, %v", c.ask, s, err)
		}
	}
}

func TestMeter(t *testing.T) {
	for _, c := range []struct {
		command string
		watts   float64
		wrong   string
	}{
		{"echo 21.65", 21.65, ""},
		{"echo '12.0 V 1.5 A 18.0 W'", 18, ""},
		{"printf 'power=7.5watts\\n'", 7.5, ""},
		{"echo nothing", 0, "expected a number"},
		{"echo 2165 mW", 0, "expected watts"},
		{"echo 21,65", 0, "18.75"},
		{"echo -3", 0, "not a number of watts"},
		{"echo no such port >&2; exit 3", 0, "no such port"},
	} {
		m, err := Meter(c.command)
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Read(t.Context())
		switch {
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%s: %+v, %v; expected an error with %q", c.command, r, err, c.wrong)
		case c.wrong == "" && (err != nil || r.Watts != c.watts):
			t.Errorf("%s: %+v, %v", c.command, r, err)
		}
	}
	if _, err := Meter(" "); err == nil {
		t.Error("an empty command is a meter")
	}
}

func TestMeterIsCancelled(t *testing.T) {
	m, err := Meter("sleep 60")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestTyped(t *testing.T) {
	for _, wrong := range []string{"", "idle=1", "idle=1,load=x", "idle=1,idle=2", "idle=1,load=2,full=3", "idle=-1,load=2", "5"} {
		if s, err := Typed(wrong); err == nil {
			t.Errorf("%q is %+v", wrong, s)
		}
	}
}

// counting is a root whose RAPL counter and /proc/stat a load moves.
func counting() *sysfs {
	return newSysfs(map[string]string{
		package0 + "name": "package-0", package0 + "energy_uj": "0", package0 + "max_energy_range_uj": "1000000000",
		"proc/stat": "cpu  0 0 0 0 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0",
	})
}

// The papers' router: 18.75 W idle, 21.65 W at 223 kpps.
func TestMeasureTyped(t *testing.T) {
	root := counting()
	source, err := Typed("idle=18.75, load=21.65")
	if err != nil {
		t.Fatal(err)
	}
	busy := 0
	load := func(rate, bits float64, ticks int) func(context.Context) (float64, float64, error) {
		return func(context.Context) (float64, float64, error) {
			busy += ticks
			root.set("proc/stat", fmt.Sprintf("cpu  0 0 %d %d 0 0 0 0\ncpu0 0 0 0 0\ncpu1 0 0 0 0", busy, 200-busy))
			return rate, bits, nil
		}
	}
	e, err := measure(t.Context(), root, source, []Step{
		{0, func(context.Context) (float64, float64, error) { return 0, 0, nil }},
		{0.5, load(111_500, 0.93e9, 50)},
		{1, load(223_000, 1.86e9, 100)},
	}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(e.JoulePerPacket-2.9/223_000) > 1e-12 || math.Abs(e.JoulePerGbit-2.9/1.86) > 1e-9 {
		t.Errorf("%v J a packet, %v J a Gbit", e.JoulePerPacket, e.JoulePerGbit)
	}
	if len(e.Steps) != 3 || e.Steps[0].Watts != 18.75 || e.Steps[1].Watts != 0 || e.Steps[2].Watts != 21.65 {
		t.Errorf("steps %+v", e.Steps)
	}
	// In the last step 100 of 100 ticks (all that passed) were busy on two CPUs.
	if s := e.Steps[2]; s.CPUShare <= 0 || math.Abs(s.CPUPacket-s.CPUShare*2/223_000*1e9) > 1e-6 {
		t.Errorf("CPU time of %+v", s)
	}
}

func TestMeasureCounter(t *testing.T) {
	root := counting()
	source, err := Find(root).Choose("")
	if err != nil {
		t.Fatal(err)
	}
	// The load runs the counter around: from 999.5 J over 1,000 J to 0.5 J, which is 1 J.
	root.set(package0+"energy_uj", "999500000")
	begin := time.Now()
	e, err := measure(t.Context(), root, source, []Step{{1, func(context.Context) (float64, float64, error) {
		root.set(package0+"energy_uj", "500000")
		time.Sleep(10 * time.Millisecond)
		return 1000, 8000, nil
	}}}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	least, most := 1/time.Since(begin).Seconds(), 1/0.010
	if w := e.Steps[0].Watts; w < least || w > most {
		t.Errorf("1 J became %.2f W, expected %.2f to %.2f", w, least, most)
	}
	if e.JoulePerPacket != 0 {
		t.Errorf("without an idle step a packet takes %v J", e.JoulePerPacket)
	}
}

func TestMeasureGauge(t *testing.T) {
	const power = "sys/class/hwmon/hwmon0/power1_input"
	root := counting()
	root.set("sys/class/hwmon/hwmon0/name", "ina226")
	root.set(power, "5000000")
	source, err := Find(root).Choose("ina226")
	if err != nil {
		t.Fatal(err)
	}
	hold := func(context.Context) (float64, float64, error) {
		time.Sleep(10 * time.Millisecond)
		return 100, 1e6, nil
	}
	e, err := measure(t.Context(), root, source, []Step{{0, hold}, {1, hold}}, time.Millisecond)
	if err != nil || len(e.Steps) != 2 || math.Abs(e.Steps[0].Watts-5) > 1e-9 || math.Abs(e.Steps[1].Watts-5) > 1e-9 {
		t.Errorf("a steady 5 W became %+v, %v", e, err)
	}
}

func TestMeasureStopped(t *testing.T) {
	root := counting()
	source, err := Find(root).Choose("")
	if err != nil {
		t.Fatal(err)
	}
	_, err = measure(t.Context(), root, source, []Step{{0, func(ctx context.Context) (float64, float64, error) {
		<-ctx.Done() // it must be ended, else the test hangs
		return 0, 0, ctx.Err()
	}}}, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "does not advance") {
		t.Errorf("a counter that stands still: %v", err)
	}
}

func TestMeasureWithoutSource(t *testing.T) {
	root := newSysfs(map[string]string{"proc/stat": "cpu  1 0 0 1\ncpu0 1 0 0 1"})
	source, err := Find(root).Choose("")
	if err != nil {
		t.Fatal(err)
	}
	e, err := measure(t.Context(), root, source, []Step{{1, func(context.Context) (float64, float64, error) {
		root.set("proc/stat", "cpu  2 0 0 2\ncpu0 2 0 0 2")
		return 1000, 1e6, nil
	}}}, time.Second)
	if err != nil || e.Missing == "" || e.Source != "" || e.JoulePerPacket != 0 || e.Steps[0].Watts != 0 || e.Steps[0].CPUPacket != 0.5e6 {
		t.Errorf("without a source: %+v, %v", e, err)
	}
}

func TestMeasureFailingLoad(t *testing.T) {
	root := counting()
	broken := errors.New("the generator broke")
	source, err := Typed("idle=1,load=2")
	if err != nil {
		t.Fatal(err)
	}
	_, err = measure(t.Context(), root, source, []Step{{1, func(context.Context) (float64, float64, error) { return 0, 0, broken }}}, time.Second)
	if !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}
