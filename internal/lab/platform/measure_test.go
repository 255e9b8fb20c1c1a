// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/base/pcap"
	"minne/internal/lab/device"
	"minne/internal/model/packet"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func small(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	names, err := Names(nil)
	if err != nil {
		t.Fatal(err)
	}
	capture, err := os.Create(filepath.Join(dir, "capture"))
	if err != nil {
		t.Fatal(err)
	}
	defer capture.Close()
	w, err := pcap.NewWriter(capture, "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.2")
		text := fmt.Sprintf("Hello %d GET /etc/passwd AbC%d", i, i%10)[:10+i%20]
		udp := packet.UDP{SrcPort: 5, DstPort: 6}.Append(nil, src, dst, []byte(text))
		frame := packet.Ethernet{Type: packet.TypeIPv4}.Append(nil, packet.IPv4{TTL: 9, Protocol: packet.ProtoUDP, Src: src, Dst: dst}.Append(nil, udp))
		if err := w.Write(pcap.Packet{Frame: frame, Wire: len(frame), Time: time.Unix(1, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(time.Unix(2, 0), 50, 0); err != nil {
		t.Fatal(err)
	}
	return Options{
		Algorithms: names, CPU: -1, Seconds: 0.01, Rounds: 1, Repeat: 2, Means: device.Means{Load: kernel.BulkRoutes}, Progress: func(string) {},
		Data: Data{
			Capture:   capture.Name(),
			Routes:    file("table", "0.0.0.0/0 a\n10.0.0.0/8 b\n192.0.2.0/24 c\n198.51.100.7/32 a\n2001:db8::/32 c\n2001:db8:1::/48 d\n"),
			Patterns:  file("patterns", "48656c6c6f\n/GET .*passwd/\n/[a-f]{3}\\d/i\n/(?<=a)b/\n"),
			Blocklist: file("list", "192.0.2.1\n192.0.2.9\n2001:db8::1\n203.0.113.0/24\n"),
		},
	}
}

// TestMeasure measures all algorithms, which compares the answers of Go, of the native program and of eBPF.
func TestMeasure(t *testing.T) {
	r, err := Measure(context.Background(), small(t))
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, row := range r.Rows {
		have[row.Algorithm+" "+row.Where] = true
		if !(row.Ns.Low > 0 && row.Ns.Low <= row.Ns.Median && row.Ns.Median <= row.Ns.High) || row.Rate <= 0 || row.Checksum == "" || row.Memory == 0 && row.Algorithm != KernelFIB {
			t.Errorf("%+v", row)
		}
	}
	native := []string{TreeBitmap, ShapeShifting, RangeTable, Direct24, Staged16, BloomFilter, BlockedBloom, CountingBloom, D2FA, HybridFA}
	for _, a := range Algorithms {
		for _, where := range []string{Native, EBPF} {
			if where == Native && !slices.Contains(native, a.Name) {
				continue // it is the kernel's own
			}
			if !have[a.Name+" "+where] {
				t.Errorf("%s, %s: not measured: missing %q, notes %q", a.Name, where, r.Missing, r.Notes)
			}
		}
	}
	if len(r.Noise) != 2 {
		t.Errorf("noise %+v: expected one of each place", r.Noise)
	}
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"patterns:4: column", "2 of 4 entries are not looked up"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q:\n%s", want, notes)
		}
	}
}

// TestWrongAnswer: a table that answers wrongly fails the benchmark.
func TestWrongAnswer(t *testing.T) {
	for where, spoil := range map[string]func(*measurement){
		Native: func(m *measurement) { m.builder.workloads[0].sets[1].checksum = "0000000000000000" },
		EBPF:   func(m *measurement) { m.builder.workloads[0].sets[1].checksum = "0000000000000000" },
	} {
		o := small(t)
		o.Algorithms = []string{TreeBitmap}
		r := &Result{}
		b := &builder{dir: t.TempDir(), algorithms: o.Algorithms, progress: o.Progress, result: r}
		if err := b.all(o.Data); err != nil {
			t.Fatal(err)
		}
		o.NativeOnly = map[string]string{Native: "of the test"}[where]
		m := &measurement{Options: o, result: r, builder: b}
		spoil(m)
		err := m.load()
		if err == nil {
			err = m.rounds(context.Background())
		}
		m.close()
		if !errors.As(err, new(*wrongAnswer)) || !strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), "in table keys") {
			t.Errorf("%s: %v: expected wrong answers", where, err)
		}
	}
}

func TestNothingToMeasure(t *testing.T) {
	o := small(t)
	o.Data.Routes = filepath.Join(t.TempDir(), "missing")
	if _, err := Measure(context.Background(), o); err == nil {
		t.Error("a missing file was measured")
	}
	o = small(t)
	o.Algorithms = []string{TreeBitmap}
	o.CPU = 4095
	if _, err := Measure(context.Background(), o); err == nil || !strings.Contains(err.Error(), "CPU 4095") {
		t.Errorf("%v: expected that there is no such CPU", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Measure(ctx, small(t)); err == nil {
		t.Error("an interrupted benchmark has a result")
	}
}
