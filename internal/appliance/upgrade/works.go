// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"net/netip"
	"os/exec"
	"sync"
)

// Answering returns those hosts that answer a ping within two seconds.
func Answering(ctx context.Context, hosts []netip.Addr) (answering []netip.Addr) {
	answers := make([]bool, len(hosts))
	var pings sync.WaitGroup
	for i, host := range hosts {
		pings.Go(func() {
			family := "-4"
			if host.Is6() {
				family = "-6"
			}
			answers[i] = exec.CommandContext(ctx, "ping", family, "-c", "1", "-W", "2", host.String()).Run() == nil
		})
	}
	pings.Wait()
	for i, host := range hosts {
		if answers[i] {
			answering = append(answering, host)
		}
	}
	return answering
}
