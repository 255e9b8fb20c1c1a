// SPDX-License-Identifier: Apache-2.0

package voices

import (
	"testing"

	"minne/internal/testing/testframes"
	"minne/internal/testing/testwire"
)

// TestLossIsNoticed sends a window that is too large for the capture ring: the bed
// must say that it lost frames, not that the kernel did not forward them.
func TestLossIsNoticed(t *testing.T) {
	n := newNetwork(t)
	k := newBed(t, n, newNamespace(t), 200)
	g := testframes.NewGenerator(n.world(false), 1)
	var samples []testframes.Sample
	for i := range uint64(3 * testwire.Slots) {
		samples = append(samples, g.At(i))
	}
	if _, complete, err := k.try(samples); err != nil || complete {
		t.Fatalf("complete %v, error %v; expected an incomplete window", complete, err)
	}
	outputs, err := k.ask(samples[:window])
	if err != nil || len(outputs) != window {
		t.Fatalf("the bed does not recover: %v", err)
	}
}
