// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"minne/internal/base/instance"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/guard"
)

// Observed is the fast path as it is.
type Observed struct {
	Mode       string            `json:"mode"`              // as configured: auto, native, generic, off
	Ready      bool              `json:"ready"`             // the tables are true
	Problem    string            `json:"problem,omitempty"` // why there is no fast path at all
	Adopted    int               `json:"adopted"`           // ports taken over from an earlier daemon
	Ports      []ObservedPort    `json:"ports"`
	Tables     []ObservedTable   `json:"tables"`
	Held       []ObservedHeld    `json:"left_to_kernel"` // because the kernel does more with it than the fast path can
	NextHops   int               `json:"next_hops"`
	Groups     int               `json:"groups"`     // of the next hops, those with several members
	Neighbours int               `json:"neighbours"` // with an adjacency
	Updates    ObservedUpdates   `json:"updates"`
	Firewall   *ObservedFirewall `json:"firewall,omitempty"` // nil without one
	SpreadLost uint64            `json:"spread_lost"`        // packets that found no room in the queue of the CPU that they were spread to
	Traffic    []ObservedTraffic `json:"traffic"`
	Reasons    []ObservedReason  `json:"reasons"`
	Guard      []guard.Observed  `json:"guard"` // what went up to the kernel, by class
}

// ObservedPort is one interface that should have the fast path, or has it.
type ObservedPort struct {
	Name      string `json:"name"`
	Index     int    `json:"ifindex"`
	Mode      string `json:"mode"`             // native, generic, off
	Why       string `json:"why,omitempty"`    // why it is off, or can't send
	Transmits bool   `json:"transmits"`        // packets may leave by it
	Program   uint32 `json:"program"`          // id
	Spread    []int  `json:"spread,omitempty"` // CPUs that its packets are spread over
	Received  uint64 `json:"rx_packets"`       // all that arrived by the interface; filled by who shows it
	Forwarded uint64 `json:"forwarded"`        // of them, those that the fast path forwarded
}

// ObservedTable is the routing table of one family.
type ObservedTable struct {
	Family     string `json:"family"`        // ipv4, ipv6
	VRF        string `json:"vrf,omitempty"` // whose table it is; "" for the main table
	Structure  string `json:"structure"`
	Why        string `json:"why,omitempty"` // this structure
	Prefixes   int    `json:"prefixes"`
	ImageBytes int    `json:"image_bytes"`
	UsedBytes  int    `json:"used_bytes"`
	Kernel     string `json:"kernel,omitempty"` // why the kernel forwards the whole family
}

// ObservedHeld is a part of the packets that the kernel forwards.
type ObservedHeld struct {
	Packets string `json:"packets"` // which
	Reason  string `json:"reason"`  // what the kernel does with them
}

// ObservedFirewall is the firewall in the fast path.
type ObservedFirewall struct {
	Kernel      string        `json:"kernel,omitempty"`      // why the kernel evaluates everything
	Rules       int           `json:"rules"`                 // of the classifier: those of the policy for each way that has them
	Bytes       int           `json:"bytes"`                 // of the classifier's tables
	Members     int           `json:"members"`               // of sets that are asked for by address
	Compile     time.Duration `json:"compile_ns"`            // the last time
	Swap        time.Duration `json:"swap_ns"`               // from compiled rules to the last packet evaluated by the old ones
	Stateful    bool          `json:"stateful"`              // state is kept on some way
	Flows       int           `json:"flows"`                 // room for connections; 0 when the kernel carries all
	Connections string        `json:"connections,omitempty"` // why the kernel carries all connections
}

// ObservedUpdates is how long changes take to reach packets.
type ObservedUpdates struct {
	Sync    time.Duration `json:"sync_ns"`    // the last full account of the kernel's state
	Fill    time.Duration `json:"fill_ns"`    // compiling the tables whole, the last time
	Changes uint64        `json:"changes"`    // route changes since the start
	Last    time.Duration `json:"last_ns"`    // the last batch of route changes
	Batch   int           `json:"last_batch"` // routes in it
	Longest time.Duration `json:"longest_ns"` // the longest batch since the last full account
}

// ObservedTraffic is what the fast path forwarded in and out of one interface. Bytes are of frames
// without FCS. The kernel's own counters of VLAN interfaces don't have these packets.
type ObservedTraffic struct {
	Name      string `json:"name"`
	Index     int    `json:"ifindex"`
	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxPackets uint64 `json:"tx_packets"`
	TxBytes   uint64 `json:"tx_bytes"`
}

// ObservedReason is how many packets were not forwarded, for one reason.
type ObservedReason struct {
	Reason string `json:"reason"`
	Drop   bool   `json:"drop"` // dropped; else left to the kernel
	Count  uint64 `json:"count"`
	Text   string `json:"text"`
	Hint   string `json:"hint,omitempty"`
}

