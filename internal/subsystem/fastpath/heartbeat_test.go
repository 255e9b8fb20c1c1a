// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"testing"
	"time"
)

// TestTablesAreTrustedForSomeTime: without another sign of the daemon the kernel forwards, with one the
// program goes on.
func TestTablesAreTrustedForSomeTime(t *testing.T) {
	b := newBench(t)
	frame := udp4(macIn, macA, "192.0.2.2", "198.51.100.2", 64, 0)
	b.expect(frame, b.in, Forwarded)
	must(t, b.fast.Beat())
	b.expect(frame, b.in, Forwarded)
	must(t, b.fast.prog.trustFor(0))
	deadline := time.Now().Add(30 * time.Second)
	for {
		v, err := b.fast.Run(frame, b.in.Attrs().Index)
		must(t, err)
		if v.Reason == Reason(routerReasonREASON_NO_DAEMON) && v.Action == ActionPass {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("beyond its time the tables are still used: %v", v.Reason)
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(t, b.fast.Beat())
	b.expect(frame, b.in, Forwarded)
}
