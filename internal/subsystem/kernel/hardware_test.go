// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// hardwareOf is a router with one port, and what its section ethernet says.
func hardwareOf(text string) *config.Config {
	cfg, err := config.Parse("test", []byte("version: 1\ninterfaces:\n  trunk: {match: {name: eth0}, ethernet: {"+text+"}}\n"))
	if err != nil {
		panic(err)
	}
	return cfg
}

// TestHardwareSettings: all that a section asks for is set, once, told in the preview, and put back after a hand.
func TestHardwareSettings(t *testing.T) {
	p := machine()
	p.hardware = map[string]int{}
	for _, at := range []string{"eth0", "trunk"} { // before and after it has its name
		for _, s := range []string{"queues", "receive ring", "transmit ring", "receive coalescing", "receive frames", "transmit coalescing",
			"adaptive coalescing", "flow control", "energy-efficient Ethernet", "UDP ports in the hash", "speed"} {
			p.hardware[at+" "+s] = 1
		}
	}
	cfg := hardwareOf("queues: 4, rx-ring: 2048, tx-ring: 1024, rx-coalesce: 50, tx-coalesce: 0, rx-coalesce-frames: 32, adaptive-coalescing: off, " +
		"flow-control: off, eee: off, hash-ports: on, speed: 100Mbit")
	k := applyTo(t, p, cfg)
	want := map[string]int{"queues": 4, "receive ring": 2048, "transmit ring": 1024, "receive coalescing": 50, "transmit coalescing": 0,
		"receive frames": 32, "adaptive coalescing": 0, "flow control": 0, "energy-efficient Ethernet": 0, "UDP ports in the hash": 1, "speed": 100}
	got := map[string]int{}
	for name, v := range p.hardware {
		if s, ok := strings.CutPrefix(name, "trunk "); ok {
			got[s] = v
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("set are %v, expected %v", got, want)
	}
	p.hardware["trunk flow control"] = 1
	if rep := reassert(t, k); len(rep.Repaired) != 1 || rep.Repaired[0].Text != "flow control of trunk was changed to on" || p.hardware["trunk flow control"] != 0 {
		t.Errorf("report %+v, flow control %d", rep, p.hardware["trunk flow control"])
	}
	d := render(t, hardwareOf("autonegotiation: on, rx-coalesce: 20"))
	changes, err := k.Plan(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, c := range changes {
		said = append(said, c.String())
	}
	text := strings.Join(said, "\n")
	for _, s := range []string{"receive coalescing of trunk: 50 µs → 20 µs", "speed of trunk: 100 Mbit/s → negotiated"} {
		if !strings.Contains(text, s) {
			t.Errorf("the preview lacks %q:\n%s", s, text)
		}
	}
}

// TestHardwareThatIsNot: a commit that asks for more than a card has is refused before anything is changed.
func TestHardwareThatIsNot(t *testing.T) {
	for text, says := range map[string]string{
		"queues: 16":               "trunk: queues: the card has at most 8, not 16",
		"rx-ring: 8192, queues: 2": "trunk: receive ring: the card has at most 4096, not 8192",
		"eee: off":                 "trunk: its driver has no energy-efficient Ethernet to set: remove it from the section ethernet",
	} {
		p := machine()
		p.hardware = map[string]int{"eth0 queues": 1, "eth0 receive ring": 256}
		k := New(slog.New(slog.DiscardHandler))
		k.system = p
		if err := k.Apply(context.Background(), render(t, hardwareOf(text))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, expected %q", text, err, says)
		}
		if len(p.done) != 0 || p.hardware["eth0 queues"] != 1 {
			t.Errorf("%s: changed all the same: %v %v", text, p.done, p.hardware)
		}
	}
}

// TestQueuesOfAPort: with a real driver.
func TestQueuesOfAPort(t *testing.T) {
	shell(t, "ip link add eth0 numrxqueues 4 numtxqueues 4 type veth peer name eth0p && ip link set eth0p up")
	t.Cleanup(func() { shell(t, "ip link del eth0p") })
	k, d := New(slog.New(slog.DiscardHandler)), render(t, hardwareOf("queues: 3"))
	apply(t, k, d)
	if got := shell(t, "ethtool -l trunk"); !strings.Contains(got, "RX:\t\t3\nTX:\t\t3\n") {
		t.Error(got)
	}
	shell(t, "ethtool -L trunk rx 1 tx 1")
	if !k.Drifted() {
		t.Error("nobody sees that the queues are others")
	}
	rep, err := k.Reassert(context.Background())
	if err != nil || len(rep.Repaired) != 1 || rep.Repaired[0].Text != "queues of trunk was changed to 1" {
		t.Errorf("report %+v, %v", rep, err)
	}
	if err := k.Apply(context.Background(), render(t, hardwareOf("queues: 9"))); err == nil || !strings.Contains(err.Error(), "the card has at most 4, not 9") {
		t.Errorf("nine queues: %v", err)
	}
}
