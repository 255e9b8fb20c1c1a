// SPDX-License-Identifier: Apache-2.0

package procbench

import (
	"runtime"
	"testing"
)

// overhead is what the program may need beside the table, the keys and the state of a search: itself, its C library's
// memory and its stack. Routers have 32 MiB for everything.
const overhead = 2 << 20

// TestMemory: the table and the keys are in memory once, and little else.
func TestMemory(t *testing.T) {
	program := build(t, runtime.GOARCH)
	for _, b := range benches {
		m := run(t, append([]string{program, "--check", "--json", b.algorithm, b.tables[native()]}, b.sets...)...).Memory
		if sum := m.Table + m.Keys + m.State; m.Table == 0 || m.Keys == 0 || m.Peak == 0 || m.Peak > sum+overhead {
			t.Errorf("%s: %d bytes in all, of which %d for the table, the keys and the search", b.title(), m.Peak, sum)
		}
	}
}
