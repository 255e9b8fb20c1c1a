// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"context"
	"testing"
	"time"

	"minne/internal/kernel"
	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
	"minne/internal/lab/trial"
	"minne/internal/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func parse(t *testing.T, text string) pattern.Pattern {
	t.Helper()
	p, err := pattern.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Frames that a device must forward without loss at a rate that any machine manages.
func TestEveryFrameComesBack(t *testing.T) {
	for _, c := range []struct{ device, traffic string }{
		{"none", "one-flow"},
		{"kernel", "one-flow"},
		{"kernel", "flows=64 bidirectional family=ipv4:50,ipv6:50 size=imix"},
		{"bridge", "one-flow bidirectional"},
	} {
		t.Run(c.device+" "+c.traffic, func(t *testing.T) {
			ctx := context.Background()
			d, err := device.Parse(c.device)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Start(ctx, Setup{Device: d, Traffic: parse(t, c.traffic), Means: device.Means{Load: kernel.BulkRoutes}})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			r.Timed(true)
			got, err := r.Attempt(ctx, trial.Load{Rate: 20_000, Duration: 500 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if got.Sent == 0 || got.Received != got.Sent || got.Corrupted+got.BadTTL+got.BadHeader+got.BadMAC+got.Duplicated > 0 {
				t.Errorf("sent %d of %d, received %d, corrupted %d, TTL %d, header %d, MAC %d, twice %d", got.Sent, got.Intended, got.Received,
					got.Corrupted, got.BadTTL, got.BadHeader, got.BadMAC, got.Duplicated)
			}
			if got.Latency.Count() != got.Received || got.Latency.Max() <= 0 {
				t.Errorf("%d latencies of %d frames, the longest %v", got.Latency.Count(), got.Received, got.Latency.Max())
			}
		})
	}
}
