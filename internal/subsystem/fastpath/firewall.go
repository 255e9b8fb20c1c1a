// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/plan"
	"minne/internal/subsystem/fastpath/classify"
	"minne/internal/subsystem/fastpath/filter"
	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/subsystem/fastpath/mapped"
)

// The firewall in the fast path. The program has two of each table; which of them packets are
// evaluated by stands in one word (control.policy), so a new firewall takes the place of the
// old one for every packet at once.

// Flags of control.policy, POLICY_ in bpf/policy.h.
const (
	policyBuffer     = 1
	policyOn         = 2
	policyKernel     = 4
	policyBeginnings = 16
	policyTranslates = 32
	policyMSS        = 64
	policyICMP       = 128
)

// Places in struct control, in words.
const (
	controlHashKey   = 1
	controlPolicy    = 3
	controlTimeouts  = 4
	controlMultipath = 5
)

// A way's word, WAY_ in bpf/policy.h.
const (
	wayKnown       = 1 << 8
	wayStateless   = 2 << 8
	wayDestination = 0x80
	waysPerBuffer  = 64 * 64
	solesPerBuffer = 2 * 256 // verdicts of 32 bits behind the ways, by family and number
	verdictSole    = 8
)

// firewall is what the fast path was told of the firewall, and compiled of it.
type firewall struct {
	told    bool // ApplyFirewall was called: what is here is the operator's word
	policy  *filter.Policy
	tables  *classify.Tables // nil when the kernel evaluates
	kernel  string           // why the kernel evaluates all; "" when it does not
	compile time.Duration
	swap    time.Duration        // the last time
	modules string               // of the kernel, when it was found to have no such functions
	noFlows string               // why the kernel carries connections though they could be carried here
	changed bool                 // sets have other members than policy says (ChangeSet)
	counted *filter.Policy       // whose rules the counters in force are of
	carried map[uint16]RuleCount // of the same rules, by counters that were in force before
}

// Firewall has the verbs of a subsystem for the firewall in the fast path, which is put in place
// right behind the kernel's.
type Firewall struct{ f *FastPath }

// Firewall is the firewall's part of the fast path.
func (f *FastPath) Firewall() Firewall { return Firewall{f} }

// Plan tells nothing: what changes in the firewall, the kernel's part of it tells.
func (Firewall) Plan(context.Context, *filter.Policy) ([]plan.Change, error) { return nil, nil }

// Apply makes packets be evaluated by p from now on; nil is no firewall. Every packet is evaluated
// wholly by the old one or the new one. Flows that were known are learned anew from conntrack, so
// what was ended there passes no more when Apply returns. What the fast path can't repeat is left
// to the kernel, so there is nothing that fails an apply but a machine that refuses memory; then all packets
// are left to the kernel, whose rules are in force already.
func (w Firewall) Apply(_ context.Context, p *filter.Policy) error {
	f := w.f
	f.mu.Lock()
	defer f.mu.Unlock()
	f.firewall.set(p)
	if f.firewall.kernel != "" {
		f.log.Warn("the kernel filters all packets: the fast path cannot repeat this firewall", "reason", f.firewall.kernel)
	}
	if err := f.silence(p); err != nil {
		return fmt.Errorf("the fast path of an earlier daemon may filter by its own rules: %w", err)
	}
	if f.tables == nil {
		return nil // packets are still the kernel's; start takes it from here
	}
	if f.capturing != nil && f.capturing.byRule && !sameCounters(f.firewall.counted, f.firewall.policy) {
		f.dropCapture(f.capturing, errors.New("the rules have changed: check the rule's number and restart the capture"))
	}
	err := f.putEvaluated(p)
	if err != nil {
		f.firewall.kernel, f.firewall.tables = "the fast path could not load these rules: "+err.Error(), nil
	}
	f.tables.unevaluated = err != nil
	f.tables.renderControl()
	return err
}

// putEvaluated puts the firewall that was told into the program, or into another one with more room.
func (f *FastPath) putEvaluated(p *filter.Policy) error {
	s := f.prog.shape
	s.firewall = f.firewall.shape(s.firewall, f.desired.Flows)
	switch {
	case !s.firewall.conntrack:
		f.firewall.noFlows = ""
	case f.firewall.noFlows != "" && f.firewall.modules == modules():
		s.firewall.conntrack, s.firewall.flows = false, 0 // it has just failed, and would again
	}
	if s == f.prog.shape && f.prog.firewall.hasRoom(p) {
		return f.tables.putFirewall(&f.firewall)
	}
	if !s.firewall.conntrack {
		return f.rebuild(s)
	}
	return f.withFlowsOrWithout(s, f.rebuild)
}

