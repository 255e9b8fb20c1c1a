// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath/filter"
)

// passing is somebody else's program.
func passing(t testing.TB, name string) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "GPL",
		Instructions: asm.Instructions{asm.LoadImm(asm.R0, ActionPass, asm.DWord), asm.Return()}})
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// otherMap is an object that somebody pins in the place of another.
func otherMap(t testing.TB) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// pinnedLink opens a port's link as anybody can.
func (b *bench) pinnedLink(l netlink.Link) link.Link {
	b.t.Helper()
	opened, err := link.LoadPinnedLink(pinOf(b.inst.BPFDir, l.Attrs().Index), nil)
	must(b.t, err)
	b.t.Cleanup(func() { opened.Close() })
	return opened
}

// whole says whether ports and pins are as the daemon made them.
func (b *bench) whole() bool {
	for _, l := range []netlink.Link{b.in, b.out} {
		opened, err := link.LoadPinnedLink(pinOf(b.inst.BPFDir, l.Attrs().Index), nil)
		if err != nil {
			return false
		}
		on, err := attachedTo(opened)
		i, _ := opened.Info()
		opened.Close()
		var own ebpf.ProgramID
		b.fast.locked(func() {
			if p := b.fast.ports[l.Attrs().Index]; p != nil {
				own = programID(b.fast.onPort(p))
			}
		})
		if err != nil || on != l.Attrs().Index || i == nil || i.Program != own || b.xdpProgram(l) != uint32(own) {
			return false
		}
	}
	left, err := Left(b.inst, true)
	return err == nil && len(left.Ports) == 2 && len(left.Reasons) > 0
}

// TestWhatOthersTakeComesBack: links that are detached, programs that are exchanged, pins that go or are replaced come back by
// themselves, with a word about it, while packets flow.
func TestWhatOthersTakeComesBack(t *testing.T) {
	b := newBench(t)
	b.awaitForwarding()
	stop := b.stream()
	for _, hand := range []struct {
		name  string
		words string
		do    func()
	}{
		{"bpftool link detach", "detached", func() { must(t, b.pinnedLink(b.out).(interface{ Detach() error }).Detach()) }},
		{"another program under the link", "had replaced Minne's", func() { must(t, b.pinnedLink(b.out).Update(passing(t, "somebody"))) }},
		{"rm -r of the pins", "pins below", func() { must(t, os.RemoveAll(b.inst.BPFDir)) }},
		{"umount of the bpffs", "pins below", func() { must(t, unix.Unmount(bpffs, unix.MNT_DETACH)) }},
		{"other objects in the place of pins", "pins below", func() {
			for _, path := range []string{pinOf(b.inst.BPFDir, b.in.Attrs().Index), filepath.Join(b.inst.BPFDir, routerMapReasons)} {
				must(t, os.Remove(path))
				must(t, otherMap(t).Pin(path))
			}
		}},
	} {
		_, before := b.fast.health.Repairs()
		hand.do()
		eventually(t, hand.name+": everything is back", func() bool { return b.whole() })
		eventually(t, hand.name+": it is told", func() bool {
			last, all := b.fast.health.Repairs()
			return all > before && strings.Contains(last[len(last)-1].Text, hand.words)
		})
	}
	if sent, lost := stop(); lost != 0 || sent == 0 {
		t.Errorf("%d of %d packets lost", lost, sent)
	}
	if err := exec.Command("ip", "link", "set", "out", "xdp", "off").Run(); err == nil {
		t.Error("ip link set xdp off takes the program away under a link")
	}
	if faults := b.fast.health.Faults(); len(faults) != 0 {
		t.Errorf("faults: %+v", faults)
	}
}

// TestAForeignProgramIsTold: somebody detaches the program and attaches another. It is named until it goes; then Minne's is back.
func TestAForeignProgramIsTold(t *testing.T) {
	b := newBench(t)
	b.awaitForwarding()
	theirs := passing(t, "somebody")
	b.fast.mu.Lock() // so that Minne is not the first
	must(t, b.pinnedLink(b.out).(interface{ Detach() error }).Detach())
	l, err := link.AttachXDP(link.XDPOptions{Program: theirs, Interface: b.out.Attrs().Index, Flags: link.XDPDriverMode})
	b.fast.mu.Unlock()
	must(t, err)
	eventually(t, "the foreign program is told", func() bool {
		return strings.Contains(b.fast.Trouble()["fast path on out"], "somebody")
	})
	must(t, l.Close())
	eventually(t, "Minne's program is back", func() bool { return len(b.fast.Trouble()) == 0 && b.whole() })
}

// TestOffWhileTheDaemonLooks: what an operator takes off is not put back by a look that began before.
func TestOffWhileTheDaemonLooks(t *testing.T) {
	b := newBench(t)
	for round := range 10 {
		ended, off := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-off:
					return
				default:
					b.fast.look()
				}
			}
		}()
		must(t, Off(b.inst))
		close(off)
		<-ended
		if in, out := b.xdpProgram(b.in), b.xdpProgram(b.out); in != 0 || out != 0 {
			t.Errorf("round %d: programs %d and %d are attached again", round, in, out)
		}
		if _, all := b.fast.health.Repairs(); all != 0 {
			t.Fatalf("round %d: %d repairs of what an operator meant", round, all)
		}
		must(t, b.fast.Apply(context.Background(), b.desired()))
		eventually(t, "the apply brings it back", b.whole)
	}
}

