// SPDX-License-Identifier: Apache-2.0

// Package filter has the words in which the fast path is told the firewall: zones,
// pairs of zones, and rules with verdicts. It does no I/O and knows no
// configuration; internal/subsystem/offload makes a Policy of what the operator wrote.
//
// The fast path repeats what the kernel's rules decide, and leaves to the kernel
// what it can't repeat exactly: the beginning of a connection, a rule that counts
// or answers, a protocol that conntrack alone understands.
package filter

import (
	"fmt"
	"net/netip"
	"time"

	"minne/internal/subsystem/fastpath/classify"
)

// Bounds of what the fast path can be told. A firewall beyond them is the kernel's alone.
const (
	MaxZones    = 63    // zones are 1 to 63; 0 is an interface without one
	MaxIDs      = 255   // numbers of ways for the classifier
	MaxTests    = 3     // sets that one way is tested for
	MaxSets     = 8     // sets that are asked for by address
	MaxCounters = 16384 // counters are 0 to 16383
)

// LogInterval is how often a packet of a rule that logs goes up to the kernel, which logs and counts
// it; the others of the rule are decided and counted here.
const LogInterval = 100 * time.Millisecond

// Action is what becomes of a packet.
type Action uint32

// The actions, JUDGE_ in bpf/policy.h.
const (
	Kernel Action = iota // the kernel evaluates it
	Permit
	Drop
)

// Verdict is a rule's action with its counter, as the classifier hands it out.
type Verdict struct {
	Action  Action
	Log     bool   // a packet every LogInterval is the kernel's, to be logged
	Counter uint16 // 0 for none: what the kernel evaluates, the kernel counts
}

// Word is the verdict as a number: bits 0…1 the action, bit 2 whether to log, bits 16…31 the counter.
func (v Verdict) Word() uint32 {
	w := uint32(v.Action) | uint32(v.Counter)<<16
	if v.Log {
		w |= 4
	}
	return w
}

// VerdictOf is the verdict of a word.
func VerdictOf(w uint32) Verdict {
	return Verdict{Action: Action(w & 3), Log: w&4 != 0, Counter: uint16(w >> 16)}
}

// ZonePair is from one zone to another.
type ZonePair struct{ From, To uint8 }

// Pair says how packets on a way are evaluated.
type Pair struct {
	// ID is the way's number for the classifier. With Tests, the way has 1 << len(Tests) numbers
	// from ID on: bit i of the difference says whether the packet passed test i.
	ID        uint8
	Stateless bool // each packet is evaluated alone; else only what begins no connection and belongs to none
	Tests     []Test
}

// Test asks whether a packet's address is in a set.
type Test struct {
	Set         uint8 // place in Policy.Sets
	Destination bool  // else the source
}

// Set is a set that is asked for by address, because it is large or changes while the router runs.
type Set struct {
	Name     string
	Prefixes []netip.Prefix // of the configuration
}

// Policy is a firewall for the fast path. Read-only once made.
type Policy struct {
	Kernel string // why all of it is left to the kernel; "" when it is not. The rest is empty then

	Zones map[string]uint8  // by the interface's kernel name; 1 and above
	VRFs  map[string]uint32 // tables of interfaces in VRFs, by kernel name; connections are in the zone of conntrack with that number
	Pairs map[ZonePair]Pair // ways that are not here are the kernel's
	Rules []classify.Rule   // Zones of each are numbers of ways (Pair.ID), Verdict is a Verdict.Word
	Sets  []Set

	Counters int // counters in use: 1 to Counters
	// Names are how an operator knows things, for explanations: zones by number, rules and defaults
	// by counter.
	Names struct {
		Zones    []string
		Counters []string
		Rules    []string // names of the rules, by number, which is their counter; "" without one
		Defaults int      // the first counter that is a default's
	}
	Stateful bool // packets may belong to connections that conntrack knows
	// Beginnings says that a packet which belongs to no known connection may still be permitted by
	// what only the kernel knows: an expected connection of a helper (FTP). None is dropped or
	// forwarded here then.
	Beginnings bool
	Translates bool // connections may be translated
	// ICMPLimited says that the kernel counts every packet of ICMP, of known connections too, so that it is the kernel's where
	// state is kept.
	ICMPLimited bool
	MSSClamp    bool // the kernel lowers the segment size in every SYN that is forwarded
}

// Check says what is beyond the bounds.
func (p *Policy) Check() error {
	if len(p.Sets) > MaxSets {
		return fmt.Errorf("%d sets are looked up by address: expected at most %d", len(p.Sets), MaxSets)
	}
	if p.Counters >= MaxCounters {
		return fmt.Errorf("%d rules and defaults have counters: expected at most %d", p.Counters, MaxCounters-1)
	}
	for name, z := range p.Zones {
		if z == 0 || z > MaxZones {
			return fmt.Errorf("interface %s is in zone %d: expected 1 to %d", name, z, MaxZones)
		}
	}
	for way, pair := range p.Pairs {
		if way.From == 0 || way.To == 0 || way.From > MaxZones || way.To > MaxZones {
			return fmt.Errorf("zone pair %d to %d: expected zones 1 to %d", way.From, way.To, MaxZones)
		}
		if len(pair.Tests) > MaxTests || int(pair.ID)+1<<len(pair.Tests) > MaxIDs {
			return fmt.Errorf("zone pair %d to %d needs %d numbers of the classifier from %d on; it has %d",
				way.From, way.To, 1<<len(pair.Tests), pair.ID, MaxIDs)
		}
		for _, t := range pair.Tests {
			if int(t.Set) >= len(p.Sets) {
				return fmt.Errorf("zone pair %d to %d tests set %d of %d", way.From, way.To, t.Set, len(p.Sets))
			}
		}
	}
	return nil
}
