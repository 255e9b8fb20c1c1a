// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"minne/internal/base/affinity"
	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/subsystem/fastpath/handover"
)

// Spreading: a port whose card has fewer receive queues than CPUs forward has a program (bpf/spread.h) that hands each frame
// to the CPU of its flow. The fast path's program runs there, over the same tables.

// spreadQueue is how many frames wait for a CPU at most; one that finds no room is dropped, as by a full ring of a card.
var spreadQueue uint32 = 2048 // tests have less

// mostSpread is how many CPUs there may be (SPREAD_CPUS).
const mostSpread = 256

// spreader is what spreading needs more than the program's objects have.
type spreader struct {
	worker *ebpf.Program // the fast path, for CPUs that packets are handed to
	cpus   []int
	lost   *handover.Counter // nil on a kernel that does not tell
}

// cpumapValue is struct bpf_cpumap_val of include/uapi/linux/bpf.h.
type cpumapValue struct {
	Size    uint32
	Program uint32 // its file descriptor
}

// renderSpread names the ports whose packets are to be spread, and the CPUs of the configuration; nil for those that run.
func (d *Desired) renderSpread(cfg *config.Config) {
	for name, i := range cfg.Interfaces {
		if i.Ethernet != nil && i.Ethernet.Spread.On() {
			d.Spread = append(d.Spread, name)
		}
	}
	slices.Sort(d.Spread)
	if c := cfg.System.CPUs; c != nil && len(d.Spread) > 0 {
		d.SpreadOver, d.SpreadNot = config.Numbers(c.Forwarding), config.Numbers(c.Control)
	}
}

// spreadOver are the CPUs that packets are spread over, of those that run.
func (d *Desired) spreadOver(online []int) []int {
	list := slices.DeleteFunc(slices.Clone(config.ForwardingCPUs(d.SpreadOver, d.SpreadNot, online)), func(c int) bool { return !slices.Contains(online, c) })
	if len(list) == 0 {
		list = slices.Clone(online)
	}
	return list[:min(len(list), mostSpread)]
}

// spreads says whether the packets of a port are to be spread.
func (f *FastPath) spreads(p *port) bool {
	return slices.ContainsFunc(p.devices, func(name string) bool { return slices.Contains(f.desired.Spread, name) })
}

// prepareSpread loads what spreading needs, for one more program; nothing where no port asks for it.
func (f *FastPath) prepareSpread(p *program) error {
	if len(f.desired.Spread) == 0 {
		return nil
	}
	online, err := affinity.Here.Online()
	if err != nil {
		return fmt.Errorf("spreading packets over CPUs: %w", err)
	}
	return p.spreadOver(f.desired.spreadOver(online))
}

// spreadOver makes the program's packets go to these CPUs, where its ports spread them.
func (p *program) spreadOver(cpus []int) error {
	if p.spread == nil {
		s, err := p.loadSpreader()
		if err != nil {
			return err
		}
		p.spread = s
	}
	if slices.Equal(p.spread.cpus, cpus) {
		return nil
	}
	for _, c := range cpus {
		value := cpumapValue{spreadQueue, uint32(p.spread.worker.FD())}
		if slices.Contains(p.spread.cpus, c) {
			continue
		}
		if err := p.objects.SpreadCpus.Put(uint32(c), value); err != nil {
			return fmt.Errorf("giving CPU %d the fast path (too old a kernel? Linux 5.15): %w", c, err)
		}
	}
	// The number of CPUs is raised last and lowered first: a place that is read is always one that is filled.
	old := len(p.spread.cpus)
	var failed []error
	put := func(at int, value int) { failed = append(failed, p.objects.SpreadOrder.Put(uint32(at), uint32(value))) }
	if len(cpus) < old {
		put(0, len(cpus))
	}
	for i, c := range cpus {
		put(1+i, c)
	}
	put(0, len(cpus))
	for _, c := range p.spread.cpus {
		if !slices.Contains(cpus, c) {
			failed = append(failed, p.objects.SpreadCpus.Delete(uint32(c)))
		}
	}
	p.spread.cpus = slices.Clone(cpus)
	return errors.Join(failed...)
}

// loadSpreader loads the program once more over the same maps, as the kernel wants it for CPUs.
func (p *program) loadSpreader() (*spreader, error) {
	spec, err := p.spec()
	if err != nil {
		return nil, err
	}
	spec.Programs["router"].AttachType = ebpf.AttachXDPCPUMap
	var twin struct {
		Router *ebpf.Program `ebpf:"router"`
	}
	if err := spec.LoadAndAssign(&twin, &ebpf.CollectionOptions{MapReplacements: p.shared()}); err != nil {
		return nil, fmt.Errorf("load the fast path's program for CPUs that packets are spread over: %w", explainLoad(err))
	}
	s := &spreader{worker: twin.Router}
	s.lost, _ = handover.Count(p.objects.SpreadCpus) // without BTF nobody counts
	return s, nil
}

func (s *spreader) close() {
	if s != nil {
		s.lost.Close()
		s.worker.Close()
	}
}

// onPort is the program that a port runs when nobody captures.
func (p *program) onPort(one *port) *ebpf.Program {
	if one.spread && p.spread != nil {
		return p.objects.RouterSpread
	}
	return p.objects.Router
}

// emptySpread makes a program that no port has any more leave what still waits for a CPU to the kernel, which decides by what is in
// force then.
func (p *program) emptySpread() {
	if p.spread != nil {
		p.control.store(0, pair(routerNumber(routerReasonREASON_FIREWALL), routerNumber(routerReasonREASON_FIREWALL)))
	}
}

// spreadLost is how many frames were lost since the daemon began because the queue of their CPU was full.
func (f *FastPath) spreadLost() uint64 {
	if f.prog == nil || f.prog.spread == nil {
		return f.lostBefore
	}
	return f.lostBefore + f.prog.spread.lost.Lost()
}

// spreadChanges says what an apply would change about ports that spread.
func (f *FastPath) spreadChanges(d Desired) (changes []plan.Change) {
	before := f.desired
	word := func(d Desired, name string) string {
		if !slices.Contains(d.Spread, name) {
			return "off"
		}
		online, err := affinity.Here.Online()
		if err != nil {
			return "on"
		}
		return "over CPUs " + affinity.List(d.spreadOver(online))
	}
	names := slices.Concat(before.Spread, d.Spread)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if from, to := word(before, name), word(d, name); from != to {
			changes = append(changes, plan.Change{Subsystem: subsystem, Action: plan.Modify, Object: "spreading packets of " + name, From: from, To: to})
		}
	}
	return changes
}
