// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// Names of the maps of bpf/guard_budget.h and guard.h.
const (
	ControlMap = "guard_control"
	BudgetsMap = "guard_budgets"
	SourcesMap = "guard_sources"
	PortsMap   = "guard_ports"
	CountsMap  = "guard_counts"
	PeersMap   = "guard_peers"
)

// Maps are all of them, which every build of the program shares.
var Maps = []string{ControlMap, BudgetsMap, SourcesMap, PortsMap, CountsMap, PeersMap}

// How far ahead of its budget a class, or a source, may be: what may pass at once.
const (
	burstTime  = 250 * time.Millisecond
	leastBurst = 10      // packets
	fastest    = 1 << 20 // packets a second that a budget tells; more is no limit
)

// control mirrors struct guard_control.
type control struct {
	half       [10]uint32
	mask       uint64
	multiplier [2]uint64
	on         uint32
	_          uint32
}

// budget mirrors struct guard_budget. The program owns paid.
type budget struct {
	interval, burst             uint64
	sourceInterval, sourceBurst uint64
	paid                        uint64
	need                        uint64
	portInterval, portBurst     uint64
}

// Shared is the guard's arrays, mapped into memory.
type Shared struct {
	control *control
	budgets []budget
}

// Open lays the guard over the memory of ControlMap and BudgetsMap, and gives it a secret unless it has one.
func Open(controls, budgets []byte) (*Shared, error) {
	if len(controls) < int(unsafe.Sizeof(control{})) || len(budgets) < int(Classes)*int(unsafe.Sizeof(budget{})) {
		return nil, fmt.Errorf("guard: memory of %d and %d bytes is too small", len(controls), len(budgets))
	}
	s := &Shared{
		control: (*control)(unsafe.Pointer(unsafe.SliceData(controls))),
		budgets: unsafe.Slice((*budget)(unsafe.Pointer(unsafe.SliceData(budgets))), int(Classes)),
	}
	if s.control.multiplier[0] == 0 { // odd once there is one
		s.control.seed()
	}
	return s, nil
}

// seed makes the secret of the hash of sources (bpf/flow_hash.h).
func (c *control) seed() {
	var b [64]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	for i := range c.half {
		c.half[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	c.mask = binary.NativeEndian.Uint64(b[40:])
	c.multiplier[1] = binary.NativeEndian.Uint64(b[56:]) | 1
	c.multiplier[0] = binary.NativeEndian.Uint64(b[48:]) | 1
}

// Set puts budgets in force, each by some stores: a packet in between may meet the old rate with the new burst.
func (s *Shared) Set(to Settings) {
	for c := range s.budgets {
		b, want := &s.budgets[c], to.Budgets[c]
		set(&b.interval, &b.burst, want.PerSecond)
		set(&b.sourceInterval, &b.sourceBurst, want.PerSource)
		need := uint64(0)
		if classes[c].sparing && b.interval != 0 {
			need = b.burst / 2
		}
		atomic.StoreUint64(&b.need, need)
		setInterval(&b.portInterval, &b.portBurst, b.interval*uint64(max(1, to.Ports)))
	}
	on := uint32(0)
	if to.On {
		on = 1
	}
	atomic.StoreUint32(&s.control.on, on)
}

// set writes a rate as the program reads it; 0 is no limit.
func set(interval, burst *uint64, perSecond int) {
	if perSecond <= 0 || perSecond > fastest {
		atomic.StoreUint64(interval, 0)
		return
	}
	setInterval(interval, burst, uint64(time.Second)/uint64(perSecond))
}

// setInterval writes a rate by the ns of one packet.
func setInterval(interval, burst *uint64, each uint64) {
	atomic.StoreUint64(burst, max(uint64(burstTime), leastBurst*each)-each)
	atomic.StoreUint64(interval, each)
}
