// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/iperf"
	"minne/internal/lab/result"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func TestSegment(t *testing.T) {
	for _, c := range []struct {
		cell                   Cell
		given, payload, packet int
		note                   string
	}{
		{Cell{IPv4, UDP, 64}, 36, 36, 64, ""},
		{Cell{IPv4, UDP, 1500}, 1472, 1472, 1500, ""},
		{Cell{IPv6, UDP, 64}, 16, 16, 64, ""},
		{Cell{IPv6, UDP, 48}, 16, 16, 64, "no datagrams below 16"},
		{Cell{IPv6, UDP, 1500}, 1452, 1452, 1500, ""},
		{Cell{IPv4, TCP, 64}, 88, 76, 128, "packets of 128 bytes"},
		{Cell{IPv4, TCP, 128}, 88, 76, 128, ""},
		{Cell{IPv4, TCP, 1500}, 1460, 1448, 1500, ""},
		{Cell{IPv6, TCP, 128}, 88, 76, 148, "packets of 148 bytes"},
		{Cell{IPv6, TCP, 256}, 196, 184, 256, ""},
	} {
		given, payload, packet, note := segment(c.cell, true)
		if given != c.given || payload != c.payload || packet != c.packet || (c.note == "") != (note == "") || !strings.Contains(note, c.note) {
			t.Errorf("%s: %d, %d, %d, %q; expected %+v", c.cell, given, payload, packet, note, c)
		}
	}
	if _, payload, packet, _ := segment(Cell{IPv4, TCP, 1500}, false); payload != 1460 || packet != 1500 {
		t.Errorf("without time stamps %d bytes in %d", payload, packet)
	}
	if n := len(Cells()); n != 24 {
		t.Errorf("the paper's matrix has %d cells", n)
	}
}

// A device that delivers up to 100 Mbit/s, and the less the more is sent above.
func TestSearchFindsTheRate(t *testing.T) {
	var tried []float64
	device := func(rate float64) (iperf.Transfer, error) {
		tried = append(tried, rate)
		if rate == 0 {
			rate = 300e6
		}
		delivered := rate
		if rate > 100e6 {
			delivered = 100e6 - (rate-100e6)/4
		}
		return iperf.Transfer{BitRate: delivered, Loss: 1 - delivered/rate}, nil
	}
	rate, err := search(4, device)
	if err != nil || len(tried) != 4 {
		t.Fatalf("tried %v, %v", tried, err)
	}
	if at, _ := device(rate); at.BitRate < 85e6 {
		t.Errorf("chose %.0f of %v, where %.0f arrive", rate, tried, at.BitRate)
	}
}

func TestSearchKeepsFullSpeed(t *testing.T) {
	calls := 0
	rate, err := search(4, func(float64) (iperf.Transfer, error) { calls++; return iperf.Transfer{BitRate: 1e6}, nil })
	if rate != 0 || err != nil || calls != 1 {
		t.Errorf("a sender that loses nothing at full speed: rate %v after %d tries, %v", rate, calls, err)
	}
	broken := errors.New("no route")
	if _, err := search(4, func(float64) (iperf.Transfer, error) { return iperf.Transfer{}, broken }); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}

func TestTrimmedMean(t *testing.T) {
	var trips []time.Duration
	for i := range 100 {
		trips = append(trips, time.Millisecond)
		if i >= 95 {
			trips[i] = time.Second
		}
	}
	if got := trimmedMean(trips); got != time.Millisecond {
		t.Errorf("mean %s", got)
	}
	if _, _, err := summarize(nil, 5); err == nil {
		t.Error("no probe came back, and there is a latency")
	}
	p, _, err := summarize(trips, 200)
	if err != nil || p.Loss != 0.5 || p.P50 != time.Millisecond || p.P99 != time.Second || p.Spectrum.Count() != 100 {
		t.Errorf("%+v, %v", p, err)
	}
}