// Observe tells how the fast path is.
func (f *FastPath) Observe(context.Context) (Observed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := Observed{Mode: string(f.desired.Mode)}
	if f.broken != nil {
		o.Problem = f.broken.Error()
		return o, nil
	}
	if f.tables == nil {
		return o, nil
	}
	t := f.tables
	o.Ready, o.Adopted = t.complete, f.adopted
	o.Ports, o.SpreadLost = f.observePorts(), f.spreadLost()
	o.Tables, o.Held = f.observeTables(), f.observeHeld()
	o.NextHops, o.Neighbours = len(t.hops.bySpec), len(t.adjs.all)
	for _, h := range t.hops.byIndex {
		if h != nil && h.members != nil {
			o.Groups++
		}
	}
	o.Updates = ObservedUpdates{Sync: t.times.Sync, Fill: t.times.Fill, Changes: t.times.Routes,
		Last: t.times.Last, Batch: t.times.Batch, Longest: t.times.Longest}
	o.Firewall = f.observeFirewall()
	var err error
	if o.Reasons, err = observeReasons(f.prog.objects.Reasons); err != nil {
		return o, err
	}
	if o.Guard, err = observeGuard(f.prog.objects.GuardCounts, f.desired.Guard); err != nil {
		return o, err
	}
	o.Reasons = withGuard(o.Reasons, o.Guard)
	o.Traffic, err = f.observeTraffic()
	return o, err
}

func (f *FastPath) observePorts() []ObservedPort {
	var ports []ObservedPort
	seen := map[string]bool{}
	for _, p := range f.ports {
		one := ObservedPort{Name: p.name, Index: p.ifindex, Why: p.why, Transmits: f.tables.transmits[p.ifindex], Mode: "native"}
		if p.generic {
			one.Mode = "generic"
		}
		if !p.current {
			one.Why = "runs the program of the daemon before until the tables are complete"
		}
		if on, err := attachedTo(p.link); err != nil || on != p.ifindex {
			one.Mode, one.Why = "off", "the program is detached"
			if f.offByHand() {
				one.Why = f.whyOff(one.Name, f.desired.Interfaces[one.Name])
			}
		} else if i, err := p.link.Info(); err == nil {
			one.Program = uint32(i.Program)
		}
		if p.spread && f.prog.spread != nil {
			one.Spread = slices.Clone(f.prog.spread.cpus)
		}
		if l := f.tables.links[p.ifindex]; one.Name == "" && l != nil {
			one.Name = l.Name
		}
		seen[one.Name] = true
		ports = append(ports, one)
	}
	for _, name := range f.desired.names() {
		if d := f.desired.Interfaces[name]; !seen[name] && (!d.Carried || d.FastPath && f.noSession(name, d)) && !f.byPorts(name) {
			ports = append(ports, ObservedPort{Name: name, Index: f.tables.indexOf(name), Mode: "off", Why: f.whyOff(name, d)})
		}
	}
	sort.Slice(ports, func(i, j int) bool { return ports[i].Name < ports[j].Name })
	return ports
}

// heldBy says why a link has no program of its own: it belongs to another, which is nil when that is not known.
func (f *FastPath) heldBy(master *device) string {
	switch {
	case master == nil:
		return "it belongs to a bridge, bond or VRF"
	case master.Kind == "bond":
		return "it belongs to bond " + master.Name + ", which has the program"
	}
	return "it belongs to " + master.Name + " (" + master.Kind + ")"
}

// whyOff says why an interface of the configuration has no program.
func (f *FastPath) whyOff(name string, d DesiredPort) string {
	index := f.tables.indexOf(name)
	link := f.tables.links[index] // nil for none
	switch why := f.refused[name]; {
	case f.offByHand():
		return "taken off by hand (minne fast-path off), until the next apply"
	case why != "":
		return why
	case f.desired.Mode == "off":
		return "fast-path mode is off"
	case d.Kernel != "":
		return d.Kernel
	case d.Evaluated && f.firewall.policy == nil:
		return "waiting for the firewall's rules"
	case !d.FastPath:
		return "fast-path is off for this interface"
	case link == nil:
		return "there is no such link"
	case f.tables.bridging.state.Bridges[index] != nil:
		return "its ports run the program, and none of them is an interface of the configuration with the fast path"
	case f.tables.bridging.state.Ports[index] != nil && f.wantedPorts()[index] == "":
		return "nothing of its bridge has the fast path"
	case link.Master != 0 && f.tables.vrfOf(link) == nil && f.tables.bridging.state.Ports[index] == nil:
		return f.heldBy(f.tables.links[link.Master])
	case link.Loopback:
		return "loopback"
	case f.noSession(name, d):
		return "the PPPoE session is not up yet, or " + d.Session + " carries more than one, or is a bridge"
	case len(link.MAC) == 0:
		return "it has no Ethernet: the kernel carries what goes through tunnels, WireGuard and PPP"
	}
	return "not attached yet"
}

func (t *tables) indexOf(name string) int {
	for i, l := range t.links {
		if l.Name == name {
			return i
		}
	}
	return 0
}

