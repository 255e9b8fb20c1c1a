// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"minne/internal/base/plan"
	"minne/internal/subsystem/fastpath/flow"
	"minne/internal/subsystem/fastpath/label"
)

// Recognition of flows by patterns: bpf/label.h searches, package match has the patterns, and here they
// meet. The automata are part of the program: other patterns are another program, other limits are not.

// lastingFor is the maps that a program of a shape goes on with: with the same patterns, what is known of flows too.
func (p *program) lastingFor(s shape) map[string]*ebpf.Map {
	if s.label == p.label {
		return p.mapsOf(slices.Concat(lastingMaps, label.Lasting))
	}
	return p.mapsOf(lastingMaps)
}

// labels fills in what the program must know of the patterns.
func (s shape) labels(spec *ebpf.CollectionSpec) error {
	if s.label == nil {
		return nil
	}
	spec.Maps[label.ImageMap].ValueSize = s.label.ImageBytes()
	spec.Maps[label.ImageMap].Value = nil
	for name, entries := range s.label.Entries() {
		spec.Maps[name].MaxEntries = entries
	}
	for name, value := range s.label.Constants() {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s in the fast path's program: %w", name, err)
		}
	}
	return nil
}

// shareMatch writes the automata and labels, and maps the limits into this process.
func (p *program) shareMatch() error {
	if p.label == nil {
		return nil
	}
	m := &p.objects.routerMaps
	image, err1 := p.region(m.LabelImage)
	memory, err2 := p.region(m.LabelLimits)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := p.label.Fill(image); err != nil {
		return err
	}
	for i, pattern := range p.label.Patterns {
		if err := m.LabelLabels.Put(uint32(i), uint32(pattern.Label)); err != nil {
			return fmt.Errorf("telling the fast path the label of pattern %d: %w", i, err)
		}
	}
	var err error
	if p.limits, err = label.OpenLimits(memory); err == nil {
		p.limits.Set(p.label)
	}
	return err
}

// labelsFor is the patterns of a program for d: those that are loaded where they do, so that flows stay known.
func (p *program) labelsFor(d Desired) *label.Sets {
	if p.label.SameProgram(d.Labels) {
		return p.label
	}
	return d.Labels
}

// ObserveLabels is what the patterns have found; nil where there are none.
func (f *FastPath) ObserveLabels() (*label.Observed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prog == nil || f.prog.label == nil {
		return nil, f.broken
	}
	sets, m := f.prog.label, &f.prog.objects.routerMaps
	tallies := make([][]label.Tally, label.Labels)
	for label := range tallies {
		if err := m.LabelTallies.Lookup(uint32(label), &tallies[label]); err != nil {
			return nil, fmt.Errorf("reading what became of flows with label %d: %w", label, err)
		}
	}
	hits := make([][]uint64, len(sets.Patterns))
	for i := range hits {
		if err := m.LabelHits.Lookup(uint32(i), &hits[i]); err != nil {
			return nil, fmt.Errorf("reading how many flows pattern %d labelled: %w", i, err)
		}
	}
	var efforts []label.Effort
	if err := m.LabelEffort.Lookup(uint32(0), &efforts); err != nil {
		return nil, fmt.Errorf("reading what the search for patterns took: %w", err)
	}
	o := f.desired.Labels.Observe(tallies, hits, efforts)
	for _, p := range f.observePorts() {
		if p.Mode == "off" {
			o.Unseen = append(o.Unseen, p.Name)
		}
	}
	return &o, nil
}

// Labels calls visit for directions of flows that patterns have labelled: of the flow table, and of those that are
// young or have no place there. One may come twice.
func (f *FastPath) Labels(visit func(flow.Key, string)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prog == nil || f.prog.label == nil {
		return nil
	}
	sets := f.prog.label
	f.prog.firewall.flows.Walk(flow.Now(), flow.Filter{}, func(fl flow.Flow) bool {
		if label := sets.Label(fl.Label()); label != "" {
			visit(fl.Key[0], label)
			visit(fl.Key[1], label)
		}
		return true
	})
	const some = 1024
	keys, values := make([][5]uint64, some), make([]routerLabelFlow, some)
	var at ebpf.MapBatchCursor
	for {
		n, err := f.prog.objects.LabelFlows.BatchLookup(&at, keys, values, nil)
		for i := range n {
			if label := sets.Label(int(values[i].Label)); label != "" {
				visit(flow.KeyOfWords(keys[i]), label)
			}
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("reading the labels of flows: %w", err)
		}
	}
}

// matchChanges is what a commit changes in the recognition of flows.
func matchChanges(before, after *label.Sets) (changes []plan.Change) {
	one := func(action plan.Action, object, from, to, effect string) {
		changes = append(changes, plan.Change{Subsystem: subsystem, Action: action, Object: object, From: from, To: to, Effect: effect})
	}
	const anew = "flows are looked at anew, from where they are"
	switch {
	case before == nil && after == nil:
		return nil
	case before == nil:
		one(plan.Add, "labels: "+after.Words(), "", "", "")
	case after == nil:
		one(plan.Remove, "labels: "+before.Words(), "", "", "labels and their limits end")
		return changes
	case !before.SameProgram(after):
		one(plan.Modify, "labels", before.Words(), after.Words(), anew)
	}
	was := map[string]string{}
	if before != nil {
		for _, s := range before.Sets {
			was[s.Name] = s.Limits()
		}
	}
	for _, s := range after.Sets {
		if now := s.Limits(); was[s.Name] != now {
			one(plan.Modify, "limit of flows labelled "+s.Name, orNone(was[s.Name]), orNone(now), "")
		}
	}
	return changes
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// labelled says what the flow of a packet label is; "" where there are no patterns.
func (j *journey) labelled() string {
	sets := j.t.prog.label
	if sets == nil {
		return ""
	}
	label := int(j.verdict.trace.Label)
	if label == 0 || label > len(sets.Sets) {
		return "of a flow without a label"
	}
	set := j.t.desired.Labels.Sets[label-1]
	text := fmt.Sprintf("of a flow with the label %s", set.Name)
	if limits := set.Limits(); limits != "" {
		text += ", which is " + limits
		if !set.Drop {
			text = fmt.Sprintf("of a flow with the label %s; all of them together may send %s", set.Name, limits)
		}
	}
	return text
}
