// SPDX-License-Identifier: Apache-2.0

package headline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/closedloop"
	"minne/internal/lab/destinations"
	"minne/internal/lab/device"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// The figures of forwarding, of bridges and of two processors, measured of real routers with a part of the table. Values are
// not looked at: tests share the machine.
func TestForwardingFiguresOfRealRouters(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "minne")
	build := exec.Command("go", "build", "-o", binary, "minne/cmd/minne")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	table, err := destinations.Named("200")
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{Options: Options{Means: device.Means{Binary: binary, Load: kernel.BulkRoutes}, Rounds: 1, Progress: func(string) {}}}
	defer b.release()
	if _, err := b.tables.get(func() (*closedloop.Tables, error) {
		tables, err := closedloop.NewTables(t.Context(), b.Means, table.Prefixes())
		if err == nil {
			b.teardowns = append(b.teardowns, tables.Close)
		}
		return tables, err
	}); err != nil {
		t.Fatal(err)
	}
	h, err := measure(t.Context(), b, slices.Concat(forwarding, links, cores))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range h.Figures {
		if f.Missing != "" {
			t.Errorf("%s is missing: %s", f.ID, f.Missing)
		}
	}
	if len(h.Figures) < 8 {
		t.Errorf("%d figures", len(h.Figures))
	}
}

// The ids and units are a promise: figures of different states of the program are compared by them.
func TestTheFiguresThatAreNeverRenamed(t *testing.T) {
	promised := []string{
		"forward.ipv4.one-route ×", "forward.ipv4.full-table.random ×", "forward.ipv6.full-table.random ×",
		"forward.ipv4.full-table.kept ×", "cost.ipv4.ns ns", "lookup.ipv4 ×", "lookup.ipv6 ×",
		"policy.600.ratio ×", "policy.600.kept ×", "policy.10k.kept ×", "policy.blocklist.kept ×", "policy.600.swap ms", "policy.10k.swap ms",
		"nat.64k.ratio ×", "nat.new.ratio ×", "nat.flood.lost packets",
		"links.bridge.ns ns", "links.bridge.in.ns ns", "links.vrf.ns ns", "links.pppoe.ns ns", "links.pppoe.in.ns ns", "links.bridge.ratio ×", "cores.2.ratio ×", "cores.2.nat.ratio ×", "flow.lookup.ratio ×",
		"shape.delay.ms ms", "shape.fairness ×", "login.kept ×", "login.rate /s",
	}
	var have []string
	for _, f := range figures {
		if f.what == "" || f.against == "" || f.measure == nil {
			t.Errorf("%s is incomplete", f.id)
		}
		if slices.Contains(have, f.id+" "+f.unit) {
			t.Errorf("%s stands twice", f.id)
		}
		have = append(have, f.id+" "+f.unit)
	}
	for _, want := range promised {
		if !slices.Contains(have, want) {
			t.Errorf("no %s among %q", want, have)
		}
	}
}

func sample(ctx context.Context, cancel context.CancelFunc) (Headline, error) {
	b := &Bench{Options: Options{Progress: func(string) {}}}
	broken := func(context.Context, *Bench) (Measured, error) { return Measured{}, errors.New("no such instrument") }
	return measure(ctx, b, []definition{
		{"a", "something", "×", "kernel", func(context.Context, *Bench) (Measured, error) {
			return Measured{Value: 2, Low: 1.5, High: 2.5, AALow: 0.9}, nil
		}},
		{"b", "something else", "ns", "nothing", broken},
		{"c", "the last", "×", "kernel", func(context.Context, *Bench) (Measured, error) { cancel(); return Measured{Value: 1}, nil }},
	})
}

func TestMissingFiguresAreListedWithTheReason(t *testing.T) {
	h, err := sample(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"figures":[{"id":"a","what":"something","unit":"×","against":"kernel","value":2,"low":1.5,"high":2.5,"aa_low":0.9,"aa_high":0},` +
		`{"id":"b","what":"something else","unit":"ns","against":"nothing","missing":"no such instrument"},` +
		`{"id":"c","what":"the last","unit":"×","against":"kernel","value":1,"low":0,"high":0,"aa_low":0,"aa_high":0}]}`
	if string(text) != want {
		t.Errorf("%s\nexpected\n%s", text, want)
	}
	var table bytes.Buffer
	if err := h.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2.00 ×", "1.50 to 2.50", "missing: no such instrument"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, &table)
		}
	}
}

func TestAnInterruptedHeadlineKeepsWhatItHas(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h, err := sample(ctx, cancel)
	if !errors.Is(err, context.Canceled) || len(h.Figures) != 2 {
		t.Errorf("%d figures, error %v; expected the two before the interruption", len(h.Figures), err)
	}
}

func TestChosenFigures(t *testing.T) {
	for _, c := range []struct {
		only  []string
		want  string
		wrong bool
	}{
		{nil, "a a.b ab c", false},
		{[]string{"c", "a"}, "a a.b c", false},
		{[]string{"a.b"}, "a.b", false},
		{[]string{"a", "b"}, "", true},
	} {
		chosen, err := choose([]definition{{id: "a"}, {id: "a.b"}, {id: "ab"}, {id: "c"}}, c.only)
		var ids []string
		for _, d := range chosen {
			ids = append(ids, d.id)
		}
		if strings.Join(ids, " ") != c.want || (err != nil) != c.wrong {
			t.Errorf("%q: %q, %v; expected %q", c.only, ids, err, c.want)
		}
	}
}

func TestTimesAgainstTheNext(t *testing.T) {
	m := timed([]time.Duration{4 * time.Millisecond, 6 * time.Millisecond, 4 * time.Millisecond, 6 * time.Millisecond})
	if m.Value != 5 || m.AALow != 2 || m.AAHigh != 2 {
		t.Errorf("%+v, expected 5 ms, and 2 from one to the next", m)
	}
}

func TestEquipmentIsBuiltOnce(t *testing.T) {
	var o once[int]
	built := 0
	for range 3 {
		if v, err := o.get(func() (int, error) { built++; return 7, errors.New("broken") }); v != 7 || err == nil {
			t.Errorf("%d, %v", v, err)
		}
	}
	if built != 1 {
		t.Errorf("built %d times", built)
	}
}
