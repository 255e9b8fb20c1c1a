// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"fmt"
	"time"

	"minne/internal/lab/iperf"
)

// iperf runs the client for whole seconds.
func (n *Network) iperf(ctx context.Context, family string, seconds int, args ...string) (iperf.Transfer, error) {
	server, ok := n.server[family]
	if !ok {
		return iperf.Transfer{}, fmt.Errorf("the server has no %s address", family)
	}
	return iperf.Client{From: n.client, Server: server, Seconds: seconds, Grace: 10 * time.Second}.Run(ctx, args...)
}