func build(t *testing.T, text string) *Network {
	t.Helper()
	spec, err := device.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	means := device.Means{Load: kernel.BulkRoutes}
	if spec.Kind == device.Minne {
		means.Binary = testbuild.Minne(t, t.TempDir())
	}
	n, err := Build(t.Context(), spec, means)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// Every kind of device carries TCP and UDP, and what the client's port sends are packets of the size that the cell names.
func TestTransfers(t *testing.T) {
	for _, c := range []struct {
		device, path string
		cells        []Cell
	}{
		{"kernel", Routed, []Cell{{IPv4, UDP, 64}, {IPv6, TCP, 1500}}},
		{"minne", Routed, []Cell{{IPv6, UDP, 64}, {IPv4, TCP, 256}}},
		{"bridge", Bridged, []Cell{{IPv4, TCP, 64}, {IPv6, UDP, 1500}}},
	} {
		t.Run(c.device, func(t *testing.T) {
			n := build(t, c.device)
			for _, cell := range c.cells {
				packets, bytes := sentBy(t, n)
				m, err := n.Matrix(t.Context(), Options{Cells: []Cell{cell}, Seconds: 1, Quick: true})
				if err != nil || m.Path != c.path || m.Device != c.device || len(m.Cells) != 1 {
					t.Fatalf("%+v, %v", m, err)
				}
				got := m.Cells[0]
				if got.Failed != "" || got.BitRate <= 0 || got.Packets <= 0 || got.CPUPercent <= 0 || got.CPUPercent > 100 || got.Loss < 0 || got.Loss > 1 {
					t.Errorf("cell %+v", got)
				}
				packetsNow, bytesNow := sentBy(t, n)
				if mean := (bytesNow - bytes) / (packetsNow - packets); math.Abs(mean/float64(got.Packet)-1) > 0.02 {
					t.Errorf("the client sent packets of %.1f bytes for cell %+v", mean, got)
				}
			}
		})
	}
}

// sentBy returns what the client's port has sent so far. A veth whose far end
// has GRO or XDP on counts bytes where they arrive, without the Ethernet header.
func sentBy(t *testing.T, n *Network) (packets, bytes float64) {
	t.Helper()
	text, err := n.client.Run(t.Context(), "ip", "-j", "-s", "link", "show", hostPort)
	if err != nil {
		t.Fatal(err)
	}
	var links []struct {
		Stats struct {
			Sent struct{ Bytes, Packets float64 } `json:"tx"`
		} `json:"stats64"`
	}
	if err := json.Unmarshal([]byte(text), &links); err != nil || len(links) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	return links[0].Stats.Sent.Packets, links[0].Stats.Sent.Bytes
}

// Two machines stood for by one: transfers and round trips over the loopback interface.
func TestEndToEnd(t *testing.T) {
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx) }()
	n, err := Remote(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Cells: []Cell{{IPv4, TCP, 1024}, {IPv4, UDP, 512}, {IPv6, TCP, 64}}, Seconds: 1, Quick: true}
	m, err := n.Matrix(t.Context(), o)
	if err != nil || m.Path != EndToEnd || len(m.Cells) != 3 {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, cell := range m.Cells[:2] {
		if cell.Failed != "" || cell.BitRate <= 0 {
			t.Errorf("cell %+v", cell)
		}
	}
	if !strings.Contains(m.Cells[2].Failed, "no IPv6 address") {
		t.Errorf("a family that the server doesn't have: %+v", m.Cells[2])
	}
	if facts, err := n.Facts(t.Context()); err != nil || facts.Kind != "external" {
		t.Errorf("facts %+v, %v", facts, err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if stop(); <-served != nil {
		t.Error("the server failed when it was ended")
	}
}

func TestNoServer(t *testing.T) {
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Remote(ctx, "127.0.0.1"); err == nil || !strings.Contains(err.Error(), "minne lab matrix --server") {
		t.Errorf("without a server: %v", err)
	}
}

func TestResponsiveness(t *testing.T) {
	n := build(t, "kernel")
	r, err := n.Responsiveness(t.Context(), Options{Seconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r.Idle.P50 <= 0 || r.Loaded.P50 <= 0 || r.BitRate <= 0 || r.RPM <= 0 || r.Idle.Spectrum.Count() < 50 {
		t.Errorf("%+v", r)
	}
}

func TestCancelKeepsCells(t *testing.T) {
	n := build(t, "bridge")
	ctx, cancel := context.WithCancel(t.Context())
	m, err := n.Matrix(ctx, Options{Cells: []Cell{{IPv4, TCP, 1500}, {IPv4, TCP, 1024}}, Seconds: 1, Done: func(m result.Matrix) { cancel() }})
	if !errors.Is(err, context.Canceled) || len(m.Cells) != 1 {
		t.Errorf("after a cancel behind the first cell: %+v, %v", m, err)
	}
}

// A server without an address of a family leaves those cells failed, with the reason.
func TestMissingFamily(t *testing.T) {
	n := build(t, "kernel")
	delete(n.server, IPv6)
	m, err := n.Matrix(t.Context(), Options{Cells: []Cell{{IPv6, TCP, 512}, {IPv4, TCP, 512}}, Seconds: 1})
	if err != nil || len(m.Cells) != 2 || !strings.Contains(m.Cells[0].Failed, "no IPv6 address") || m.Cells[1].Failed != "" {
		t.Errorf("%+v, %v", m, err)
	}
}
