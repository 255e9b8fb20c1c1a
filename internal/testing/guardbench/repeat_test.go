// SPDX-License-Identifier: Apache-2.0

package guardbench

import (
	"os"
	"sync"
	"syscall"
	"testing"

	"minne/internal/model/packet"
	"minne/internal/subsystem/fastpath/guard"
)

// TestRepeatedRunsAreCountedOnceUnderSignals: a signal in the midst of a repeated run must not make it
// begin again, or a test counts frames that it never sent.
func TestRepeatedRunsAreCountedOnceUnderSignals(t *testing.T) {
	w := newWire(t, func(s *guard.Settings) {
		s.Budgets[guard.ICMP] = guard.Budget{PerSecond: 100_000_000, PerSource: 100_000_000}
	})
	frame := ip(routerMAC, stranger4, router4, packet.ProtoICMP, make([]byte, 26))
	done, quiet := make(chan struct{}), sync.WaitGroup{}
	quiet.Go(func() {
		for {
			select {
			case <-done:
				return
			default: // to whichever thread of this process takes it
				_ = syscall.Kill(os.Getpid(), syscall.SIGURG)
			}
		}
	})
	defer quiet.Wait()
	defer close(done)
	const frames = 200_000
	for range 20 {
		before := w.tallies()
		w.passed(frame, local, frames)
		counted := 0
		for c, now := range w.tallies() {
			b := before[c]
			counted += int(now.Passed + now.OverSource + now.OverClass - b.Passed - b.OverSource - b.OverClass)
		}
		if counted != frames {
			t.Fatalf("%d runs counted: expected %d", counted, frames)
		}
	}
}
