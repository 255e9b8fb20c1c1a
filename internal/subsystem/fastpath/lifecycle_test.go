// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/subsystem/fastpath/label"
)

// fastPackets is how many packets the program itself has sent out of a port, by its own count.
func (b *bench) fastPackets(l netlink.Link) uint64 {
	b.t.Helper()
	left, err := Left(b.inst, true)
	must(b.t, err)
	for _, t := range left.Traffic {
		if t.Index == l.Attrs().Index {
			return t.TxPackets
		}
	}
	return 0
}

func (b *bench) xdpProgram(l netlink.Link) uint32 {
	b.t.Helper()
	now, err := netlink.LinkByIndex(l.Attrs().Index)
	must(b.t, err)
	if x := now.Attrs().Xdp; x != nil {
		return x.ProgId
	}
	return 0
}

// TestPacketsOnTheWire sends real packets both ways: they arrive as expected, by the fast path and
// not by the kernel.
func TestPacketsOnTheWire(t *testing.T) {
	b := newBench(t)
	wireA, wireB := newWire(t, b.a), newWire(t, b.b)
	eventually(t, "the fast path forwards", func() bool {
		return b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0), b.in).Reason == Forwarded &&
			b.run(udp6(macOut, macB, "2001:db8:b::2", "2001:db8:a::2", 64, 0), b.out).Reason == Forwarded
	})
	for range 100 {
		wireA.send(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18))
		if got := wireB.next(time.Second, addressed(macB)); string(got) != string(udp4(macB, macOut, "192.0.2.2", "198.51.100.2", 63, 18)) {
			t.Fatalf("got %x", got)
		}
		wireB.send(udp6(macOut, macB, "2001:db8:b::2", "2001:db8:a::2", 64, 4))
		if got := wireA.next(time.Second, addressed(macA)); string(got) != string(udp6(macA, macIn, "2001:db8:b::2", "2001:db8:a::2", 63, 4)) {
			t.Fatalf("got %x", got)
		}
	}
	if in, out := b.fastPackets(b.in), b.fastPackets(b.out); in != 100 || out != 100 {
		t.Errorf("the fast path sent %d and %d packets, expected 100 each", in, out)
	}
}

// stream sends numbered packets from a to b until it is told to stop, and reports which never came.
func (b *bench) stream() (stop func() (sent, lost int)) {
	b.t.Helper()
	wireA, wireB := newWire(b.t, b.a), newWire(b.t, b.b)
	quit, done := make(chan struct{}), make(chan [2]int)
	frame := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18)
	go func() {
		sent, lost, got := 0, 0, map[uint32]bool{}
		// Never more than 32 packets are on their way: a veth's ring has 256 places.
		collect := func() {
			for sent-lost > len(got) {
				f := wireB.next(5*time.Second, addressed(macB))
				if f == nil {
					lost = sent - len(got)
					return
				}
				got[binary.BigEndian.Uint32(f[42:])] = true
			}
		}
		for {
			select {
			case <-quit:
				collect()
				done <- [2]int{sent, lost}
				return
			default:
			}
			binary.BigEndian.PutUint32(frame[42:], uint32(sent))
			wireA.send(frame)
			if sent++; sent%32 == 0 {
				collect()
			}
		}
	}()
	return func() (int, int) {
		close(quit)
		r := <-done
		return r[0], r[1]
	}
}

// TestANewDaemonAdopts: the daemon goes, packets go on; a route changes; a new daemon comes, takes
// over without losing a packet, and knows the change.
func TestANewDaemonAdopts(t *testing.T) {
	b := newBench(t)
	eventually(t, "the fast path forwards", func() bool {
		return b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0), b.in).Reason == Forwarded
	})
	t.Cleanup(func() { ip(t, "route", "flush", "203.0.113.0/24") })
	stop := b.stream()
	for range 3 {
		before := b.xdpProgram(b.in)
		time.Sleep(50 * time.Millisecond)
		b.stop()
		sent := b.fastPackets(b.out)
		eventually(t, "packets go on without a daemon", func() bool { return b.fastPackets(b.out) > sent+10 })
		ip(t, "route", "replace", "blackhole", "203.0.113.0/24")
		b.start()
		if after := b.xdpProgram(b.in); after == before || after == 0 {
			t.Errorf("program %d after %d: not exchanged", after, before)
		}
		b.expect(udp4(macIn, macA, "192.0.2.2", "203.0.113.1", 64, 0), b.in, Reason(routerReasonREASON_BLACKHOLE))
		if o, err := b.fast.Observe(context.Background()); err != nil || o.Adopted != 2 || len(o.Ports) != 2 || o.Ports[0].Mode != "native" {
			t.Errorf("observed %+v, %v", o.Ports, err)
		}
	}
	sent, lost := stop()
	if lost != 0 || sent == 0 {
		t.Errorf("%d of %d packets lost", lost, sent)
	}
	o, err := b.fast.Observe(context.Background())
	must(t, err)
	for _, r := range o.Reasons {
		if r.Reason == Reason(routerReasonREASON_NOT_READY).String() && r.Count != 0 {
			t.Errorf("%d packets met tables that were not ready", r.Count)
		}
	}
}

