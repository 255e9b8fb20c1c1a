// SPDX-License-Identifier: Apache-2.0

package voices

import (
	"maps"
	"testing"

	"minne/internal/testing/reference"
)

// books is what the fast path's counters say, or should say: every frame that
// comes in by a port with the program is counted once, as forwarded or by reason.
type books struct {
	reasons                                map[string]uint64
	rxPackets, rxBytes, txPackets, txBytes uint64
}

// books reads the counters.
func (v *voices) books(t *testing.T) books {
	t.Helper()
	o, err := v.program.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := books{reasons: map[string]uint64{}}
	for _, r := range o.Reasons {
		if r.Count > 0 {
			b.reasons[r.Reason] = r.Count
		}
	}
	for _, p := range o.Traffic {
		b.rxPackets, b.rxBytes = b.rxPackets+p.RxPackets, b.rxBytes+p.RxBytes
		b.txPackets, b.txBytes = b.txPackets+p.TxPackets, b.txBytes+p.TxBytes
	}
	return b
}

// enter books a frame of in bytes as the verdict says.
func (b *books) enter(in int, v reference.Verdict) {
	if v.Action != reference.Forward {
		b.reasons[string(v.Reason)]++
		return
	}
	b.rxPackets, b.rxBytes = b.rxPackets+1, b.rxBytes+uint64(in)
	b.txPackets, b.txBytes = b.txPackets+1, b.txBytes+uint64(len(v.Frame))
}

// enterMarkers books the markers that the bed has sent since it had sent these.
func (b *books) enterMarkers(k *bed, before [lastPort]uint64) {
	for i, sent := range k.marked {
		v := reference.Verdict{Action: reference.Forward, Frame: k.expected[i]}
		if i+1 == slowPort {
			v = reference.Verdict{Action: reference.Punt, Reason: reference.Egress}
		}
		for range sent - before[i] {
			b.enter(len(k.markers[i].Frame), v)
		}
	}
}

// balance compares the books with the counters.
func (b books) balance(t *testing.T, counters books) {
	t.Helper()
	if !maps.Equal(b.reasons, counters.reasons) {
		t.Errorf("counted by reason %v, expected %v", counters.reasons, b.reasons)
	}
	b.reasons, counters.reasons = nil, nil
	if b.rxPackets != counters.rxPackets || b.rxBytes != counters.rxBytes || b.txPackets != counters.txPackets || b.txBytes != counters.txBytes {
		t.Errorf("counted as forwarded %+v, expected %+v", counters, b)
	}
}
