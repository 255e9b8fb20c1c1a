// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/filter"
)

// A program that should take the place of another one, and can't: memory is refused, at whatever step.

var errNoMemory = errors.New("cannot allocate memory (a test says so)")

// loading is what becomes of a program while it is loaded.
func loading(spoil func(*program)) func(shape, map[string]*ebpf.Map) (*program, error) {
	return func(s shape, lasting map[string]*ebpf.Map) (*program, error) {
		p, err := load(s, lasting)
		if err == nil {
			spoil(p)
		}
		return p, err
	}
}

// stubborn is the link of a port that refuses one program.
type stubborn struct {
	link.Link
	refusals int
}

func (s *stubborn) Update(p *ebpf.Program) error {
	if s.refusals > 0 {
		s.refusals--
		return errNoMemory
	}
	return s.Link.Update(p)
}

// refusal is a step at which another program fails.
type refusal struct {
	name string
	set  func(*bench)
}

var refusals = []refusal{
	{"the program", func(b *bench) {
		b.fast.load = func(shape, map[string]*ebpf.Map) (*program, error) { return nil, errNoMemory }
	}},
	{"the firewall", func(b *bench) { b.fast.load = loading(func(p *program) { p.objects.PolicyCounts.Close() }) }},
	{"the ports' table", func(b *bench) { b.fast.load = loading(func(p *program) { p.objects.Ports.Close() }) }},
	{"all ports", func(b *bench) { b.fast.load = loading(func(p *program) { p.objects.Router.Close() }) }},
	{"one port", func(b *bench) {
		one := b.fast.ports[b.out.Attrs().Index]
		one.link = &stubborn{one.link, 1}
	}},
}

// wideAndNarrow are two policies of which the second forbids more and needs another program.
func wideAndNarrow() (wide, narrow *filter.Policy) {
	wide = stateless(classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(6000, 6002), Verdict: permit(1)}, classify.Rule{Verdict: drop(2)})
	narrow = stateless(classify.Rule{Protocols: onlyUDP, DestinationPorts: portsOf(6000), Verdict: permit(1)}, classify.Rule{Verdict: drop(2)})
	set := filter.Set{Name: "large"}
	for i := range 5000 {
		set.Prefixes = append(set.Prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32))
	}
	narrow.Sets = []filter.Set{set}
	return wide, narrow
}

// kernelForbids makes the kernel drop datagrams to some ports, as its own firewall would.
func kernelForbids(t testing.TB, ports string) {
	t.Helper()
	c := exec.Command("nft", "-f", "-")
	c.Stdin = strings.NewReader("table inet minne_policy { chain forward { type filter hook forward priority 0; udp dport { " + ports + " } drop; }; }")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("nft", "delete", "table", "inet", "minne_policy").CombinedOutput(); err != nil {
			t.Errorf("nft: %v\n%s", err, out)
		}
	})
}

// TestARefusedFirewallIsTheKernels: the kernel has the new rules, the fast path can't take them. No packet passes
// that they forbid, none is lost that they permit, and what is told meanwhile is there afterwards.
func TestARefusedFirewallIsTheKernels(t *testing.T) {
	wide, narrow := wideAndNarrow()
	for i, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			b := newEvaluated(t, wide)
			in, out := b.xdpProgram(b.in), b.xdpProgram(b.out)
			stop := b.mixture()
			kernelForbids(t, "6001, 6002")
			must(t, b.fast.withTables(func() error { r.set(b); return nil }))
			if err := b.fast.Firewall().Apply(context.Background(), narrow); err == nil {
				t.Fatal("the apply does not say that it failed")
			}
			ofKernel := Reason(routerReasonREASON_FIREWALL)
			for _, port := range []string{"6000", "6001", "6002"} {
				b.expect(udpTo(port).toB(), b.in, ofKernel)
			}
			if b.xdpProgram(b.in) != in || b.xdpProgram(b.out) != out {
				t.Error("the ports don't run the old program")
			}
			if o, err := b.fast.Observe(context.Background()); err != nil || o.Firewall == nil || !strings.Contains(o.Firewall.Kernel, "could not load these rules") {
				t.Errorf("observed %+v, %v", o.Firewall, err)
			}
			ip(t, "route", "add", "203.0.113.0/24", "via", "198.51.100.2")
			must(t, b.fast.withTables(func() error { b.fast.load = load; return nil }))

			b.evaluateBy([]*filter.Policy{wide, narrow}[i%2]) // into the program that is there, or into another
			further := parcel{from: "192.0.2.2:4000", to: "203.0.113.9:6000", protocol: udpTo("1").protocol}
			eventually(t, "the route that came meanwhile is there", func() bool { return b.run(further.toB(), b.in).Reason == Forwarded })
			b.verdictOf(udpTo("6000").toB(), Forwarded, 1)
			b.verdictOf(udpTo("6001").toB(), denied, 2)
			b.expectAllOrNothing(stop)
		})
	}
}

// TestTablesThatCannotGrowStay: routes outgrow their table, and a larger one is refused. The firewall is what
// it was, and nothing is lost.
func TestTablesThatCannotGrowStay(t *testing.T) {
	wide, _ := wideAndNarrow()
	for _, r := range []refusal{refusals[1], refusals[len(refusals)-1]} {
		t.Run(r.name, func(t *testing.T) {
			b := newEvaluated(t, wide)
			before := b.xdpProgram(b.in)
			stop := b.mixture()
			err := b.fast.withTables(func() error {
				r.set(b)
				s := b.fast.prog.shape
				s.capacity4 = fib.Full
				return b.fast.rebuild(s)
			})
			if err == nil {
				t.Fatal("the rebuild does not say that it failed")
			}
			b.verdictOf(udpTo("6002").toB(), Forwarded, 1)
			b.verdictOf(udpTo("6001").toB(), denied, 2)
			b.expectAllOrNothing(stop)
			if b.xdpProgram(b.in) != before {
				t.Error("the ports don't run the old program")
			}
			if counts, err := b.fast.RuleCounts(); err != nil || counts[1].Packets == 0 || counts[2].Packets == 0 {
				t.Errorf("the rules' counters are gone: %v, %v", counts, err)
			}
		})
	}
}

// TestConntrackIsNotTriedInVain: a kernel without the functions of conntrack is asked for them once, until an
// operator applies or the kernel's modules change.
func TestConntrackIsNotTriedInVain(t *testing.T) {
	p := stateless(classify.Rule{Verdict: drop(1)})
	b := newEvaluated(t, p)
	tried := 0
	must(t, b.fast.withTables(func() error {
		b.fast.load = func(s shape, lasting map[string]*ebpf.Map) (*program, error) {
			if s.firewall.conntrack {
				tried++
				return nil, errors.New("no such function")
			}
			return load(s, lasting)
		}
		return nil
	}))
	stateful := *p
	stateful.Stateful = true
	for _, c := range []struct {
		name   string
		before func()
		want   int
	}{
		{"the first time", func() {}, 1},
		{"the second time", func() {}, 1},
		{"after an operator's apply", func() { b.fast.Firewall().Reconsider() }, 2},
		{"after that", func() {}, 2},
		{"with other modules", func() { b.fast.firewall.modules = "loaded: others" }, 3},
	} {
		c.before()
		b.evaluateBy(&stateful)
		if tried != c.want {
			t.Errorf("%s: tried %d times, expected %d", c.name, tried, c.want)
		}
	}
	if o, err := b.fast.Observe(context.Background()); err != nil || o.Firewall == nil || o.Firewall.Connections != "no such function" {
		t.Errorf("observed %+v, %v", o.Firewall, err)
	}
}
