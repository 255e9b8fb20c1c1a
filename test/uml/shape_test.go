// SPDX-License-Identifier: Apache-2.0

package uml

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"minne/internal/daemon/show"
	"minne/internal/lab/responsiveness"
)

// shapedRouter is a router whose line to an ISP is shaped; SHAPE is the section. NAT is somebody else's
// there: this kernel's nftables has no IP.
const shapedRouter = `
      version: 1
      interfaces:
        p1: {addresses: [10.1.0.1/24]}
        p2: {addresses: [10.2.0.1/24]}
        wan: {addresses: [192.0.2.2/24]SHAPE}
      fast-path: {mode: generic}
`

func shapedConfig(section string) string { return strings.Replace(shapedRouter, "SHAPE", section, 1) }

// TestShape has two hosts behind NAT share a line: one with one connection, one with 64. Each gets half of it in either
// direction, the fast path leaves all of it to the kernel and says so, what somebody takes away comes back, and without
// the section nothing is left.
func TestShape(t *testing.T) {
	const shape = ", shape: {down: 12Mbit, up: 12Mbit}"
	b := build(t, `
version: 1
nodes:
  one: {runs: host, ports: {eth0: [10.1.0.2/24]}, gateway: [10.1.0.1]}
  many: {runs: host, ports: {eth0: [10.2.0.2/24]}, gateway: [10.2.0.1]}
  isp: {runs: host, ports: {eth0: [192.0.2.1/24]}, gateway: [192.0.2.2]}
  router:
    runs: minne
    machine: uml
    config: |`+shapedConfig(shape)+`
links:
  - {ends: [one.eth0, router.p1]}
  - {ends: [many.eth0, router.p2]}
  - {ends: [isp.eth0, router.wan]}
`)
	b.until(t, "show fast-path names what is shaped", func() error { return b.leftToKernel(t, true) })
	b.talk(t, "one", "isp", "192.0.2.1", kernel)
	b.run(t, "router", "iptables-legacy", "-t", "nat", "-A", "POSTROUTING", "-o", "wan", "-j", "MASQUERADE")
	filled, err := responsiveness.On(b.Network)
	if err != nil {
		t.Fatal(err)
	}
	defer filled.Close()
	b.fair(t, filled, responsiveness.Up)
	b.fair(t, filled, responsiveness.Down)
	if v := b.shapes(t); len(v.Lines) != 2 || v.Lines[0].Rate != responsiveness.LineRate || len(v.Lines[0].Tins) != 1 || v.Lines[0].Tins[0].Packets == 0 || v.Lines[1].Tins[0].Packets == 0 {
		t.Errorf("show shape: %+v", v)
	}
	t.Log("\n" + b.command(t, "show", "shape"))

	for _, taken := range []string{"tc qdisc del dev wan root", "tc filter del dev wan ingress", "ip link del ifb-wan", "tc qdisc replace dev wan root pfifo limit 9",
		"tc qdisc change dev ifb-wan root cake bandwidth 1gbit"} {
		b.run(t, "router", "sh", "-c", taken)
		b.until(t, "after "+taken+" all is there again", func() error { return b.shaped(t) })
	}
	if log := b.router.Log(200); !strings.Contains(log, "queueing discipline of wan was removed") || !strings.Contains(log, "wan was replaced by pfifo") {
		t.Errorf("the log does not say what was restored:\n%s", log)
	}
	b.run(t, "router", "sh", "-c", "tc filter add dev wan ingress prio 3 matchall classid 1:1")
	b.apply(t, shapedConfig(""))
	if left := b.run(t, "router", "sh", "-c", "tc qdisc show; ip link show; tc filter show dev wan ingress"); strings.Contains(left, "cake") || strings.Contains(left, "ifb-wan") ||
		strings.Contains(left, "mirred") || !strings.Contains(left, "pref 3") {
		t.Errorf("left behind, or taken away from others:\n%s", left)
	}
	b.run(t, "router", "sh", "-c", "tc qdisc del dev wan ingress; iptables-legacy -t nat -F")
	b.until(t, "the fast path has the line again", func() error { return b.leftToKernel(t, false) })
	b.talk(t, "one", "isp", "192.0.2.1", fast)
}

// fair has both hosts fill the line in one direction, and wants that both have their share. Latency meanwhile is printed.
func (b bed) fair(t *testing.T, lab *responsiveness.Bed, d responsiveness.Direction) {
	t.Helper()
	b.until(t, "both hosts have their share "+string(d), func() error { // on a busy machine it takes a while until they have filled the line
		all, err := lab.Measure(t.Context(), d, 1, 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		w := &all[0]
		t.Logf("%s: 1 flow %.2f Mbit/s, 64 flows %.2f Mbit/s, Jain's index %.4f; round trips of the host with 1 flow: %.1f ms in the median, 99th percentile %.1f ms", d,
			w.Hosts[0]/1e6, w.Hosts[1]/1e6, w.Jain(), w.Trips.Quantile(0.5).Seconds()*1000, w.Trips.Quantile(0.99).Seconds()*1000)
		const most = 1.2 // what was in queues elsewhere comes out meanwhile
		if sum := w.Hosts[0] + w.Hosts[1]; sum > responsiveness.LineRate*most || sum == 0 {
			t.Errorf("%s: %.1f Mbit/s passed a line of %.0f", d, sum/1e6, responsiveness.LineRate/1e6)
		}
		if w.Jain() < 0.9 {
			return fmt.Errorf("the hosts' shares have Jain's index %.3f, expected at least 0.9", w.Jain())
		}
		return nil
	})
}

func (b bed) shapes(t *testing.T) (v show.ShapeView) {
	t.Helper()
	if err := b.router.JSON(t.Context(), &v, "show", "shape"); err != nil {
		t.Fatal(err)
	}
	return v
}

// shaped is what show shape says against the line being shaped in both directions.
func (b bed) shaped(t *testing.T) error {
	v := b.shapes(t)
	if len(v.Lines) != 2 {
		return fmt.Errorf("%+v", v)
	}
	for _, l := range v.Lines {
		if l.Problem != "" || len(l.Tins) == 0 {
			return fmt.Errorf("%s of %s: %s", l.Direction, l.Interface, l.Problem)
		}
	}
	return nil
}

// leftToKernel wants that show fast-path names both directions of the line, or none.
func (b bed) leftToKernel(t *testing.T, shaped bool) error {
	said := ""
	for _, h := range b.observe(t).Held {
		said += h.Packets + ": " + h.Reason + "\n"
	}
	for _, one := range []string{"what comes in by wan: shape down", "what leaves by wan: shape up"} {
		if strings.Contains(said, one) != shaped {
			return fmt.Errorf("show fast-path says %q, %q expected: %v", said, one, shaped)
		}
	}
	return nil
}

func (b bed) command(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := b.router.Command(t.Context(), argv...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return out
}
