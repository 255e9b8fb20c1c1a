// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"minne/internal/base/affinity"
	"minne/internal/subsystem/fastpath"
)

// FastPath prints how packets may bypass the kernel: ports, tables, how fast changes arrive.
func FastPath(w io.Writer, o fastpath.Observed) error {
	state := "ready"
	switch {
	case o.Problem != "":
		state = "not running: " + o.Problem
	case o.Mode == "off":
		state = "off"
	case !o.Ready:
		state = "filling its tables; the kernel forwards meanwhile"
	}
	fmt.Fprintf(w, "Fast path: %s (mode %s)\n\n", state, o.Mode)
	ports := table{head: []string{"Port", "!Mode", "Sends", ">Received", ">Forwarded", "~Why"}}
	for _, p := range o.Ports {
		sends := "no"
		if p.Transmits {
			sends = "yes"
		}
		why := p.Why
		if p.Spread != nil {
			why = strings.TrimPrefix(why+"; spreads over CPUs "+affinity.List(p.Spread), "; ")
		}
		ports.row(p.Name, p.Mode, sends, count(p.Received), count(p.Forwarded), why)
	}
	if err := ports.write(w); err != nil {
		return err
	}
	if o.SpreadLost > 0 {
		fmt.Fprintf(w, "\nLost between CPUs, their queues being full: %d packets\n", o.SpreadLost)
	}
	if leavesToKernel(o) {
		fmt.Fprintf(w, "\n%s\n", kernelCost)
	}
	fmt.Fprintln(w)
	tables := table{head: []string{"Table", "Structure", ">Prefixes", ">Used", ">Reserved", "~Note"}}
	for _, t := range o.Tables {
		name := t.Family
		if t.VRF != "" {
			name += " of " + t.VRF
		}
		tables.row(name, t.Structure, count(t.Prefixes), bytes(uint64(t.UsedBytes)), bytes(uint64(t.ImageBytes)), t.Kernel)
	}
	if err := tables.write(w); err != nil {
		return err
	}
	for _, t := range o.Tables {
		if t.Why != "" {
			fmt.Fprintf(w, "Why %s for %s: %s\n", t.Structure, t.Family, t.Why)
		}
	}
	for _, h := range o.Held {
		fmt.Fprintf(w, "The kernel forwards %s: %s\n", h.Packets, h.Reason)
	}
	if err := guarded(w, o); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
Next hops %s (%s of them groups), neighbours %s, ports adopted from an earlier daemon %d
Updates: whole table in %v (%v of it compiling); %s route changes since, the last %d in %v, the longest batch %v
`, count(o.NextHops), count(o.Groups), count(o.Neighbours), o.Adopted,
		short(o.Updates.Sync), short(o.Updates.Fill), count(o.Updates.Changes), o.Updates.Batch, short(o.Updates.Last), short(o.Updates.Longest))
	if err != nil || o.Firewall == nil {
		return err
	}
	return firewallTables(w, *o.Firewall)
}

// kernelCost is what it costs when the kernel forwards; the figures are those of docs/design/fast-path.md and docs/design/policy.md.
const kernelCost = "The kernel needs about 3 times as much processor time for a packet, with a full table 4 to 9 times, with hundreds of rules 30 times."

// leavesToKernel says whether the kernel forwards packets that the fast path could forward on other ports.
func leavesToKernel(o fastpath.Observed) bool {
	for _, p := range o.Ports {
		if p.Mode == "off" && p.Received > 0 {
			return true
		}
	}
	return len(o.Held) > 0
}

// firewallTables prints how the fast path repeats the firewall.
func firewallTables(w io.Writer, f fastpath.ObservedFirewall) error {
	if f.Kernel != "" {
		_, err := fmt.Fprintf(w, "Firewall: the kernel filters all packets: %s\n", f.Kernel)
		return err
	}
	fmt.Fprintf(w, "Firewall: %s rules in %s, %s members of sets; compiled in %v, put in place in %v\n",
		count(f.Rules), bytes(uint64(f.Bytes)), count(f.Members), short(f.Compile), short(f.Swap))
	var err error
	switch {
	case f.Flows > 0:
		_, err = fmt.Fprintf(w, "Connections: up to %s, minne show flows has them\n", count(f.Flows))
	case f.Connections != "":
		_, err = fmt.Fprintf(w, "Connections: the kernel carries all: %s\n", f.Connections)
	case f.Stateful:
		_, err = fmt.Fprintln(w, "Connections: the kernel carries all")
	}
	return err
}

// guarded prints what went up to the kernel, of the classes that had something.
func guarded(w io.Writer, o fastpath.Observed) error {
	t := table{head: []string{"To the kernel", ">Passed", ">Dropped", ">Of them by source", "At most", "~What it is"}}
	for _, c := range o.Guard {
		if c.Passed+c.Dropped > 0 {
			t.row(c.Class, count(c.Passed), count(c.Dropped), count(c.OverSource), c.Budget.String(), c.Text)
		}
	}
	if len(t.rows) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return t.write(w)
}

// short is a duration with three figures or so.
func short(d time.Duration) time.Duration {
	for unit := time.Nanosecond; unit < time.Hour; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
	return d.Round(time.Second)
}
