// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"context"
	"testing"
	"time"

	"minne/internal/lab/blueprint"
	"minne/internal/testing/testbuild"
)

// boots starts a network whose node "router" runs the image, until the test ends. When it fails, the log has what a script
// prints there.
func boots(t *testing.T, file, text, script string) *blueprint.Network {
	t.Helper()
	network, err := blueprint.Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	up, err := network.Up(ctx, testbuild.Minne(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := up.Node("router").Run(context.Background(), "sh", "-c", script)
			t.Logf("the router:\n%s\n%s", out, up.Routers["router"].Log(40))
		}
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	return up
}
