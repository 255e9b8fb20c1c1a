// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"fmt"

	"minne/internal/base/plan"
)

const subsystem = "fast-path"

// Plan says what Apply would change, compared with what was applied before. It changes nothing and
// needs no privileges.
func (f *FastPath) Plan(_ context.Context, d Desired) ([]plan.Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var changes []plan.Change
	before := f.desired
	if f.applied && before.Mode != d.Mode {
		changes = append(changes, plan.Change{Subsystem: subsystem, Action: plan.Modify, Object: "mode", From: string(before.Mode), To: string(d.Mode)})
	}
	if f.applied && before.structureName() != d.structureName() {
		changes = append(changes, plan.Change{Subsystem: subsystem, Action: plan.Modify, Object: "structure",
			From: before.structureName(), To: d.structureName(), Effect: "the tables are built once more next to the old ones; no packet is lost"})
	}
	if f.applied {
		changes = append(changes, guardChanges(before.Guard, d.Guard)...)
		changes = append(changes, matchChanges(before.Labels, d.Labels)...)
	}
	if f.offByHand() && d.Mode != "off" {
		changes = append(changes, plan.Change{Subsystem: subsystem, Action: plan.Modify, Object: "all ports", From: "taken off by hand", To: string(d.Mode)})
	}
	changes = append(changes, f.spreadChanges(d)...)
	for _, name := range both(before, d) {
		was, is := before.Interfaces[name], d.Interfaces[name]
		object := "fast path on " + name
		switch {
		case is.FastPath && !was.FastPath:
			changes = append(changes, plan.Change{Subsystem: subsystem, Action: plan.Add, Object: object})
		case was.FastPath && !is.FastPath:
			changes = append(changes, plan.Change{Subsystem: subsystem, Action: plan.Remove, Object: object,
				Effect: fmt.Sprintf("the kernel forwards what %s receives and sends: slower", name)})
		case is.FastPath && was.AntiSpoof != is.AntiSpoof:
			changes = append(changes, plan.Change{Subsystem: subsystem, Action: plan.Modify, Object: "source check on " + name,
				From: orOff(string(was.AntiSpoof)), To: orOff(string(is.AntiSpoof))})
		}
	}
	return changes, nil
}

// both are the interfaces of either, in the order of their names.
func both(a, b Desired) []string {
	all := Desired{Interfaces: map[string]DesiredPort{}}
	for _, d := range []Desired{a, b} {
		for name := range d.Interfaces {
			all.Interfaces[name] = DesiredPort{}
		}
	}
	return all.names()
}

func orOff(s string) string {
	if s == "" {
		return "off"
	}
	return s
}
