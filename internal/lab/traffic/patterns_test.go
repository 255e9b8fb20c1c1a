// SPDX-License-Identifier: Apache-2.0

package traffic_test

import (
	"testing"

	"minne/internal/lab/pattern"
	"minne/internal/lab/traffic"
)

// TestPatternsOnTheWire sends every kind of pattern.
func TestPatternsOnTheWire(t *testing.T) {
	for _, text := range []string{
		"one-flow",
		"flows=100 size=1518",
		"2048@30 imix",
		"flows=3@2 bidirectional family=both",
		"rdos",
		"rdos draw=uniform family=ipv4:70,ipv6:30",
		"rdos=5tuple imix=csit",
		"ports=rfc4814 size=65",
		"flows=50@1 syn family=both mix=64:1,1518:1",
		"genome=2abcdefgA,A=99",
	} {
		t.Run(text, func(t *testing.T) {
			p, err := pattern.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			l, err := p.Lap(pattern.BenchmarkEnds())
			if err != nil {
				t.Fatal(err)
			}
			traffic.CheckOnWire(t, l, 600)
		})
	}
}
