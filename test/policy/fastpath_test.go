// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/base/instance"
	"minne/internal/model/packet"
	"minne/internal/model/policy"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/offloadtest"
	"minne/internal/testing/policygen"
)

// The fourth voice: the loaded eBPF program, with the policy as it gets it from the
// daemon, asked about whole frames (its tracing twin sends and counts nothing).

// loaded is the fast path of a bed.
type loaded struct {
	*bed
	fast  *fastpath.FastPath
	ports [policygen.Ports]int // ifindexes of the router's side
}

func newLoaded(t *testing.T) *loaded {
	l := &loaded{bed: newBed(t)}
	nft(t, `table inet minne_follow { chain output { type filter hook output priority 0; ct state new accept; }; }`) // connections are followed
	t.Cleanup(func() { nft(t, "delete table inet minne_follow") })
	inst := instance.Instance{Name: "test", BPFDir: filepath.Join("/sys/fs/bpf", t.Name())}
	log := slog.New(slog.DiscardHandler)
	desired := fastpath.Desired{Mode: "generic", Interfaces: map[string]fastpath.DesiredPort{}}
	for i := range policygen.Ports {
		desired.Interfaces[policygen.PortName(i)] = fastpath.DesiredPort{FastPath: true, Evaluated: true}
		link, err := netlink.LinkByName(policygen.PortName(i))
		must(t, err)
		l.ports[i] = link.Attrs().Index
	}
	l.fast = fastpath.New(inst, log)
	t.Cleanup(func() {
		l.fast.Close()
		must(t, fastpath.Off(inst))
	})
	must(t, l.fast.Firewall().Apply(t.Context(), &filter.Policy{Kernel: "nothing yet"}))
	must(t, l.fast.Apply(t.Context(), desired))
	ctx, cancel := context.WithCancel(context.Background())
	watcher, ended := kernel.NewWatcher(log, l.fast), make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	select {
	case <-watcher.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the kernel's state was not told within 20 s")
	}
	return l
}

// disagreement is about the first packet that the program evaluates otherwise than the reference, ""
// when there is none. The verdicts that they agree about are counted.
func (l *loaded) disagreement(p *policy.Policy, trials []trial, verdicts map[string]int) string {
	l.t.Helper()
	voice, err := offloadtest.New(p)
	must(l.t, err)
	must(l.t, l.fast.Firewall().Apply(l.t.Context(), voice.Lowered))
	for _, t := range trials {
		got, err := l.fast.Run(t.frame, l.ports[t.port])
		must(l.t, err)
		want, words := l.wanted(voice, t)
		if words == "" {
			words = wrongly(got, want, l.egress(t))
		}
		if words != "" {
			return fmt.Sprintf("%v\n  program: %s, %v (%s)\n  wanted:  %+v\n  %s", t, fastpath.VerdictOf(got.Action), got.Reason, got.Reason.Text(), want, words)
		}
		kind := fastpath.VerdictOf(got.Action)
		if got.Action == fastpath.ActionPass {
			kind = got.Reason.String()
		}
		verdicts[kind]++
	}
	return ""
}

// wanted is what the reference's verdict means for the program.
func (l *loaded) wanted(voice *offloadtest.Voice, t trial) (want filter.Verdict, words string) {
	self, back := t.what.Out == "", t.what.Out == t.what.In && t.what.Source.Is6() // for a redirect perhaps
	asked := t.what.Protocol == packet.ProtoTCP || t.what.Protocol == packet.ProtoUDP
	if self || back || voice.Lowered.Translates && !asked { // conntrack may translate it, and can't be asked
		return filter.Verdict{Action: filter.Kernel}, ""
	}
	return voice.Ask(t.what, 0, false)
}

func (l *loaded) egress(t trial) int {
	for i, index := range l.ports {
		if policygen.PortName(i) == t.what.Out {
			return index
		}
	}
	return 0
}

// wrongly says how the program's verdict is not the one that is wanted.
func wrongly(got fastpath.Verdict, want filter.Verdict, egress int) string {
	action := map[filter.Action]uint32{filter.Kernel: fastpath.ActionPass, filter.Permit: fastpath.ActionRedirect, filter.Drop: fastpath.ActionDrop}[want.Action]
	switch {
	case got.Action != action:
		return "another verdict"
	case want.Action != filter.Kernel && got.Evaluated != want:
		return fmt.Sprintf("the rules say %+v", got.Evaluated)
	case want.Action == filter.Drop && got.Reason.String() != "denied":
		return "dropped for another reason"
	case want.Action == filter.Permit && got.Egress != egress:
		return fmt.Sprintf("leaves by link %d, not %d", got.Egress, egress)
	}
	return ""
}

func TestTheLoadedProgram(t *testing.T) {
	policies, packets := many(120, 320)
	l := newLoaded(t)
	verdicts := map[string]int{}
	type draft struct {
		seed   uint64
		d      policygen.Draft
		p      *policy.Policy
		trials []trial
	}
	var drafts []draft
	for seed := range uint64(policies) {
		g := policygen.New(1000 + seed)
		one := draft{seed: 1000 + seed, d: g.Draft()}
		var err error
		if one.p, err = one.d.Compile(); err != nil {
			t.Fatalf("seed %d: %v\n%s", one.seed, err, one.d.Text())
		}
		if g.IntN(4) == 0 {
			translated := one.d
			translated.NAT = []string{g.Translation()}
			if p, err := translated.Compile(); err == nil {
				one.d, one.p = translated, p
			}
		}
		one.trials = trials(g, l.bed, one.p, packets)
		drafts = append(drafts, one)
	}
	// Those that need the same program follow each other.
	slices.SortStableFunc(drafts, func(a, b draft) int {
		rank := map[bool]int{}
		rank[true] = 1
		return rank[a.p.Stateful() || a.p.NAT != nil] - rank[b.p.Stateful() || b.p.NAT != nil]
	})
	for _, one := range drafts {
		words := l.disagreement(one.p, one.trials, verdicts)
		if words == "" {
			continue
		}
		small := one.d.Shrink(func(d policygen.Draft) bool {
			p, err := d.Compile()
			return err == nil && l.disagreement(p, one.trials, map[string]int{}) != ""
		})
		p, _ := small.Compile()
		t.Fatalf("seed %d: %s\nmade small:\n%s\n%s", one.seed, words, l.disagreement(p, one.trials, verdicts), small.Text())
	}
	t.Logf("%d policies, verdicts %v", len(drafts), verdicts)
	for _, want := range []string{fastpath.VerdictForwarded, fastpath.VerdictDropped, "rule", "beginning", "connection", "local"} {
		if verdicts[want] < policies {
			t.Errorf("only %d packets of the kind %q were tried", verdicts[want], want)
		}
	}
}
