// SPDX-License-Identifier: Apache-2.0

package classbench

import (
	"context"
	"time"

	"minne/internal/subsystem/fastpath/classify"
)

// Swaps compiles rules and puts them in force, so many times, and returns what that took each time. It needs root.
func Swaps(ctx context.Context, rules []classify.Rule, times int) ([]time.Duration, error) {
	b, err := newBed(classify.Full)
	if err != nil {
		return nil, err
	}
	defer b.close()
	var took []time.Duration
	for range times {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		begin := time.Now()
		tables, err := classify.Compile(rules, classify.Options{})
		if err != nil {
			return nil, err
		}
		if err := b.policy.Swap(tables); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}
