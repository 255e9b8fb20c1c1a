// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"minne/internal/base/ethtool"
	"minne/internal/base/plan"
	"minne/internal/model/config"
)

// Steps for the hardware of ports: queues, rings, coalescing, speed.

// portSetting is one that the configuration asks for.
type portSetting struct {
	what ethtool.Setting
	to   int
}

// portSettings are those of a section ethernet, in the order of setting.
func portSettings(e *config.Ethernet) (list []portSetting) {
	if e == nil {
		return nil
	}
	number := func(what ethtool.Setting, to *int) {
		if to != nil {
			list = append(list, portSetting{what, *to})
		}
	}
	some := func(what ethtool.Setting, to int) {
		if to != 0 {
			number(what, &to)
		}
	}
	onOff := func(what ethtool.Setting, to *config.OnOff) {
		if to != nil {
			on := 0
			if to.On() {
				on = 1
			}
			number(what, &on)
		}
	}
	some(ethtool.Queues, e.Queues)
	some(ethtool.RxRing, e.RxRing)
	some(ethtool.TxRing, e.TxRing)
	onOff(ethtool.Adaptive, e.AdaptiveCoalescing)
	number(ethtool.RxDelay, e.RxCoalesce)
	number(ethtool.RxFrames, e.RxCoalesceFrames)
	number(ethtool.TxDelay, e.TxCoalesce)
	onOff(ethtool.FlowControl, e.FlowControl)
	onOff(ethtool.EEE, e.EEE)
	onOff(ethtool.UDPPorts, e.HashPorts)
	some(ethtool.Speed, int(e.Speed/1_000_000))
	if e.Autonegotiation.On() {
		list = append(list, portSetting{ethtool.Speed, 0})
	}
	return list
}

// hardware compares what the drivers have with what the configuration asks of them. A port whose driver has no such setting,
// or not so much of it, refuses the commit before anything is changed.
func (r *round) hardware() error {
	var failures []error
	for _, b := range r.bound {
		if b.missing || b.link == nil {
			continue
		}
		r.formerHardware(b)
		for _, want := range b.Ethernet {
			now, most, err := r.system.portSetting(b.link.Name, want.what)
			switch {
			case err != nil && ethtool.Lacks(err):
				failures = append(failures, &InterfaceError{b.Name, fmt.Sprintf("its driver has no %s to set: remove it from the section ethernet", want.what)})
			case err != nil:
				failures = append(failures, &InterfaceError{b.Name, fmt.Sprintf("cannot read %s: %v", want.what, err)})
			case most > 1 && want.to > most:
				failures = append(failures, &InterfaceError{b.Name, fmt.Sprintf("%s: the card has at most %d, not %d", want.what, most, want.to)})
			case now != want.to:
				was := want.what.Words(now)
				r.add(plan.Change{Action: plan.Modify, Object: fmt.Sprintf("%s of %s", want.what, b.Name), From: was, To: want.what.Words(want.to)},
					func(context.Context) error { return r.setPort(b, want.what, want.to) }).
					of(b.Name, fmt.Sprintf("%s of %s was changed to %s", want.what, b.Name, was))
			}
		}
	}
	return errors.Join(failures...)
}

// setPort changes a setting of a port, and notes what it was. A driver takes no queues away that its table of flows, or a
// rule, names.
func (r *round) setPort(b *bound, s ethtool.Setting, to int) error {
	name := b.Name
	now, _, err := r.system.portSetting(name, s)
	if err != nil {
		return err
	}
	if err := r.former.note(name, b.link.Index, func(p *formerPort) { once(p.Hardware, s, now) }); err != nil {
		return err
	}
	if s == ethtool.Queues {
		if err := r.removeRules(name, r.former.port(name, b.link.Index).Rules, to); err != nil {
			return fmt.Errorf("remove rules: %w", err)
		}
		if table, err := r.system.indirection(name); err == nil && len(table) > 0 && slices.Max(table) >= to {
			if err := r.former.note(name, b.link.Index, func(p *formerPort) { p.spread(table) }); err != nil {
				return err
			}
			if err := r.system.setIndirection(name, nil); err != nil {
				return fmt.Errorf("set the indirection table: %w", err)
			}
		}
	}
	return r.system.setPort(name, s, to)
}

func (live) portSetting(name string, s ethtool.Setting) (now, most int, err error) {
	tool, err := ethtool.Open()
	if err != nil {
		return 0, 0, err
	}
	defer tool.Close()
	return tool.Get(name, s)
}

func (live) setPort(name string, s ethtool.Setting, to int) error {
	tool, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer tool.Close()
	return tool.Set(name, s, to)
}
