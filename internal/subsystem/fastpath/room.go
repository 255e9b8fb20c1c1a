// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"os"
	"strings"
)

// While the kernel's verifier looks at a program, it keeps what it has seen: measured with kernel 6.18, 39 MB for the
// program without a firewall, with tables of 12 MB beside. On a small machine that comes out of what the routing daemons
// need, and the kernel would end one of them, or this one.

const (
	roomPlain    = 56 << 10 // KiB that must be available to load a program without a firewall
	roomFirewall = 96 << 10 // and with one
)

// memoryFile tells how much memory is available.
var memoryFile = "/proc/meminfo"

// room refuses to load a program for which the machine has not enough memory.
func (s shape) room() error {
	text, err := os.ReadFile(memoryFile)
	if err != nil {
		return nil // nobody knows, so the kernel has to say
	}
	need := roomPlain
	if s.firewall.on {
		need = roomFirewall
	}
	for line := range strings.Lines(string(text)) {
		var available int
		if _, err := fmt.Sscanf(line, "MemAvailable: %d kB", &available); err == nil && available < need {
			return fmt.Errorf("the kernel's verifier may need %d MB of memory for the program; %d MB are available", need>>10, available>>10)
		}
	}
	return nil
}
