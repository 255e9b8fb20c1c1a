// SPDX-License-Identifier: Apache-2.0

package loginbench

import (
	"testing"

	"minne/internal/testing/testbuild"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// The people of the figure are different hosts, and the router has let each of them in.
func TestPeople(t *testing.T) {
	b, err := New(t.Context(), testbuild.Minne(t, t.TempDir()), 100)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, n := range []int{10, 90} {
		if took, err := b.Enter(t.Context(), n); err != nil || took <= 0 {
			t.Fatalf("%d people: %v, %v\n%s", n, took, err, b.minne.Log(10))
		}
	}
	if n, err := b.Users(t.Context()); err != nil || n != 100 {
		t.Errorf("%d are logged in, %v", n, err)
	}
	if _, err := b.Enter(t.Context(), 1); err == nil {
		t.Error("somebody has no voucher and was let in")
	}
}