// TestGrowingTables: more routes than the small image holds, with packets on their way.
func TestGrowingTables(t *testing.T) {
	b := newBench(t)
	eventually(t, "the fast path forwards", func() bool {
		return b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0), b.in).Reason == Forwarded
	})
	stop := b.stream()
	must(t, b.fast.withTables(func() error {
		s := b.fast.prog.shape
		s.capacity4, s.capacity6 = 0, 0 // fib.Full
		return b.fast.rebuild(s)
	}))
	desired := b.desired()
	desired.Structure = 3 // fib.Direct24
	must(t, b.fast.Apply(context.Background(), desired))
	if sent, lost := stop(); lost != 0 || sent == 0 {
		t.Errorf("%d of %d packets lost", lost, sent)
	}
	b.expect(udp6(macIn, macA, "2001:db8:a::2", "2001:db8:b::2", 64, 0), b.in, Forwarded)
}

// withTables runs do while nothing else changes the tables.
func (f *FastPath) withTables(do func() error) (err error) {
	f.locked(func() { err = do() })
	return err
}

func TestOffLeavesNothing(t *testing.T) {
	b := newBench(t)
	b.stop()
	must(t, Off(b.inst))
	if in, out := b.xdpProgram(b.in), b.xdpProgram(b.out); in != 0 || out != 0 {
		t.Errorf("programs %d and %d are still attached", in, out)
	}
	if _, err := os.Stat(b.inst.BPFDir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", b.inst.BPFDir, err)
	}
	wireA, wireB := newWire(t, b.a), newWire(t, b.b)
	wireA.send(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18))
	if got := wireB.next(time.Second, addressed(macB)); string(got) != string(udp4(macB, macOut, "192.0.2.2", "198.51.100.2", 63, 18)) {
		t.Errorf("the kernel forwarded %x", got)
	}
	must(t, Off(b.inst)) // once more does no harm
	b.start()
	must(t, Off(b.inst))
	if b.xdpProgram(b.in) != 0 {
		t.Error("a running daemon keeps the program attached")
	}
	if o, err := b.fast.Observe(context.Background()); err != nil || o.Ports[0].Mode != "off" {
		t.Errorf("observed %+v, %v", o.Ports, err)
	}
	must(t, b.fast.Apply(context.Background(), b.desired()))
	if b.xdpProgram(b.in) == 0 {
		t.Error("the daemon's next apply does not bring the fast path back")
	}
	left, err := Left(b.inst, true)
	must(t, err)
	if len(left.Ports) != 2 || len(left.Reasons) == 0 {
		t.Errorf("%d ports and %d reasons are pinned again", len(left.Ports), len(left.Reasons))
	}
}

func TestModesAndSwitches(t *testing.T) {
	b := newBench(t)
	frame := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0)
	apply := func(d Desired) {
		t.Helper()
		must(t, b.fast.Apply(context.Background(), d))
	}
	mode := func(want string) {
		t.Helper()
		o, err := b.fast.Observe(context.Background())
		must(t, err)
		for _, p := range o.Ports {
			if p.Mode != want {
				t.Errorf("%s is %s (%s), expected %s", p.Name, p.Mode, p.Why, want)
			}
		}
	}
	mode("native")
	d := b.desired()
	d.Mode = "generic"
	apply(d)
	mode("generic")
	b.expect(frame, b.in, Forwarded)

	d = b.desired()
	d.Interfaces["in"] = DesiredPort{}
	apply(d)
	if b.xdpProgram(b.in) != 0 || b.xdpProgram(b.out) == 0 {
		t.Error("in should have no program, out should")
	}
	b.expect(frame, b.in, Reason(routerReasonREASON_UNKNOWN_INTERFACE))
	b.expect(udp4(macOut, macB, "198.51.100.2", "192.0.2.2", 64, 0), b.out, Reason(routerReasonREASON_EGRESS))

	d = b.desired()
	d.Mode = "off"
	for name := range d.Interfaces {
		d.Interfaces[name] = DesiredPort{}
	}
	apply(d)
	mode("off")
	apply(b.desired())
	mode("native")
	b.expect(frame, b.in, Forwarded)
	before := b.xdpProgram(b.in)
	apply(b.desired())
	if after := b.xdpProgram(b.in); after != before {
		t.Error("applying the same again exchanged the program")
	}
}