// TestOffByHand: what an operator takes off stays off, is told, and is in the plan of the next apply, which undoes it.
func TestOffByHand(t *testing.T) {
	wide, narrow := wideAndNarrow()
	b := newEvaluated(t, wide)
	plan := func() int {
		t.Helper()
		c, err := b.fast.Plan(context.Background(), b.desired())
		must(t, err)
		return len(c)
	}
	if n := plan(); n != 0 {
		t.Fatalf("%d changes before", n)
	}
	must(t, Off(b.inst))
	eventually(t, "it is told", func() bool {
		return strings.Contains(b.fast.Trouble()["fast path on out"], "by hand")
	})
	must(t, netlink.LinkSetDown(b.in)) // links that change bring nothing back
	must(t, netlink.LinkSetUp(b.in))
	b.evaluateBy(narrow) // nor does a firewall that needs another program
	b.fast.look()
	if in, out := b.xdpProgram(b.in), b.xdpProgram(b.out); in != 0 || out != 0 {
		t.Errorf("programs %d and %d are attached again", in, out)
	}
	if _, all := b.fast.health.Repairs(); all != 0 {
		t.Errorf("%d repairs of what an operator meant", all)
	}
	if o, err := b.fast.Observe(context.Background()); err != nil || o.Ports[0].Mode != "off" || !strings.Contains(o.Ports[0].Why, "by hand") {
		t.Errorf("observed %+v, %v", o.Ports, err)
	}
	if plan() == 0 {
		t.Error("the next apply has nothing to do")
	}
	must(t, b.fast.Apply(context.Background(), b.desired()))
	eventually(t, "the apply brings it back", b.whole)
	if n := plan(); n != 0 || len(b.fast.Trouble()) != 0 {
		t.Errorf("afterwards %d changes and trouble %v", n, b.fast.Trouble())
	}
}

// TestAnEarlierDaemonsProgramNeverEvaluatesOn: a daemon comes with a firewall that forbids more, and what the earlier one left can't be
// taken over as usual. No packet passes that the new firewall forbids from the moment its Apply returns.
func TestAnEarlierDaemonsProgramNeverEvaluatesOn(t *testing.T) {
	wide, narrow := wideAndNarrow()
	shut := *narrow
	shut.Kernel, shut.Rules = "everything is the kernel's", nil
	aside := "/sys/fs/bpf/aside"
	for _, c := range []struct {
		name   string
		policy *filter.Policy
		spoil  func(b *bench)
		broken bool
	}{
		{"all is well", narrow, func(*bench) {}, false},
		{"all is the kernel's", &shut, func(*bench) {}, false},
		{"no firewall", nil, func(*bench) {}, false},
		{"a pin is another object", narrow, func(b *bench) {
			path := pinOf(b.inst.BPFDir, b.in.Attrs().Index)
			b.pinnedLink(b.in) // somebody holds the link
			must(t, os.Remove(path))
			must(t, otherMap(t).Pin(path))
		}, false},
		{"pins are gone", narrow, func(b *bench) {
			b.pinnedLink(b.in)
			b.pinnedLink(b.out)
			must(t, os.RemoveAll(b.inst.BPFDir))
		}, false},
		{"the directory can't be made", narrow, func(b *bench) {
			must(t, os.Rename(b.inst.BPFDir, aside))
			must(t, otherMap(t).Pin(b.inst.BPFDir))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newEvaluated(t, wide)
			wireA, wireB := newWire(t, b.a), newWire(t, b.b)
			frame := udpTo("6002").toB() // wide permits it, narrow does not
			wireA.send(frame)
			if wireB.next(10*time.Second, addressed(macB)) == nil {
				t.Fatal("the first firewall does not permit what it should")
			}
			b.stop()
			kernelForbids(t, "6001, 6002")
			c.spoil(b)
			b.fast = New(b.inst, b.fast.log)
			must(t, b.fast.Firewall().Apply(context.Background(), c.policy))
			through := func(when string) {
				t.Helper()
				for range 50 {
					wireA.send(frame)
				}
				always := udpTo("6000").toB() // comes behind them
				wireA.send(always)
				switch f := wireB.next(10*time.Second, addressed(macB)); {
				case f == nil:
					t.Fatalf("%s: a packet that is permitted is lost", when)
				case !bytes.Equal(f[36:38], always[36:38]):
					t.Fatalf("%s: a packet that is forbidden passes", when)
				}
			}
			through("after the firewall's step")
			auto := b.desired()
			auto.Mode = "auto"
			must(t, b.fast.Apply(context.Background(), auto))
			through("after the fast path's step")
			if c.broken {
				if in, out := b.xdpProgram(b.in), b.xdpProgram(b.out); in != 0 || out != 0 {
					t.Errorf("programs %d and %d of the earlier daemon are still attached", in, out)
				}
				if told := b.fast.Trouble()["fast path"]; !strings.Contains(told, "no fast path") {
					t.Errorf("told: %q", told)
				}
				must(t, os.Remove(b.inst.BPFDir))
				must(t, os.RemoveAll(aside))
			}
			b.fast.Close()
			b.firewall = c.policy
			b.start()
			eventually(t, "the next daemon has all ports", b.whole)
			if c.policy != nil { // else the test's own rules are nothing that the fast path knows of
				through("with the next daemon")
			}
		})
	}
}
