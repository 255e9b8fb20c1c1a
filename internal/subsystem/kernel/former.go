// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"

	"minne/internal/base/affinity"
	"minne/internal/base/atomicfile"
	"minne/internal/base/ethtool"
	"minne/internal/base/plan"
)

// What the hardware, and settings that a configuration without their key leaves alone, had before Minne changed them: the commit
// that removes the key puts it back. The note lies in the run directory, so it outlives the daemon; a machine that
// starts has its own values again.

// former is that note.
type former struct {
	path string // "" for a note that ends with the process

	Ports    map[string]*formerPort `json:"ports"`
	Settings map[string]string      `json:"settings"` // by the path below /proc/sys
	Programs []int                  `json:"programs"` // CPUs that programs were tied to; they had all
}

// formerPort is what a port had. Rules are those that Minne has added.
type formerPort struct {
	Index      int                     `json:"index"` // of the link: another card of the name has had other values
	Hardware   map[ethtool.Setting]int `json:"hardware,omitempty"`
	Interrupts map[int][]int           `json:"interrupts,omitempty"` // CPUs by the interrupt's number
	Senders    map[int][]int           `json:"senders,omitempty"`    // CPUs by the queue
	Spread     []int                   `json:"spread,omitempty"`     // the indirection table; empty: the driver's own
	Spreads    bool                    `json:"spreads,omitempty"`    // it was changed
	Rules      []ethtool.Match         `json:"rules,omitempty"`
	Cost       int                     `json:"cost,omitempty"`  // path cost of a port of a bridge; 0: Minne has set none
	Times      *treeTimes              `json:"times,omitempty"` // of a bridge's spanning tree, as Minne wrote them last; nil for the usual ones
}

// readFormer reads the note of an earlier daemon. One that can't be read is none: then what it says stays until the next start.
func readFormer(path string) *former {
	f := &former{path: path}
	if path != "" {
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, f) != nil {
			f = &former{path: path}
		}
	}
	if f.Ports == nil {
		f.Ports = map[string]*formerPort{}
	}
	if f.Settings == nil {
		f.Settings = map[string]string{}
	}
	return f
}

