// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"minne/internal/base/affinity"
	"minne/internal/base/ethtool"
	"minne/internal/base/plan"
	"minne/internal/model/config"
)

// A CPU for every queue: packets of a flow are received, routed and sent by one processor, which shares nothing with
// the others (Bolla and Bruschi; Linux at 10G). Queue n of each port is CPU n's, in both directions: drivers as
// mlx5 and i40e send what XDP redirects through the queue with the number of the CPU, and refuse it where there is none.

// DesiredCPUs says what the processors are for; nil lists are all.
type DesiredCPUs struct {
	Forwarding, Control []int
	Steered             []steered // traffic for a queue of a CPU for control, the most important first
}

// renderCPUs makes the Desired of a section system.cpus; nil for none.
func renderCPUs(cfg *config.Config) *DesiredCPUs {
	c := cfg.System.CPUs
	if c == nil {
		return nil
	}
	return &DesiredCPUs{config.Numbers(c.Forwarding), config.Numbers(c.Control), controlTraffic(cfg)}
}

// forwarding are the processors that forward, of those that run.
func (d *DesiredCPUs) forwarding(online []int) []int {
	return config.ForwardingCPUs(d.Forwarding, d.Control, online)
}

// lacking are the processors of the configuration that do not run.
func (d *DesiredCPUs) lacking(online []int) (list []int) {
	for _, c := range slices.Concat(d.Forwarding, d.Control) {
		if !slices.Contains(online, c) && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	slices.Sort(list)
	return list
}

// layout is which processors serve a number of queues.
type layout struct {
	queues, online int
	cpus           []int // that forward
	control        int   // the queue for control traffic
}

// receiver is the CPU that takes the interrupt of a queue. Those of CPUs that don't forward, or that are not there, are spread.
func (l layout) receiver(queue int) int {
	if queue == l.control {
		return queue
	}
	if l.queues > slices.Max(l.cpus) && slices.Contains(l.cpus, queue) {
		return queue
	}
	return l.cpus[queue%len(l.cpus)]
}

// senders are the CPUs that send through a queue: CPU n through queue n, and where there is none, in turn.
func (l layout) senders(queue int) (list []int) {
	for c := range l.online {
		n := slices.Index(l.cpus, c)
		if c == queue || c >= l.queues && n >= 0 && n%l.queues == queue {
			list = append(list, c)
		}
	}
	return list
}

// spread is the table by which a card shall spread flows over its queues: on those of CPUs that forward, so that no packet
// waits for a CPU that has others to do. Nil where the table that it has will do.
func (l layout) spread(now []int) []int {
	var takes []int
	for _, c := range l.cpus {
		if c < l.queues {
			takes = append(takes, c)
		}
	}
	if len(takes) == 0 || !slices.ContainsFunc(now, func(queue int) bool { return !slices.Contains(takes, queue) }) {
		return nil
	}
	table := make([]int, len(now))
	for n := range table {
		table[n] = takes[n%len(takes)]
	}
	return table
}

// cpus compares which processors serve the queues of ports with what the configuration asks for.
func (r *round) cpus() error {
	online, err := r.system.online()
	if err != nil {
		return fmt.Errorf("read which CPUs there are: %w", err)
	}
	r.formerPrograms(online)
	if r.desired.CPUs == nil {
		for _, b := range r.bound {
			if b.link != nil {
				r.formerCPUs(b)
			}
		}
		return nil
	}
	if lacking := r.desired.CPUs.lacking(online); lacking != nil {
		return fmt.Errorf("system.cpus: this machine has the CPUs %s, and not %s", affinity.List(online), affinity.List(lacking))
	}
	if err := r.programs(online); err != nil {
		return err
	}
	cpus := r.desired.CPUs.forwarding(online)
	var failures []error
	for _, b := range r.bound {
		if b.missing || b.link == nil || !b.Kind.Port {
			continue
		}
		control, _ := r.controlQueue(b, b.link.Name, online)
		last := max(slices.Max(cpus), control)
		queues, most, err := r.system.portSetting(b.link.Name, ethtool.Queues)
		set := slices.ContainsFunc(b.Ethernet, func(s portSetting) bool { return s.what == ethtool.Queues })
		if want := min(most, last+1); err == nil && !set && want > 0 && queues != want {
			r.add(plan.Change{Action: plan.Modify, Object: "queues of " + b.Name, From: fmt.Sprint(queues), To: fmt.Sprint(want)},
				func(context.Context) error { return r.setPort(b, ethtool.Queues, want) }).
				of(b.Name, fmt.Sprintf("queues of %s was changed to %d", b.Name, queues))
		}
		moves, err := r.moves(b, b.link.Name, online)
		if err != nil {
			failures = append(failures, &InterfaceError{b.Name, fmt.Sprintf("cannot read which CPUs serve its queues: %v", err)})
		}
		if len(moves) > 0 {
			r.add(plan.Change{Action: plan.Modify, Object: "CPUs of the queues of " + b.Name, To: affinity.List(cpus)}, func(context.Context) error {
				moves, err := r.moves(b, b.Name, online) // the queues may be others since they were counted
				for _, move := range moves {
					err = errors.Join(err, move())
				}
				return err
			}).of(b.Name, fmt.Sprintf("CPUs of the queues of %s were changed", b.Name))
		}
		if err := r.steer(b, control); err != nil {
			failures = append(failures, &InterfaceError{b.Name, fmt.Sprintf("cannot read the rules of its card: %v", err)})
		}
	}
	return errors.Join(failures...)
}

const programsObject = "CPUs of programs"

// programs has those that run on all processors run on those for control, and takes in that others tie some elsewhere. What
// they start inherits it.
func (r *round) programs(online []int) error {
	control := r.desired.CPUs.Control
	if control == nil || slices.Equal(control, online) {
		return nil
	}
	threads, err := r.system.programs(online)
	if err != nil {
		return fmt.Errorf("read which CPUs programs run on: %w", err)
	}
	if len(threads) == 0 {
		return nil
	}
	r.add(plan.Change{Action: plan.Modify, Object: programsObject, From: affinity.List(online), To: affinity.List(control)}, func(context.Context) error {
		r.former.Programs = control
		if err := r.former.write(); err != nil {
			return err
		}
		threads, err := r.system.programs(online)
		for _, t := range threads {
			err = errors.Join(err, r.system.tie(t, control))
		}
		return err
	}).of("", "programs ran on the CPUs that forward")
	return nil
}

// moves are what has to be done so that each queue of a port, which has a name now, has its CPU.
func (r *round) moves(b *bound, now string, online []int) (list []func() error, err error) {
	name, index := b.Name, b.link.Index
	interrupts, err := r.system.interrupts(now, index)
	if err != nil {
		return nil, err
	}
	senders, err := r.system.senders(now, index)
	if err != nil {
		return nil, err
	}
	queues, _, err := r.system.portSetting(now, ethtool.Queues)
	if err != nil || queues == 0 {
		queues = max(1, len(senders))
	}
	add := func(note func(p *formerPort), do func() error) {
		list = append(list, func() error { return errors.Join(r.former.note(name, index, note), do()) })
	}
	control, _ := r.controlQueue(b, now, online)
	l := layout{queues, slices.Max(online) + 1, r.desired.CPUs.forwarding(online), control}
	for _, i := range interrupts {
		if cpu := []int{l.receiver(i.Queue)}; !slices.Equal(i.CPUs, cpu) {
			add(func(p *formerPort) { once(p.Interrupts, i.Number, i.CPUs) }, func() error { return r.system.setInterrupt(i.Number, cpu) })
		}
	}
	for _, s := range senders {
		if s.Queue >= queues { // not in use
			continue
		}
		if want := l.senders(s.Queue); !slices.Equal(s.CPUs, want) {
			add(func(p *formerPort) { once(p.Senders, s.Queue, s.CPUs) }, func() error { return r.system.setSender(name, s.Queue, want) })
		}
	}
	table, err := r.system.indirection(now)
	if err != nil && !ethtool.Lacks(err) {
		return nil, err
	}
	if want := l.spread(table); want != nil {
		add(func(p *formerPort) { p.spread(table) }, func() error { return r.system.setIndirection(name, want) })
	}
	return list, nil
}

func (live) indirection(name string) (table []int, err error) {
	tool, err := ethtool.Open()
	if err != nil {
		return nil, err
	}
	defer tool.Close()
	return tool.Indirection(name)
}

func (live) setIndirection(name string, table []int) error {
	tool, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.SetIndirection(name, table)
}

func (live) programs(cpus []int) ([]int, error) { return affinity.Programs(cpus) }
func (live) tie(thread int, cpus []int) error   { return affinity.Tie(thread, cpus) }
func (live) online() ([]int, error)             { return affinity.Here.Online() }
func (live) interrupts(name string, index int) ([]affinity.Interrupt, error) {
	return affinity.Here.Interrupts(name, index)
}
func (live) setInterrupt(number int, cpus []int) error {
	return affinity.Here.SetInterrupt(number, cpus)
}
func (live) senders(name string, index int) ([]affinity.Sender, error) {
	return affinity.Here.Senders(name, index)
}
func (live) setSender(name string, queue int, cpus []int) error {
	return affinity.Here.SetSender(name, queue, cpus)
}
