// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"slices"
	"sync"
	"time"

	"minne/internal/daemon/show"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/fastpath/guard"
	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/kernel"
)

// zero is where counters began when an operator cleared them. The counters themselves go on: the
// kernel can't set most of them to 0, and who collects them must see them grow. Views show the
// difference. It lasts as long as the daemon.
type zero struct {
	mu         sync.Mutex
	interfaces map[int]interfaceZero // by index
	reasons    map[string]uint64
	guard      map[string]guard.Observed
	rules      *firewall.Observed
	since      time.Time // of all but the interfaces; the zero time: since the beginning
}

type interfaceZero struct {
	rx, tx  kernel.Counters
	counted []kernel.Counted
	traffic fastpath.ObservedTraffic
	since   time.Time
}

// less is the growth of a counter. One that is smaller than it was began anew.
func less(now, then uint64) uint64 {
	if now < then {
		return now
	}
	return now - then
}

func (z *zero) setInterfaces(all []kernel.Interface, details map[int][]kernel.Counted, traffic []fastpath.ObservedTraffic, now time.Time) {
	if z.interfaces == nil {
		z.interfaces = map[int]interfaceZero{}
	}
	for _, i := range all {
		one := interfaceZero{rx: i.RX, tx: i.TX, counted: details[i.Index], since: now}
		for _, t := range traffic {
			if t.Index == i.Index {
				one.traffic = t
			}
		}
		z.interfaces[i.Index] = one
	}
}

func (z *zero) setRest(reasons []fastpath.ObservedReason, classes []guard.Observed, rules firewall.Observed, now time.Time) {
	z.reasons, z.guard = map[string]uint64{}, map[string]guard.Observed{}
	for _, r := range reasons {
		z.reasons[r.Reason] = r.Count
	}
	for _, c := range classes {
		z.guard[c.Class] = c
	}
	z.rules, z.since = &rules, now
}

// fromInterface takes off what an interface had counted, and says when that was.
func (z *zero) fromInterface(i *kernel.Interface) (since time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	one, ok := z.interfaces[i.Index]
	if !ok {
		return since
	}
	for _, d := range []struct {
		now  *kernel.Counters
		then kernel.Counters
	}{{&i.RX, one.rx}, {&i.TX, one.tx}} {
		d.now.Packets, d.now.Bytes = less(d.now.Packets, d.then.Packets), less(d.now.Bytes, d.then.Bytes)
		d.now.Errors, d.now.Drops = less(d.now.Errors, d.then.Errors), less(d.now.Drops, d.then.Drops)
	}
	return one.since
}

// fromDetails takes off the kinds of errors.
func (z *zero) fromDetails(index int, d *kernel.Details) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for i := range d.Counted {
		for _, then := range z.interfaces[index].counted {
			if then.Name == d.Counted[i].Name {
				d.Counted[i].Count = less(d.Counted[i].Count, then.Count)
			}
		}
	}
	d.Counted = slices.DeleteFunc(d.Counted, func(c kernel.Counted) bool { return c.Count == 0 })
}

// fromFastPath takes off what the fast path had counted.
func (z *zero) fromFastPath(o *fastpath.Observed) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for i := range o.Traffic {
		t := &o.Traffic[i]
		then := z.interfaces[t.Index].traffic
		t.RxPackets, t.RxBytes = less(t.RxPackets, then.RxPackets), less(t.RxBytes, then.RxBytes)
		t.TxPackets, t.TxBytes = less(t.TxPackets, then.TxPackets), less(t.TxBytes, then.TxBytes)
	}
	z.fromReasons(o.Reasons)
	for i := range o.Guard {
		c := &o.Guard[i]
		then := z.guard[c.Class]
		c.Passed, c.Dropped, c.OverSource = less(c.Passed, then.Passed), less(c.Dropped, then.Dropped), less(c.OverSource, then.OverSource)
	}
}

func (z *zero) fromReasons(reasons []fastpath.ObservedReason) {
	for i := range reasons {
		reasons[i].Count = less(reasons[i].Count, z.reasons[reasons[i].Reason])
	}
}

// fromDrops takes off what reasons had counted, and says when that was.
func (z *zero) fromDrops(all []show.DropView) (since time.Time) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for i := range all {
		all[i].Count = less(all[i].Count, z.reasons[all[i].Reason])
	}
	return z.since
}

// fromFirewall takes off what rules had counted, unless they are others or have begun anew.
func (z *zero) fromFirewall(o *firewall.Observed) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.rules == nil {
		return
	}
	now, then := countsOf(o), countsOf(z.rules)
	if !slices.EqualFunc(now, then, func(a, b namedCount) bool { return a.name == b.name && a.Packets >= b.Packets && a.Bytes >= b.Bytes }) {
		z.rules = nil
		return
	}
	for i := range now {
		now[i].Packets -= then[i].Packets
		now[i].Bytes -= then[i].Bytes
	}
}

// namedCount is a counter of the firewall with what it counts.
type namedCount struct {
	name string
	*firewall.Count
}

// countsOf are all counters of the firewall.
func countsOf(o *firewall.Observed) (all []namedCount) {
	for _, list := range [][]firewall.ObservedRule{o.Rules, o.NAT, o.Limits} {
		for i := range list {
			all = append(all, namedCount{list[i].Place + " " + list[i].Text, &list[i].Count})
		}
	}
	for i := range o.Pairs {
		all = append(all, namedCount{o.Pairs[i].From + " " + o.Pairs[i].To, &o.Pairs[i].Unmatched})
	}
	return append(all, namedCount{"default", &o.Default})
}

// firewallCounts are the firewall's counters as they are.
func (d *Daemon) firewallCounts(ctx context.Context) (firewall.Observed, error) {
	o, err := d.parts.firewall.Observe(ctx)
	if err != nil {
		return o, err
	}
	return o, d.parts.offload.addCounts(&o)
}