// TestAForeignProgramStays: somebody else's program is named and left alone.
func TestAForeignProgramStays(t *testing.T) {
	b := newBench(t)
	must(t, b.fast.Apply(context.Background(), Desired{Mode: "off"}))
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "somebody", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.LoadImm(asm.R0, ActionPass, asm.DWord), asm.Return()}})
	must(t, err)
	defer pass.Close()
	theirs, err := link.AttachXDP(link.XDPOptions{Program: pass, Interface: b.in.Attrs().Index, Flags: link.XDPDriverMode})
	must(t, err)
	defer theirs.Close()
	before := b.xdpProgram(b.in)
	err = b.fast.Apply(context.Background(), b.desired())
	if err == nil || !strings.Contains(err.Error(), "somebody") || !strings.Contains(err.Error(), "fast path on in") {
		t.Errorf("error %v does not name the program and the interface", err)
	}
	if b.xdpProgram(b.in) != before {
		t.Error("the foreign program was replaced")
	}
	auto := b.desired()
	auto.Mode = "auto"
	must(t, b.fast.Apply(context.Background(), auto))
	o, err := b.fast.Observe(context.Background())
	must(t, err)
	if o.Ports[0].Name != "in" || o.Ports[0].Mode != "off" || !strings.Contains(o.Ports[0].Why, "somebody") {
		t.Errorf("observed %+v", o.Ports[0])
	}
}

// TestAPortThatGoesAndComes: a device vanishes with its program; one of the same name gets it again.
func TestAPortThatGoesAndComes(t *testing.T) {
	b := newBench(t)
	must(t, netlink.LinkDel(b.out))
	eventually(t, "the port is gone", func() bool {
		o, err := b.fast.Observe(context.Background())
		return err == nil && o.Ports[1].Name == "out" && o.Ports[1].Mode == "off" && o.Ports[1].Why == "there is no such link"
	})
	if _, err := os.Stat(filepath.Join(b.inst.BPFDir, portPin+strconv.Itoa(b.out.Attrs().Index))); !os.IsNotExist(err) {
		t.Errorf("its pin is still there: %v", err)
	}
	b.out, b.b = addVeth(t, "out", "b", macOut)
	addAddress(t, b.out, "198.51.100.1/24")
	addNeighbour(t, b.out, "198.51.100.2", macB, unix.NUD_PERMANENT)
	eventually(t, "the fast path forwards again", func() bool {
		return b.run(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0), b.in).Reason == Forwarded
	})
	if b.xdpProgram(b.out) == 0 {
		t.Error("no program on the new link")
	}
}

// TestCountersOutliveTheDaemon: a new daemon goes on counting where the last one ended.
func TestCountersOutliveTheDaemon(t *testing.T) {
	b := newBench(t)
	wireA, wireB := newWire(t, b.a), newWire(t, b.b)
	bad := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18)
	bad[14+10] ^= 0xff
	for i := range 10 {
		wireA.send(bad)
		wireA.send(udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18))
		if wireB.next(time.Second, addressed(macB)) == nil {
			t.Fatal("nothing forwarded")
		}
		if i == 5 {
			b.stop()
			b.start()
		}
	}
	o, err := b.fast.Observe(context.Background())
	must(t, err)
	for _, r := range o.Reasons {
		if r.Reason == "bad-checksum" && (r.Count != 10 || !r.Drop) {
			t.Errorf("%+v, expected 10 drops", r)
		}
	}
}

func TestSamplesOfDrops(t *testing.T) {
	b := newBench(t)
	wireA := newWire(t, b.a)
	bad := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 18)
	bad[14+10] ^= 0xff
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	quit := make(chan struct{})
	go func() {
		for { // one packet may come before samples are wanted
			select {
			case <-quit:
				return
			case <-time.After(5 * time.Millisecond):
				_, _ = unix.Write(wireA.fd, bad)
			}
		}
	}()
	found := false
	must(t, b.fast.Samples(ctx, func(s Sample) {
		if s.Reason == Reason(routerReasonREASON_BAD_CHECKSUM) && string(s.Frame) == string(bad) && s.Port == b.in.Attrs().Index {
			found = true
			cancel()
		}
	}))
	close(quit)
	if !found {
		t.Error("no sample of the dropped packets")
	}
}

