// SPDX-License-Identifier: Apache-2.0

package tick

import (
	"context"
	"testing"
	"time"
)

func TestAllLooksShareATick(t *testing.T) {
	c := New()
	c.every = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	var order []string
	c.Add(func(context.Context) { order = append(order, "a") })
	c.Add(func(context.Context) {
		if order = append(order, "b"); len(order) == 6 {
			cancel()
		}
	})
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	for i, look := range order {
		if look != []string{"a", "b"}[i%2] {
			t.Fatalf("looks in the order %q", order)
		}
	}
}
