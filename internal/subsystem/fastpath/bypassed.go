// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"maps"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/subsystem/bypass"
)

// What else the kernel would do to packets (internal/subsystem/bypass) and the program can't repeat: families,
// and what comes in or leaves by an interface, go up to the kernel for as long as it is there.

// MULTIPATH_ of bpf/ecmp.h, by family.
var multipathKernel = [2]uint32{1, 2}

// heedBypassed reads what there is and follows it.
func (f *FastPath) heedBypassed() (err error) {
	f.bypass, f.tables.bypassed, err = bypass.Follow(f.log, func(s bypass.State) { f.locked(func() { f.takeBypassed(s) }) })
	return err
}

// Look reads again what the kernel does not announce. It is for the router's slow clock.
func (f *FastPath) Look(ctx context.Context) {
	f.mu.Lock()
	follower := f.bypass
	if f.tables == nil {
		follower = nil
	}
	f.mu.Unlock()
	if follower != nil {
		follower.Look(ctx)
	}
}

// takeBypassed takes in what was found.
func (f *FastPath) takeBypassed(s bypass.State) {
	was := f.tables.bypassed
	f.tables.bypassed = s
	if was.Settings != s.Settings {
		f.tables.reread()
	} else {
		f.tables.renderControl()
		f.tables.renderLinks()
	}
	if was.Lifts(&s) { // the kernel may have ended connections meanwhile
		f.prog.firewall.flows.Invalidate()
	}
	f.reportHeld()
}

// reportHeld logs what is the kernel's from now on, and what no more.
func (f *FastPath) reportHeld() {
	t := f.tables
	now := map[string]string{}
	for which, name := range familyNames {
		if things := t.bypassed.Families[which]; len(things) > 0 {
			now["all "+name] = bypass.Words(things)
		}
		if why := t.bypassed.Hash[which].Kernel; why != "" {
			now[name+" packets of routes with several next hops"] = why
		}
	}
	for _, l := range t.links {
		if d, ok := f.desired.Interfaces[l.Name]; !ok || !d.FastPath {
			continue
		}
		for which, name := range familyNames {
			if why := t.vrfWords(l, which); why != "" && t.prog.vrfs != nil {
				now[name+" that comes in by "+l.Name] = why
			}
		}
		if things := t.atIngress(l.Index); len(things) > 0 {
			now["what comes in by "+l.Name] = bypass.Words(things)
		}
		if things := t.atEgress(l.Index); len(things) > 0 {
			now["what leaves by "+l.Name] = bypass.Words(things)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(now)) {
		if f.held[what] != now[what] {
			f.log.Warn("the kernel forwards these packets: the fast path cannot repeat what it does", "packets", what, "reason", now[what])
		}
	}
	for _, what := range slices.Sorted(maps.Keys(f.held)) {
		if now[what] == "" {
			f.log.Info("the fast path forwards these packets again", "packets", what, "was", f.held[what])
		}
	}
	f.held = now
}

var familyNames = [2]string{"IPv4", "IPv6"}

// heldBy is the reason with which packets go up because of things; Forwarded for none.
func heldBy(things []bypass.Thing) Reason {
	if len(things) == 0 {
		return Forwarded
	}
	switch things[0].Cause {
	case bypass.IPsec:
		return Reason(routerReasonREASON_IPSEC)
	case bypass.Filter:
		return Reason(routerReasonREASON_FOREIGN_FILTER)
	case bypass.Shape:
		return Reason(routerReasonREASON_SHAPED)
	case bypass.Control:
		return Reason(routerReasonREASON_TRAFFIC_CONTROL)
	}
	return Reason(routerReasonREASON_KERNEL_ONLY)
}

// atIngress is what decides about packets that come in by an interface, or by the links below it. A line that is to be
// shaped is the kernel's even before its queue is there, and while it is put back.
func (t *tables) atIngress(ifindex int) []bypass.Thing {
	return t.along(ifindex, t.bypassed.Ingress, func(p DesiredPort) bool { return p.ShapesDown }, "shape down")
}

// atEgress is what decides about packets that leave by an interface.
func (t *tables) atEgress(ifindex int) []bypass.Thing {
	return t.along(ifindex, t.bypassed.Egress, func(p DesiredPort) bool { return p.ShapesUp }, "shape up")
}

// along are things of an interface and of the links below it, which its packets cross too.
func (t *tables) along(ifindex int, of map[int][]bypass.Thing, shapes func(DesiredPort) bool, words string) []bypass.Thing {
	var things []bypass.Thing
	for l := range t.down(ifindex) {
		here := of[l.Index]
		if shapes(t.desired.Interfaces[l.Name]) && !slices.ContainsFunc(here, func(thing bypass.Thing) bool { return thing.Cause == bypass.Shape }) {
			things = append(things, bypass.Thing{Cause: bypass.Shape, Text: words})
		}
		things = append(things, here...)
		for _, p := range t.portsOfBond(l) {
			things = append(things, of[p.Index]...)
		}
	}
	if b := t.bridgeBelow(ifindex); b != nil {
		things = append(things, t.bridgeThings(b)...)
	}
	return things
}

// heldAtIngress is why all that comes in by an interface is the kernel's; Forwarded when it is not.
func (t *tables) heldAtIngress(ifindex int) Reason {
	return heldBy(t.atIngress(ifindex))
}

// heldAtEgress is why all that leaves by an interface is the kernel's.
func (t *tables) heldAtEgress(ifindex int) Reason {
	return heldBy(t.atEgress(ifindex))
}

// renderHash tells the program how the kernel hashes flows.
func (t *tables) renderHash() {
	flags, ports := uint32(0), uint32(math.MaxUint32)
	for which, h := range t.bypassed.Hash {
		if h.Kernel != "" {
			flags |= multipathKernel[which]
		}
	}
	if t.bypassed.Hash[bypass.IPv4].Addresses {
		ports = 0
	}
	t.prog.control.store(controlMultipath, pair(flags, ports))
	seed := uint64(t.read.hashSeed())
	t.prog.control.store(controlHashKey, seed<<32|seed)
}

// heldWords name what took a packet to the kernel with such a reason; "" when it is nothing of this.
func (j *journey) heldWords(why Reason) string {
	t, which, egress := j.t, bypass.IPv4, 0
	if j.ip.Source.Is6() {
		which = bypass.IPv6
	}
	if why == Reason(routerReasonREASON_MULTIPATH_HASH) {
		return t.bypassed.Hash[which].Kernel
	}
	if why == Reason(routerReasonREASON_POLICY_RULES) {
		return t.rulesWords([2]uint8{unix.AF_INET, unix.AF_INET6}[which])
	}
	if l := t.links[j.verdict.Ingress]; why == Reason(routerReasonREASON_VRF) && l != nil {
		return t.vrfWords(l, int(which))
	}
	if a := t.adjs.at(j.verdict.trace.Adjacency); a != nil {
		egress = a.key.ifindex
	}
	for _, things := range [][]bypass.Thing{t.bypassed.Families[which], t.atIngress(j.verdict.Ingress), t.atEgress(egress)} {
		if why != Forwarded && heldBy(things) == why {
			return bypass.Words(things)
		}
	}
	return ""
}

// observeHeld is what is the kernel's, in the order of its names.
func (f *FastPath) observeHeld() []ObservedHeld {
	all := []ObservedHeld{}
	for _, what := range slices.Sorted(maps.Keys(f.held)) {
		all = append(all, ObservedHeld{Packets: what, Reason: f.held[what]})
	}
	return all
}
