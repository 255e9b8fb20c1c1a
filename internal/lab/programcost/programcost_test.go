// SPDX-License-Identifier: Apache-2.0

package programcost

import (
	"testing"

	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// Every way leaves as it should, again and again. What it takes is no test's to say.
func TestWays(t *testing.T) {
	b, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, ways := range [][2]Way{{Plain, InVRF}, {Plain, Outwards}, {Back, Inwards}} {
		longer, same, err := b.Extra(t.Context(), ways[0], ways[1], 3)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f ns more (%.1f to %.1f; A/A %.1f to %.1f)", ways[1].name, longer.Median, longer.Low, longer.High, same.Low, same.High)
	}
}