// write keeps the note. It is written before the change that it is about.
func (f *former) write() error {
	if f.path == "" {
		return nil
	}
	maps.DeleteFunc(f.Ports, func(_ string, p *formerPort) bool { return p.empty() })
	if len(f.Ports)+len(f.Settings)+len(f.Programs) == 0 {
		if err := os.Remove(f.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path, text, 0o600, atomicfile.Fleeting)
}

func (p *formerPort) empty() bool {
	return len(p.Hardware)+len(p.Interrupts)+len(p.Senders)+len(p.Rules) == 0 && !p.Spreads && p.Cost == 0 && p.Times == nil
}

// spread notes the indirection table: one that is even is the driver's own.
func (p *formerPort) spread(table []int) {
	if p.Spreads {
		return
	}
	p.Spreads = true
	for n, queue := range table {
		if queue != n%(slices.Max(table)+1) {
			p.Spread = table
			return
		}
	}
}

// port is what is known of a port's link, nil for nothing.
func (f *former) port(name string, index int) *formerPort {
	if p := f.Ports[name]; p != nil && p.Index == index {
		return p
	}
	return nil
}

// note takes a change of a port into the note.
func (f *former) note(name string, index int, with func(p *formerPort)) error {
	p := f.port(name, index)
	if p == nil {
		p = &formerPort{Index: index}
		f.Ports[name] = p
	}
	if p.Hardware == nil { // each map may be missing in a note that was read
		p.Hardware = map[ethtool.Setting]int{}
	}
	if p.Interrupts == nil {
		p.Interrupts = map[int][]int{}
	}
	if p.Senders == nil {
		p.Senders = map[int][]int{}
	}
	with(p)
	return f.write()
}

// wanted is what a setting shall be that is now so. What Minne has changed once has a note of what there was before.
func (f *former) wanted(s Sysctl, now string) string {
	before, noted := f.Settings[s.Path]
	if !noted {
		before = now
	}
	was, err := strconv.Atoi(before)
	if least, err2 := strconv.Atoi(s.Value); s.Least && err == nil && err2 == nil && was > least {
		return before
	}
	return s.Value
}

// once puts a value into a note that has none for it: the first is what there was before Minne.
func once[K comparable, V any](values map[K]V, key K, v V) {
	if _, ok := values[key]; !ok {
		values[key] = v
	}
}

// formerHardware puts back what the section ethernet, or system.cpus, names no more. What the driver refuses stays as it is.
func (r *round) formerHardware(b *bound) {
	p := r.former.port(b.Name, b.link.Index)
	if p == nil {
		return
	}
	for _, what := range slices.Sorted(maps.Keys(p.Hardware)) {
		to := p.Hardware[what]
		now, _, err := r.system.portSetting(b.link.Name, what)
		if r.names(b.DesiredInterface, what) || err != nil || now == to || what == ethtool.Filters && r.hasForeignRules(b.link.Name, p) {
			continue
		}
		r.add(plan.Change{Action: plan.Modify, Object: fmt.Sprintf("%s of %s", what, b.Name), From: what.Words(now), To: what.Words(to)},
			func(context.Context) error {
				_ = r.setPort(b, what, to)
				return r.former.note(b.Name, b.link.Index, func(p *formerPort) { delete(p.Hardware, what) })
			}).of(b.Name, "")
	}
}

// names says whether the configuration says what a setting of a port shall be.
func (r *round) names(i DesiredInterface, what ethtool.Setting) bool {
	return slices.ContainsFunc(i.Ethernet, func(s portSetting) bool { return s.what == what }) ||
		r.desired.CPUs != nil && (what == ethtool.Queues || what == ethtool.Filters)
}

// forgetFormer ends what is known of values that the configuration names no more, and that are as they were: what somebody
// makes of them from now on is not Minne's.
func (r *round) forgetFormer() error {
	for _, b := range r.bound {
		if b.link == nil {
			continue
		}
		if p := r.former.port(b.Name, b.link.Index); p != nil {
			maps.DeleteFunc(p.Hardware, func(what ethtool.Setting, _ int) bool { return !r.names(b.DesiredInterface, what) })
			if b.pathCost() == 0 {
				p.Cost = 0
			}
		}
	}
	maps.DeleteFunc(r.former.Settings, func(path string, _ string) bool { return !r.sets(path) })
	return r.former.write()
}

// sets says whether the configuration says what a setting of the kernel shall be.
func (r *round) sets(path string) bool {
	return slices.ContainsFunc(r.desired.Sysctls, func(s Sysctl) bool { return s.Path == path })
}

// formerCPUs puts back which CPUs served the queues of a port before there was system.cpus.
func (r *round) formerCPUs(b *bound) {
	p := r.former.port(b.Name, b.link.Index)
	if p == nil || len(p.Interrupts)+len(p.Senders)+len(p.Rules) == 0 && !p.Spreads {
		return
	}
	r.add(plan.Change{Action: plan.Modify, Object: "CPUs of the queues of " + b.Name, To: "as they were before"}, func(context.Context) error {
		_ = r.removeRules(b.Name, p.Rules, 0)
		interrupts, _ := r.system.interrupts(b.Name, b.link.Index)
		for _, i := range interrupts {
			if cpus := p.Interrupts[i.Number]; cpus != nil {
				_ = r.system.setInterrupt(i.Number, cpus)
			}
		}
		senders, _ := r.system.senders(b.Name, b.link.Index)
		for _, s := range senders {
			if cpus, ok := p.Senders[s.Queue]; ok {
				_ = r.system.setSender(b.Name, s.Queue, cpus)
			}
		}
		if table, err := r.system.indirection(b.Name); p.Spreads && err == nil {
			to := p.Spread
			if len(to) != len(table) || slices.Max(to) >= len(senders) && len(senders) > 0 {
				to = nil
			}
			_ = r.system.setIndirection(b.Name, to)
		}
		return r.former.note(b.Name, b.link.Index, func(p *formerPort) {
			clear(p.Interrupts)
			clear(p.Senders)
			p.Spread, p.Spreads, p.Rules = nil, false, nil
		})
	}).of(b.Name, "")
}

// formerPrograms lets programs run on all CPUs again that were put on those for control.
func (r *round) formerPrograms(online []int) {
	control := r.former.Programs
	if control == nil || r.desired.CPUs != nil && slices.Equal(r.desired.CPUs.Control, control) {
		return
	}
	r.add(plan.Change{Action: plan.Modify, Object: programsObject, From: affinity.List(control), To: affinity.List(online)}, func(context.Context) error {
		threads, err := r.system.programs(control)
		for _, t := range threads {
			err = errors.Join(err, r.system.tie(t, online))
		}
		r.former.Programs = nil
		return errors.Join(err, r.former.write())
	})
}

// formerSettings puts back settings of the kernel that the configuration names no more.
func (r *round) formerSettings() {
	for _, path := range slices.Sorted(maps.Keys(r.former.Settings)) {
		to := r.former.Settings[path]
		now, ok, err := r.system.setting(path)
		if r.sets(path) || err != nil || !ok || now == to {
			continue
		}
		r.add(plan.Change{Action: plan.Modify, Object: "setting " + Sysctl{Path: path}.words(), From: now, To: to}, func(context.Context) error {
			err := r.system.setSetting(path, to)
			delete(r.former.Settings, path)
			return errors.Join(err, r.former.write())
		})
	}
}
