// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"slices"
	"time"

	"minne/internal/base/tc"
)

// ShapedLine is one direction of a shaped line.
type ShapedLine struct {
	Interface string      `json:"interface"`
	Direction string      `json:"direction"`     // down or up
	Rate      uint64      `json:"rate"`          // bit/s that it is shaped to
	Problem   string      `json:"problem"`       // why it is not shaped now; "" when it is
	Waiting   uint32      `json:"waiting"`       // bytes
	Tins      []ShapedTin `json:"tins,omitzero"` // by priority, the lowest first
}

// ShapedTin is what one priority of a line has counted. Delays are those of packets in the queue of late.
type ShapedTin struct {
	Name         string        `json:"name"`
	Packets      uint64        `json:"packets"`
	Bytes        uint64        `json:"bytes"`
	Dropped      uint32        `json:"dropped"`      // packets
	Marked       uint32        `json:"marked"`       // packets, instead of dropped (ECN)
	Peak         time.Duration `json:"peak"`         // of what fills the line
	Average      time.Duration `json:"average"`      // likewise
	Base         time.Duration `json:"base"`         // of flows that do not fill it
	Sparse       uint32        `json:"sparse"`       // flows now that do not fill it
	Bulk         uint32        `json:"bulk"`         // flows now that do
	Unresponsive uint32        `json:"unresponsive"` // flows now that do not slow down
}

// tinNames are cake's, in the order in which it counts them.
var tinNames = map[tc.CakeDiffserv][]string{
	tc.BestEffort: {"best effort"},
	tc.Diffserv3:  {"bulk", "best effort", "voice"},
	tc.Diffserv4:  {"bulk", "best effort", "video", "voice"},
}

// Shapes are the shaped lines of the last applied Desired.
func (k *Kernel) Shapes(ctx context.Context) ([]ShapedLine, error) {
	k.mu.Lock()
	var wanted []DesiredInterface
	if k.last != nil {
		wanted = slices.DeleteFunc(slices.Clone(k.last.Interfaces), func(i DesiredInterface) bool { return i.Shape == (DesiredShape{}) })
	}
	k.mu.Unlock()
	lines := []ShapedLine{}
	if len(wanted) == 0 {
		return lines, nil
	}
	all, err := k.system.disciplines(ctx)
	if err != nil {
		return nil, err
	}
	links, err := k.system.links()
	if err != nil {
		return nil, err
	}
	at := func(name string) int {
		if n := slices.IndexFunc(links, func(l link) bool { return l.Name == name }); n >= 0 {
			return links[n].Index
		}
		return 0
	}
	for _, i := range wanted {
		if i.Shape.Down != nil {
			line := shapedLine(i.Name, "down", i.Shape.Down, all, at(ifbName(i.Name)))
			led, err := k.system.redirects(at(i.Name))
			if err != nil {
				return nil, err
			}
			if line.Problem == "" && led.To != at(ifbName(i.Name)) {
				line.Problem = "what it receives is not led to the shaper"
			}
			lines = append(lines, line)
		}
		if i.Shape.Up != nil {
			lines = append(lines, shapedLine(i.Name, "up", i.Shape.Up, all, at(i.Name)))
		}
	}
	return lines, nil
}

// shapedLine is one direction, whose discipline is on the link of that index; 0 for none.
func shapedLine(name, direction string, want *tc.Cake, all []tc.Discipline, on int) ShapedLine {
	const bitsOfByte = 8
	line := ShapedLine{Interface: name, Direction: direction, Rate: want.Rate * bitsOfByte}
	now := rootOf(all, on)
	switch {
	case on == 0:
		line.Problem = "there is no link"
		return line
	case now == nil || !now.Own() || now.Cake != *want:
		line.Problem = "another queueing discipline is in place"
		return line
	}
	line.Waiting = now.Counters.Waiting
	names := tinNames[now.Cake.Diffserv]
	for n, t := range now.Counters.Tins {
		one := ShapedTin{Packets: t.Packets, Bytes: t.Bytes, Dropped: t.Dropped, Marked: t.Marked, Sparse: t.Sparse, Bulk: t.Bulk, Unresponsive: t.Unresponsive,
			Peak: micro(t.Peak), Average: micro(t.Average), Base: micro(t.Base)}
		if one.Name = "class " + string(rune('0'+n)); n < len(names) {
			one.Name = names[n]
		}
		line.Tins = append(line.Tins, one)
	}
	return line
}

func micro(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }
