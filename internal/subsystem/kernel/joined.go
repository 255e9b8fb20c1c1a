// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"slices"
	"strings"

	"minne/internal/model/config"
	"minne/internal/subsystem/kernel/sorter"
)

// Subscribers that come and go while the router runs: users who log in. They are merged into what is desired whenever the kernel is
// looked at, as what providers give (learned.go).

// Joined is such a subscriber.
type Joined struct {
	Name      string // at most config.LongestSubscriber bytes; of no other subscriber
	Plan      string // what the speed is called
	Down, Up  config.Rate
	MACs      []config.MAC
	Interface string // "" for each that sorts
}

// Join takes these subscribers in place of those of before, and gives them their speed, where a configuration is in force. Those for
// whom there is no room are left out: their number is returned.
func (k *Kernel) Join(ctx context.Context, list []Joined) (left int, err error) {
	const bitsOfByte = 8
	k.mu.Lock()
	defer k.mu.Unlock()
	room := config.MostSubscribers
	if k.last != nil {
		room -= len(k.last.Subscribers)
	}
	if len(list) > room {
		left = len(list) - max(room, 0)
		list = list[:max(room, 0)]
	}
	k.joined = nil
	for _, j := range list {
		s := DesiredSubscriber{Name: j.Name, Plan: j.Plan, Down: uint64(j.Down) / bitsOfByte, Up: uint64(j.Up) / bitsOfByte, Burst: joinedBurst, Queue: "auto", Interface: j.Interface}
		for _, m := range j.MACs {
			s.Keys = append(s.Keys, sorter.MAC(m))
		}
		k.joined = append(k.joined, s)
	}
	if k.last == nil || k.unsettled {
		return left, nil
	}
	r, err := k.restore(ctx)
	if err != nil {
		return left, err
	}
	var failures []error
	for _, f := range r.failed {
		if strings.Contains(f.step.change.Object, "subscribers") {
			failures = append(failures, f)
		}
	}
	return left, errors.Join(failures...)
}

// joinedBurst is that of a plan's default.
const joinedBurst = 10_000_000 // ns

// withJoined adds them to what is desired. The caller holds mu.
func (k *Kernel) withJoined(d Desired) Desired {
	if len(k.joined) > 0 {
		d.Subscribers = slices.Concat(d.Subscribers, k.joined)
	}
	return d
}
