// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"minne/internal/lab/device"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testbuild"
)

// The connections that figures of translation are about exist: their sources are translated,
// conntrack has seen them answered, whole ones begin and end, and a flood does not touch them.
func TestTranslatedConnections(t *testing.T) {
	tr, err := NewTranslators(t.Context(), device.Means{Binary: testbuild.Minne(t, t.TempDir()), Load: kernel.BulkRoutes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	const n = 5000 // more than are learnt at once
	if err := tr.Establish(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Translator{tr.Fast, tr.Slow} {
		seen := map[[2]netip.AddrPort]bool{}
		for _, f := range r.flows {
			if f.outside.Addr() != device.OutAddresses[0].Addr() || f.outside.Port() == 0 {
				t.Fatalf("%s: flow %+v is not translated", r.Name, f)
			}
			seen[[2]netip.AddrPort{f.outside, f.to}] = true
		}
		if len(seen) != n {
			t.Errorf("%s: %d connections outside of %d inside", r.Name, len(seen), n)
		}
	}
	if err := tr.AwaitFast(t.Context()); err != nil {
		t.Error(err)
	}
	if err := tr.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Each packet of a connection in its turn: none but the beginnings were judged by a rule.
	out, err := tr.Device(slowPlace).Node().Run(t.Context(), "sh", "-c", "grep -c TIME_WAIT /proc/net/nf_conntrack")
	if err != nil || strings.TrimSpace(out) != "2048" {
		t.Errorf("%q connections have ended, %v; expected 2048", out, err)
	}
	f, err := tr.Flood(t.Context(), 100, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if f.Sent == 0 || f.Flood == 0 || f.Lost+f.LostAlone > 0 {
		t.Errorf("%+v", f)
	}
}
