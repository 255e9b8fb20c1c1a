// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"minne/internal/base/process"
)

// refuseForeign returns an error when a zebra that is not ours lives in our network namespace, such as that
// of the distribution's own service: two of them remove each other's next hops without end.
func (h host) refuseForeign() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("look for another zebra: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		comm, err := os.ReadFile("/proc/" + e.Name() + "/comm")
		if err != nil || strings.TrimSpace(string(comm)) != zebra || h.isOurs(zebra, pid) || !process.InNetwork(pid, h.netns) {
			continue
		}
		return fmt.Errorf("another zebra (process %d) runs in this network namespace; stop it first (Debian's FRR: systemctl disable --now frr)", pid)
	}
	return nil
}