// TestVerifier loads all builds and prints what the verifier had to look at, of a million that it would.
func TestVerifier(t *testing.T) {
	evaluated := firewallShape{on: true, members: minMembers}
	stateful := firewallShape{on: true, members: minMembers, flows: flow.MinFlows, conntrack: true}
	patterns := patternSets(t, "sets: {x: {patterns: [/a.*b/s, 0102]}}")
	for _, c := range []struct {
		name     string
		firewall firewallShape
		label    *label.Sets
		build    string
		more     shape
	}{
		{"ordinary", firewallShape{}, nil, "", shape{}}, {"tracing", firewallShape{}, nil, "trace_build", shape{}}, {"capturing", firewallShape{}, nil, "capture_build", shape{}},
		{"firewall", evaluated, nil, "", shape{}}, {"stateful firewall", stateful, nil, "", shape{}}, {"stateful firewall, capturing", stateful, nil, "capture_build", shape{}},
		{"patterns", firewallShape{}, patterns, "", shape{}}, {"patterns, stateful firewall", stateful, patterns, "", shape{}},
		{"patterns, tracing", stateful, patterns, "trace_build", shape{}}, {"patterns, capturing", stateful, patterns, "capture_build", shape{}},
		{"bridges", firewallShape{}, nil, "", shape{bridges: true}}, {"bridges, stateful firewall", stateful, nil, "", shape{bridges: true}},
		{"bonds", firewallShape{}, nil, "", shape{bonds: true}}, {"VRFs", firewallShape{}, nil, "", shape{vrfs: smallVRFs}}, {"VRFs, stateful firewall", stateful, nil, "", shape{vrfs: smallVRFs}}, {"jumbo", firewallShape{}, nil, "", shape{jumbo: true}}, {"sessions", firewallShape{}, nil, "", shape{sessions: true}}, {"sessions, stateful firewall", stateful, nil, "", shape{sessions: true}},
		{"bridges, sessions, bonds, VRFs, patterns, capturing", stateful, patterns, "capture_build", shape{bridges: true, sessions: true, bonds: true, jumbo: true, vrfs: smallVRFs}},
		{"bridges, sessions, bonds, VRFs, patterns, tracing", stateful, patterns, "trace_build", shape{bridges: true, sessions: true, bonds: true, jumbo: true, vrfs: smallVRFs}},
	} {
		spec, err := shape{structure: fib.Default, capacity4: fib.Small, capacity6: fib.Small, firewall: c.firewall, label: c.label, tells: c.firewall.conntrack, bridges: c.more.bridges, sessions: c.more.sessions, bonds: c.more.bonds, jumbo: c.more.jumbo, vrfs: c.more.vrfs}.spec()
		must(t, err)
		if c.build != "" {
			must(t, spec.Variables[c.build].Set(uint32(1)))
		}
		var objects routerObjects
		must(t, spec.LoadAndAssign(&objects, &ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}}))
		var looked int
		log := objects.Router.VerifierLog
		if at := strings.Index(log, "processed "); at < 0 {
			t.Errorf("%s: the verifier does not tell how much it processed:\n%s", c.name, log)
		} else if _, err := fmt.Sscanf(log[at:], "processed %d insns", &looked); err != nil || looked > 600_000 {
			t.Errorf("%s: the verifier looked at %d instructions: too near to its million (%v)", c.name, looked, err)
		}
		t.Logf("%s: %d instructions", c.name, looked)
		objects.Close()
	}
}

func TestReasonsHaveWords(t *testing.T) {
	for _, r := range Reasons() {
		if r.Text() == "" || strings.HasPrefix(r.String(), "reason-") {
			t.Errorf("reason %d has no words", r)
		}
		if r.Drop() && r.Hint() == "" {
			t.Errorf("drops for %s have no hint", r)
		}
	}
}

func TestDirectoryMustBeOnABPFFS(t *testing.T) {
	if err := ensureDir(filepath.Join(t.TempDir(), "pins")); err == nil || !strings.Contains(err.Error(), "bpffs") {
		t.Errorf("error %v does not say what is missing", err)
	}
}