func (f *FastPath) observeTables() []ObservedTable {
	t := f.tables
	off := t.prog.control.load(0)
	table := func(name, structure string, prefixes int, s fib.Stats, reason Reason) ObservedTable {
		one := ObservedTable{Family: name, Structure: structure, Prefixes: prefixes, ImageBytes: s.ImageBytes, UsedBytes: s.UsedBytes}
		if reason != Forwarded {
			one.Kernel = reason.Text()
		}
		return one
	}
	off4, off6 := splitPair(off)
	all := []ObservedTable{
		table("ipv4", t.prog.structure.String(), t.v4.prefixes(), t.prog.table4.Stats(), Reason(off4)),
		table("ipv6", fib.IPv6Structure, t.v6.prefixes(), t.prog.table6.Stats(), Reason(off6)),
	}
	all[0].Why = f.structureWhy()
	for vrf, o := range t.observeVRFs() {
		c := t.prog.vrfTables[o.number]
		for which, one := range []ObservedTable{
			{Family: "ipv4", Prefixes: o.v4.prefixes(), UsedBytes: c.v4.Stats().TableBytes},
			{Family: "ipv6", Prefixes: o.v6.prefixes(), UsedBytes: c.v6.Stats().TableBytes},
		} {
			one.VRF, one.Structure, one.ImageBytes = vrf.Name, fib.SharedStructure, c.v4.Stats().ImageBytes
			if one.Kernel = all[which].Kernel; o.full[which] != nil {
				one.Kernel = Reason(routerReasonREASON_TABLE_FULL).Text()
			}
			all = append(all, one)
		}
	}
	return all
}

// observeReasons adds up what each CPU has counted.
func observeReasons(m *ebpf.Map) ([]ObservedReason, error) {
	var all []ObservedReason
	for _, r := range Reasons() {
		var counts []uint64
		key := uint32(r)
		if err := m.Lookup(&key, &counts); err != nil {
			return nil, fmt.Errorf("reading how many packets had reason %s: %w", r, err)
		}
		one := ObservedReason{Reason: r.String(), Drop: r.Drop(), Text: r.Text(), Hint: r.Hint()}
		for _, c := range counts {
			one.Count += c
		}
		all = append(all, one)
	}
	return all, nil
}

func (f *FastPath) observeTraffic() ([]ObservedTraffic, error) {
	var all []ObservedTraffic
	for _, name := range f.desired.names() {
		index := f.tables.indexOf(name)
		if index == 0 || slotOf(index) == 0 {
			continue
		}
		one, err := readTraffic(f.prog.objects.Traffic, index)
		if err != nil {
			return nil, err
		}
		one.Name = name
		all = append(all, one)
	}
	return all, nil
}

func readTraffic(m *ebpf.Map, ifindex int) (ObservedTraffic, error) {
	var counts []routerTraffic
	key := slotOf(ifindex)
	if err := m.Lookup(&key, &counts); err != nil {
		return ObservedTraffic{}, fmt.Errorf("reading the traffic of link %d: %w", ifindex, err)
	}
	one := ObservedTraffic{Index: ifindex}
	for _, c := range counts {
		one.RxPackets += c.RxPackets
		one.RxBytes += c.RxBytes
		one.TxPackets += c.TxPackets
		one.TxBytes += c.TxBytes
	}
	return one, nil
}

// Left tells what an instance has in the kernel, without its daemon: ports and counters. here says
// that this process is in the instance's network namespace, where its ports have names.
func Left(inst instance.Instance, here bool) (Observed, error) {
	o := Observed{Mode: "off"}
	ports, err := adoptPorts(inst.BPFDir)
	if err != nil && len(ports) == 0 {
		return o, err
	}
	for index, p := range ports {
		one := ObservedPort{Index: index, Mode: "native"}
		if i, err := p.link.Info(); err == nil {
			one.Program = uint32(i.Program)
		}
		p.link.Close()
		one.Name = fmt.Sprintf("link %d", index)
		if l, err := netlink.LinkByIndex(index); here && err == nil {
			one.Name = l.Attrs().Name
			if x := l.Attrs().Xdp; x != nil && x.AttachMode == attachedGeneric {
				one.Mode = "generic"
			}
		}
		o.Mode = "on"
		o.Ports = append(o.Ports, one)
	}
	sort.Slice(o.Ports, func(i, j int) bool { return o.Ports[i].Name < o.Ports[j].Name })
	return o, leftCounters(inst.BPFDir, &o)
}

// leftCounters reads the pinned counters, if there are any. The guard's classes are told as reasons: what
// their budgets were, only the daemon knew.
func leftCounters(dir string, o *Observed) error {
	var left [3]*ebpf.Map
	for i, name := range []string{routerMapReasons, routerMapTraffic, routerMapGuardCounts} {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), &ebpf.LoadPinOptions{ReadOnly: true})
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("opening the pinned counters: %w", err)
		}
		defer m.Close()
		left[i] = m
	}
	reasons, traffic, classes := left[0], left[1], left[2]
	var err error
	if o.Reasons, err = observeReasons(reasons); err != nil {
		return err
	}
	guarded, err := observeGuard(classes, guard.Settings{})
	if err != nil {
		return err
	}
	o.Reasons = withGuard(o.Reasons, guarded)
	for _, p := range o.Ports {
		one, err := readTraffic(traffic, p.Index)
		if err != nil {
			return err
		}
		one.Name = p.Name
		o.Traffic = append(o.Traffic, one)
	}
	return nil
}
