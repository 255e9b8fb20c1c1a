// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"fmt"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/matrix"
)

// transfers measures what two hosts transfer through this machine's kernel: the lab's matrix of TCP and UDP, quick.
func (r *Result) transfers(ctx context.Context, means device.Means, progress func(string)) (err error) {
	progress("transfer through the kernel")
	n, err := matrix.Build(ctx, device.Spec{Kind: device.Kernel}, means)
	if err != nil {
		return fmt.Errorf("matrix of transfers: %w", err)
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	m, err := n.Matrix(ctx, matrix.Options{Seconds: 1, Quick: true, Progress: func(text string, _ time.Duration) { progress(text) }})
	if err != nil {
		return fmt.Errorf("matrix of transfers: %w", err)
	}
	r.Matrix = append(r.Matrix, m)
	return nil
}
