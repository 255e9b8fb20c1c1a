// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"testing"

	"minne/internal/lab/device"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/testbuild"
)

// The figure of a login is about packets that the login lets pass: after a logout none arrives.
func TestAdmitted(t *testing.T) {
	a, err := NewAdmitted(t.Context(), device.Means{Binary: testbuild.Minne(t, t.TempDir()), Load: kernel.BulkRoutes}, 500)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	open, login := a.Sides()
	for _, s := range []Side{open, login} {
		if trial, err := s.Path.Try(t.Context(), s.Load, s.Load.packets, 0); err != nil || trial.Lost > 0 {
			t.Errorf("%s: %+v %v", s.Path.Name, trial, err)
		}
	}
	if err := a.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	if trial, err := login.Path.Try(t.Context(), login.Load, login.Load.packets, 0); err != nil || trial.Arrived.Received != 0 {
		t.Errorf("after the logout: %+v %v", trial, err)
	}
	if trial, err := open.Path.Try(t.Context(), open.Load, open.Load.packets, 0); err != nil || trial.Lost > 0 {
		t.Errorf("the open network after the logout: %+v %v", trial, err)
	}
}
