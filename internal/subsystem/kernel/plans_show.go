// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"slices"

	"minne/internal/base/tc"
	"minne/internal/subsystem/kernel/sorter"
)

// SubscriberState is one subscriber behind one interface.
type SubscriberState struct {
	Name      string         `json:"name"`
	Plan      string         `json:"plan"`
	Interface string         `json:"interface"`
	Known     []string       `json:"known"` // addresses and MAC addresses; empty: all that passes the interface
	Down      SubscriberSide `json:"down"`
	Up        SubscriberSide `json:"up"`
}

// SubscriberSide is one direction of a subscriber: what was sent since the class was made, and what waits now.
type SubscriberSide struct {
	Rate    uint64 `json:"rate"`    // bit/s
	Queue   string `json:"queue"`   // fq-codel, cake or fifo
	Problem string `json:"problem"` // why the plan does not hold now; "" when it does
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
	Dropped uint64 `json:"dropped"` // packets
	Marked  uint64 `json:"marked"`  // packets, instead of dropped (ECN)
	Waiting uint32 `json:"waiting"` // bytes
}

// Subscribers are those of the last applied Desired, behind each interface that leads to them.
func (k *Kernel) Subscribers(ctx context.Context) ([]SubscriberState, error) {
	k.mu.Lock()
	var wanted []DesiredInterface
	var whose []DesiredSubscriber
	if k.last != nil {
		wanted = slices.DeleteFunc(slices.Clone(k.last.Interfaces), func(i DesiredInterface) bool { return i.Tree == nil })
		whose = k.withJoined(*k.last).Subscribers
	}
	numbers := map[string]uint16{}
	if k.sorting.program != nil {
		for _, s := range k.sorting.program.Entries() {
			numbers[s.Name] = s.Class
		}
	}
	k.mu.Unlock()
	states := []SubscriberState{}
	if len(wanted) == 0 {
		return states, nil
	}
	all, err := k.system.disciplines(ctx)
	if err != nil {
		return nil, err
	}
	leaves := map[int]map[uint16]*tc.Discipline{}
	for n := range all {
		if d := &all[n]; d.Minor() != 0 {
			if leaves[d.Link] == nil {
				leaves[d.Link] = map[uint16]*tc.Discipline{}
			}
			leaves[d.Link][d.Minor()] = d
		}
	}
	links, err := k.system.links()
	if err != nil {
		return nil, err
	}
	for n := range wanted {
		i := &wanted[n]
		down, err := k.classesAt(ctx, links, i.Name)
		if err != nil {
			return nil, err
		}
		up, err := k.classesAt(ctx, links, ifbName(i.Name))
		if err != nil {
			return nil, err
		}
		for s := range whose {
			if s := &whose[s]; s.behind(i) {
				minor := numbers[s.Name]
				if i.Tree.Whole != "" {
					minor = wholeClass
				}
				states = append(states, SubscriberState{Name: s.Name, Plan: s.Plan, Interface: i.Name, Known: known(s.Keys),
					Down: down.side(s, minor, true, leaves), Up: up.side(s, minor, false, leaves)})
			}
		}
	}
	return states, nil
}

// grown is the classes of the tree of a link.
type grown struct {
	link    int // 0: there is none
	classes map[uint16]tc.ClassNow
}

func (k *Kernel) classesAt(ctx context.Context, links []link, name string) (g grown, err error) {
	if n := slices.IndexFunc(links, func(l link) bool { return l.Name == name }); n >= 0 {
		g.link = links[n].Index
	} else {
		return g, nil
	}
	all, err := k.system.classes(ctx, g.link)
	g.classes = map[uint16]tc.ClassNow{}
	for _, c := range all {
		g.classes[c.Minor] = c
	}
	return g, err
}

// side is what a subscriber's class has counted.
func (g grown) side(s *DesiredSubscriber, minor uint16, down bool, leaves map[int]map[uint16]*tc.Discipline) SubscriberSide {
	const bitsOfByte = 8
	want := s.class(minor, down)
	side := SubscriberSide{Rate: want.Rate * bitsOfByte}
	now, there := g.classes[minor]
	switch {
	case g.link == 0:
		side.Problem = "there is no link"
		return side
	case !there:
		side.Problem = "there is no class"
		return side
	case !want.Same(now.Class):
		side.Problem = "the class has another speed"
	}
	c := now.Counters
	side.Queue, side.Packets, side.Bytes, side.Dropped, side.Waiting = string(leafWords[""]), c.Packets, c.Bytes, uint64(c.Dropped), c.Waiting
	if d := leaves[g.link][minor]; d != nil {
		side.Queue, side.Dropped, side.Marked = string(leafWords[d.Kind]), uint64(d.Counters.Dropped), uint64(d.Counters.Marked)
		for _, t := range d.Counters.Tins {
			side.Marked += uint64(t.Marked)
		}
	}
	return side
}

// known is what a subscriber is known by, in words.
func known(keys []sorter.Key) []string {
	list := []string{}
	for _, k := range keys {
		list = append(list, k.String())
	}
	return list
}