// Reconsider makes the next Apply try again what this kernel could not do: an operator waits for it.
func (w Firewall) Reconsider() {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	w.f.firewall.modules = ""
}

// modules are those that the kernel has loaded, which say what functions it has. Never empty.
func modules() string {
	text, err := os.ReadFile("/proc/modules")
	if err != nil {
		return "unknown"
	}
	names := []string{"loaded:"}
	for _, line := range strings.Split(string(text), "\n") {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// set takes in a firewall and compiles its rules.
func (w *firewall) set(p *filter.Policy) {
	w.told, w.policy, w.tables, w.kernel, w.changed = true, p, nil, "", false
	if p == nil {
		return
	}
	if w.kernel = p.Kernel; w.kernel != "" {
		return
	}
	start := time.Now()
	err := p.Check()
	if err == nil {
		w.tables, err = classify.Compile(p.Rules, classify.Options{None: filter.Verdict{Action: filter.Kernel}.Word()})
	}
	w.compile = time.Since(start)
	if err != nil {
		w.kernel = err.Error()
	}
}

// shape is what a program for this firewall looks like; before is what it was, of which is kept what
// still fits. flows is how many flows the operator asks for, 0 for the default.
func (w *firewall) shape(before firewallShape, flows int) firewallShape {
	if w.policy == nil {
		return firewallShape{}
	}
	if w.kernel != "" { // the tables that there are stay: what takes packets to the kernel is one word
		before.on = true
		return before
	}
	s := firewallShape{on: true, full: before.full || w.tables.Stats().Bytes > classify.LayoutOf(classify.Small).Limit()}
	members := 0
	for _, set := range w.policy.Sets {
		members += len(set.Prefixes)
	}
	if members > 0 {
		s.members = max(1<<bits.Len(uint(members-1)), minMembers)
	}
	s.members = max(s.members, before.members)
	if w.policy.Stateful {
		s.conntrack, s.flows = true, flowsFor(flows)
	}
	return s
}

// minMembers is the least room for members of sets, for those that come live.
const minMembers = 4096

// flowsFor is how many flows there is room for when the operator asks for so many: 0 is as many as
// conntrack can have, but not more than a 32nd of the memory.
func flowsFor(asked int) int {
	if asked != 0 {
		return asked
	}
	var info unix.Sysinfo_t
	flows := flow.MinFlows
	if unix.Sysinfo(&info) == nil {
		flows = flow.SizeFor(uint64(info.Totalram) * uint64(info.Unit)).Flows
	}
	if most := newProcSettings().number("netfilter", "nf_conntrack_max"); most > 0 {
		flows = min(flows, most)
	}
	return max(flows, flow.MinFlows)
}

// withFlowsOrWithout loads a program. Where the kernel has no functions to ask conntrack, connections
// stay with it.
func (f *FastPath) withFlowsOrWithout(s shape, load func(shape) error) error {
	err := load(s)
	f.firewall.noFlows = ""
	if err != nil && s.firewall.conntrack {
		f.firewall.noFlows, f.firewall.modules = err.Error(), modules()
		f.log.Warn("cannot query conntrack; the kernel forwards all connections", "error", err)
		s.firewall.conntrack, s.firewall.flows = false, 0
		err = load(s)
	}
	return err
}

// putFirewall writes the firewall into the program's tables and makes packets be evaluated by it.
func (t *tables) putFirewall(w *firewall) error {
	start := time.Now()
	m, p := &t.prog.firewall, w.policy
	was, _ := splitPair(t.prog.control.load(controlPolicy))
	t.firewall = w
	flags := uint32(0)
	var numbers []int // of the sets
	switch {
	case p == nil:
	case w.kernel != "":
		flags = policyOn | policyKernel
	default:
		buffer, err := m.rules.Prepare(w.tables)
		if err != nil {
			return err
		}
		if numbers, err = m.fillSets(p.Sets); err != nil {
			return err
		}
		if err := t.fillFirewall(w, int(buffer), numbers); err != nil {
			return err
		}
		m.rules.Activate(buffer)
		flags = buffer | w.flags()
	}
	t.prog.control.store(controlTimeouts, timeoutWord(newProcSettings()))
	before := w.counts()
	t.prog.control.store(controlPolicy, pair(flags, fingerprint(p)))
	m.flows.Invalidate()
	mapped.WaitForReaders() // now no packet is evaluated by the old firewall
	m.keep(numbers)
	w.swap = time.Since(start)
	return w.carry(t.prog, was, before)
}

func (w *firewall) flags() uint32 {
	flags := uint32(policyOn)
	for _, f := range []struct {
		is   bool
		flag uint32
	}{
		{w.policy.Beginnings, policyBeginnings}, {w.policy.MSSClamp, policyMSS},
		{w.policy.Translates, policyTranslates}, {w.policy.ICMPLimited, policyICMP},
	} {
		if f.is {
			flags |= f.flag
		}
	}
	return flags
}

// fillFirewall fills a buffer that no packet is evaluated by.
func (t *tables) fillFirewall(w *firewall, buffer int, numbers []int) error {
	m, p := &t.prog.firewall, w.policy
	ways := m.ways[buffer*waysPerBuffer:][:waysPerBuffer]
	clear(ways)
	for way, pair := range p.Pairs {
		ways[int(way.From)*64+int(way.To)] = pairWord(pair, numbers)
	}
	soles := mapped.View[uint32](m.soles)[buffer*solesPerBuffer:][:solesPerBuffer]
	clear(soles)
	for _, pair := range p.Pairs {
		for number := int(pair.ID); number < int(pair.ID)+1<<len(pair.Tests); number++ {
			soles[number] = soleVerdict(p, uint8(number), pair.Stateless, false)
			soles[256+number] = soleVerdict(p, uint8(number), pair.Stateless, true)
		}
	}
	t.zones[buffer] = p.Zones
	t.evaluatedBy[buffer].Store(p)
	for _, l := range t.links {
		t.renderZones(l)
	}
	err := t.clearCounts(buffer)
	t.counters[buffer] = p.Counters
	return err
}

// pairWord is how the program has a way.
func pairWord(p filter.Pair, numbers []int) uint64 {
	word := uint64(p.ID) | wayKnown | uint64(len(p.Tests))<<16
	if p.Stateless {
		word |= wayStateless
	}
	for i, test := range p.Tests {
		one := uint64(numbers[test.Set])
		if test.Destination {
			one |= wayDestination
		}
		word |= one << (24 + 8*i)
	}
	return word
}

// neverAsked are protocols about which the program never asks the classifier: IPv6 headers in front
// of others, which go to the kernel before.
var neverAsked = classify.ProtocolSet(0, 43, 44, 51, 60)

// soleVerdict is the verdict on all packets of a way by one of its numbers, with verdictSole; 0 when
// it hangs on more than that. Then a packet costs no search.
func soleVerdict(p *filter.Policy, number uint8, stateless, ipv6 bool) uint32 {
	family := classify.IPv4
	if ipv6 {
		family = classify.IPv6
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		switch {
		case len(r.Zones) > 0 && !slices.Contains(r.Zones, number), r.Family != 0 && r.Family&family == 0:
			continue // never of these packets
		case r.Fragments == classify.Only:
			continue // the program asks about none
		case ipv6 && r.Protocols != (classify.Protocols{}) && within(r.Protocols, neverAsked):
			continue
		case !stateless && r.Protocols != (classify.Protocols{}) && !r.Protocols.Has(unix.IPPROTO_TCP) && !r.Protocols.Has(unix.IPPROTO_UDP):
			continue // conntrack can't be asked about others, so the kernel evaluates them
		case len(r.Source)+len(r.Destination)+len(r.SourcePorts)+len(r.DestinationPorts)+len(r.ICMP) > 0,
			r.Protocols != (classify.Protocols{}), r.SYN != classify.Either, r.Fragments != classify.Either:
			return 0
		}
		return r.Verdict | verdictSole
	}
	return 0
}

func within(a, b classify.Protocols) bool {
	for i := range a {
		if a[i]&^b[i] != 0 {
			return false
		}
	}
	return true
}

// timeoutWord is how long conntrack keeps connections that are established, in milliseconds: TCP, UDP.
func timeoutWord(s *procSettings) uint64 {
	ms := func(knob string, otherwise int) uint32 {
		seconds := s.number("netfilter", knob)
		seconds = cmp.Or(seconds, otherwise)
		return uint32(min(seconds, maxTimeout) * 1000)
	}
	return pair(ms("nf_conntrack_tcp_timeout_established", 432000), ms("nf_conntrack_udp_timeout_stream", 120))
}

// maxTimeout is the longest time that 32 bits of milliseconds can tell, in seconds.
const maxTimeout = 4_294_967

// renderZones writes the zones of an interface, of which one is in use.
func (t *tables) renderZones(l *device) {
	if l.Index < maxIfindex {
		t.prog.interfaces.store(2*l.Index+1, zoneWord(slotOf(l.Index), t.zoneIn(0, l), t.zoneIn(1, l), t.offAtIngress(l)))
	}
}

// zoneIn is the zone of an interface in a buffer's firewall; none while it is in another VRF than the kernel's rules have it in.
func (t *tables) zoneIn(buffer int, l *device) uint8 {
	zone := t.zones[buffer][l.Name]
	if p := t.evaluatedBy[buffer].Load(); zone != 0 && (p == nil || p.VRFs[l.Name] != t.tableOf(l)) {
		return 0
	}
	return zone
}

// ForgetFlows makes every flow be asked for again from conntrack: connections have been ended there.
func (f *FastPath) ForgetFlows() {
	f.locked(func() { f.prog.firewall.flows.Invalidate() })
}

// EndConnections ends the flows of connections, known by the keys of who opened them: conntrack has them no more.
func (f *FastPath) EndConnections(keys []flow.Key) {
	f.locked(func() {
		for _, k := range keys {
			f.prog.firewall.flows.EndKey(k)
		}
	})
}

// Flows calls visit for the flows that the fast path carries and a filter chooses, until it returns
// false. visit must not call the fast path. When Flows returns, the listener has been told of all that
// ended before they could be visited, and while they were.
func (f *FastPath) Flows(filter flow.Filter, visit func(flow.Flow) bool) {
	f.locked(func() {
		f.prog.firewall.flows.Walk(flow.Now(), filter, visit)
		f.prog.ended.drain()
	})
}

// TellEnded returns when the listener has been told of all flows that have ended.
func (f *FastPath) TellEnded() {
	f.locked(func() { f.prog.ended.drain() })
}

// FlowStats describe the flow table; ok is false where the fast path carries no flows.
func (f *FastPath) FlowStats() (s flow.Stats, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tables == nil || !f.prog.shape.firewall.conntrack {
		return s, false, nil
	}
	var counts []flow.Counts
	zero := uint32(0)
	if err := f.prog.objects.FlowCounts.Lookup(&zero, &counts); err != nil {
		return s, false, fmt.Errorf("reading the counts of flows: %w", err)
	}
	return f.prog.firewall.flows.Stats(counts), true, nil
}

// sweepEvery is how often flows that have been silent are looked for, and sweepPlaces how many
// places are looked at before others may use the fast path in between.
const (
	sweepEvery  = 15 * time.Second
	sweepPlaces = 1 << 16
)

// Collector is the task that ends flows which have been silent for too long.
type Collector struct{ f *FastPath }

// Collector is the fast path's task.
func (f *FastPath) Collector() Collector { return Collector{f} }

func (Collector) String() string { return "flow-collector" }

// Ready is ready from the beginning.
func (Collector) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

// Run collects until ctx ends. A router without flows is not woken for long.
func (c Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			for more := true; more; {
				more = c.f.sweepFlows()
			}
		}
	}
}

// sweepFlows looks at some places, and reports whether there are more in this round.
func (f *FastPath) sweepFlows() (more bool) {
	f.locked(func() {
		if f.prog.shape.firewall.conntrack && !f.prog.firewall.flows.Empty() {
			more = !f.prog.firewall.flows.Sweep(flow.Now(), sweepPlaces).Round
		}
	})
	return more
}

func (f *FastPath) observeFirewall() *ObservedFirewall {
	w := &f.firewall
	if w.policy == nil {
		return nil
	}
	o := &ObservedFirewall{Kernel: w.kernel, Compile: w.compile, Swap: w.swap, Stateful: w.policy.Stateful, Connections: w.noFlows}
	if w.tables != nil {
		o.Rules, o.Bytes = w.tables.Stats().Rules, w.tables.Stats().Bytes
	}
	for i, name := range f.prog.firewall.slots {
		if name != "" {
			o.Members += f.prog.firewall.sets.Len(i)
		}
	}
	if f.prog.shape.firewall.conntrack {
		o.Flows = f.prog.firewall.flows.Capacity()
	}
	return o
}
