// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"testing"
)

// An alarm is one however often it is told; each turn is an event, once, and those that nobody took in time are bounded.
func TestAlarms(t *testing.T) {
	b, _ := newLogged()
	b.Fault("time", "no server")
	b.Fault("time", "no server")
	b.Fault("time", "two servers differ")
	f := b.Faults()[0]
	if f.Severity != Minor || f.Do != "minne show ntp" || f.ID != idOf("time") || len(f.ID) != 6 {
		t.Errorf("%+v", f)
	}
	if list, found := b.Acknowledge("000000", "pat"); found || len(list) != 0 {
		t.Errorf("another: %v", list)
	}
	for n, want := range []int{1, 0} {
		if list, found := b.Acknowledge(f.ID, "pat"); !found || len(list) != want {
			t.Errorf("%d: %v", n, list)
		}
	}
	if a := b.Faults()[0].Acknowledged; a == nil || a.By != "pat" {
		t.Errorf("acknowledged: %+v", a)
	}
	b.Clear("time")
	b.Fault("time", "no server")
	if f := b.Faults()[0]; f.Acknowledged != nil {
		t.Errorf("another time: %+v", f)
	}
	var turns []Turn
	enough := errors.New("enough")
	if err := b.Follow(t.Context(), 0, func(e Event) error {
		if turns = append(turns, e.Turn); len(turns) == 5 {
			return enough
		}
		return nil
	}); err != enough {
		t.Fatal(err)
	}
	for i, want := range []Turn{Raised, Changed, Acked, Cleared, Raised} {
		if turns[i] != want {
			t.Errorf("event %d: %s, want %s", i, turns[i], want)
		}
	}
	for range keptEvents {
		b.Fault("x", "a")
		b.Clear("x")
	}
	first := -1
	ctx, end := context.WithCancel(t.Context())
	_ = b.Follow(ctx, 3, func(e Event) error { // ends with ctx
		if first < 0 {
			first = e.Number
		}
		if e.Number == 4+2*keptEvents {
			end()
		}
		return nil
	})
	if first != 5+keptEvents {
		t.Errorf("the first of those that are kept: %d", first)
	}
}
