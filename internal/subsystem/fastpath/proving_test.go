// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"strings"
	"testing"
	"time"

	"minne/internal/base/ethtool"
	"minne/internal/subsystem/fastpath/prove"
)

// TestPortsAreAsked has a kernel as before Linux 6.3, which does not say what drivers can do: of two ports one sends nothing
// that is redirected to it. Its packets are the kernel's, until it sends.
func TestPortsAreAsked(t *testing.T) {
	was := featuresOf
	featuresOf = func(int) (features, error) { return 0, errNoFeatures }
	t.Cleanup(func() { featuresOf = was })
	b := newBench(t)
	there, back := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18), udp4(macOut, macB, "198.51.100.2", "192.0.2.2", 64, 18)
	b.expect(there, b.in, Forwarded)
	b.expect(back, b.out, Forwarded)

	b.stop()
	turn(t, "b", ethtool.Receive, false) // a veth then drops what is redirected to it
	b.start()
	eventually(t, "packets go the other way", func() bool { return b.run(back, b.out).Reason == Forwarded })
	if v := b.run(there, b.in); v.Action == ActionRedirect {
		t.Error("packets leave by a port that sends nothing")
	}
	o, err := b.fast.Observe(t.Context())
	must(t, err)
	for _, p := range o.Ports {
		if p.Transmits != (p.Name == "in") || p.Transmits == strings.Contains(p.Why, "receives only: a frame that a program redirected to it was not sent") {
			t.Errorf("port %+v", p)
		}
	}

	turn(t, "b", ethtool.Receive, true)
	b.fast.locked(func() { b.fast.ports[b.out.Attrs().Index].proved.asked = time.Time{} }) // as if it was long ago
	b.fast.look()
	b.expect(there, b.in, Forwarded)
}

// TestPortsThatSayWhatTheyCant: a driver that says that it can't send for XDP is believed, and not asked.
func TestPortsThatSayWhatTheyCant(t *testing.T) {
	b := newBench(t)
	b.expect(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18), b.in, Forwarded)
	b.stop()
	was := askPort
	askPort = func(_ *prove.Prover, ifindex int, _ [6]byte, _ []int) error {
		if ifindex == b.out.Attrs().Index {
			t.Error("the port was asked")
		}
		return nil
	}
	t.Cleanup(func() { askPort = was })
	turn(t, "b", ethtool.Receive, false)
	b.start()
	b.onlyReceives("receives only: the far end of the veth has neither XDP nor GRO")
}

// TestPortsWithAQueueForSomeCPUs: packets may arrive on a CPU for which a port has no queue; what it sends from the others is not
// enough.
func TestPortsWithAQueueForSomeCPUs(t *testing.T) {
	b := newBench(t)
	b.expect(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18), b.in, Forwarded)
	b.stop()
	was := askPort
	askPort = func(_ *prove.Prover, ifindex int, _ [6]byte, cpus []int) error {
		if ifindex == b.out.Attrs().Index && len(cpus) > 1 {
			return &prove.Failure{CPUs: cpus[1:]}
		}
		return nil
	}
	t.Cleanup(func() { askPort = was })
	b.start()
	b.onlyReceives("from CPU 1: give it a queue for each CPU, or keep packets from the others (system.cpus)")
}

// onlyReceives wants packets to the port out to be the kernel's, and the others not.
func (b *bench) onlyReceives(why string) {
	b.t.Helper()
	back := udp4(macOut, macB, "198.51.100.2", "192.0.2.2", 64, 18)
	eventually(b.t, "packets go the other way", func() bool { return b.run(back, b.out).Reason == Forwarded })
	if v := b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18), b.in); v.Action == ActionRedirect {
		b.t.Error("packets leave by it")
	}
	o, err := b.fast.Observe(b.t.Context())
	must(b.t, err)
	for _, p := range o.Ports {
		if p.Transmits != (p.Name == "in") || p.Name == "out" && !strings.HasSuffix(p.Why, why) {
			b.t.Errorf("port %+v", p)
		}
	}
}
