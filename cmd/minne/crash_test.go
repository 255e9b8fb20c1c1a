// SPDX-License-Identifier: Apache-2.0

package main

import (
	"syscall"
	"testing"
)

// applyPoints are the fault points that a commit passes, in order; the writes of
// its revision are the first (record) and the second (commit) that it makes.
var applyPoints = []string{
	"record", "store-write@1", "store-temp@1", "store-renamed@1",
	"firewall", "firewall-done", "kernel", "kernel-done", "routing", "routing-done", "fast-path", "fast-path-done", "forwarding", "forwarding-done",
	"commit", "store-write@2", "store-temp@2",
}

// sealedPoints come after the commit is on disk.
var sealedPoints = []string{"store-renamed@2", "commit-done"}

// However far an apply got when the daemon is killed, the next one ends in the
// last confirmed configuration.
func TestKilledDuringApply(t *testing.T) {
	for _, point := range applyPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			first, second := b.config("first", lan1, wan1), b.config("second", lan2, "")
			b.start()
			b.want(0, "applied", "apply", first)
			b.end(syscall.SIGTERM)
			b.start("MINNE_FAULT=" + point + ":kill")
			b.want(1, "the daemon ended", "apply", second)
			b.end(0)
			b.start()
			b.wantAddresses(lan1, wan1)
			b.wantWhole(1)
			b.want(0, "applied", "apply", second)
			b.wantAddresses(lan2, "")
		})
	}
}

func TestKilledAfterCommit(t *testing.T) {
	for _, point := range sealedPoints {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.start()
			b.want(0, "applied", "apply", b.config("first", lan1, wan1))
			b.end(syscall.SIGTERM)
			b.start("MINNE_FAULT=" + point + ":kill")
			b.want(1, "the daemon ended", "apply", b.config("second", lan2, wan2))
			b.end(0)
			b.start()
			b.wantAddresses(lan2, wan2)
			b.wantWhole(2)
		})
	}
}

// Killed while a configuration is confirmed or reverted.
func TestKilledDuringConfirm(t *testing.T) {
	for _, test := range []struct {
		point, command string
		lan, wan       string
	}{
		{"confirm", "confirm", lan2, wan2},         // still waiting
		{"store-temp@3", "confirm", lan2, wan2},    // still waiting
		{"store-renamed@3", "confirm", lan2, wan2}, // confirmed
		{"confirm-done", "confirm", lan2, wan2},    // confirmed
		{"revert", "rollback", lan2, wan2},         // still waiting
		{"store-renamed@3", "rollback", lan1, wan1},
		{"back-kernel", "rollback", lan1, wan1},
		{"back-kernel-done", "rollback", lan1, wan1},
		{"back-forwarding-done", "rollback", lan1, wan1},
	} {
		t.Run(test.command+" "+test.point, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.start()
			b.want(0, "applied", "apply", b.config("first", lan1, wan1))
			b.end(syscall.SIGTERM)
			fault := test.point
			if test.command == "rollback" && test.point[:4] == "back" {
				fault += "@2" // the first is the start of the daemon
			}
			b.start("MINNE_FAULT=" + fault + ":kill")
			b.want(0, "minne confirm", "apply", b.config("second", lan2, wan2), "--confirm", "1h")
			b.want(1, "the daemon ended", test.command)
			b.end(0)
			b.start()
			b.wantAddresses(test.lan, test.wan)
		})
	}
}

// A step that fails in the real system is taken back there, too.
func TestFailedStep(t *testing.T) {
	for _, point := range []string{"kernel-done", "routing", "fast-path-done", "forwarding-done", "commit", "store-write@2"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.start()
			b.want(0, "applied", "apply", b.config("first", lan1, wan1))
			b.end(syscall.SIGTERM)
			b.start("MINNE_FAULT=" + point + ":enospc")
			a := b.want(4, "revision 1 is in force again", "apply", b.config("second", lan2, ""))
			if a.out != "" {
				t.Errorf("a failed apply said %q", a.out)
			}
			b.wantAddresses(lan1, wan1)
			b.wantWhole(1)
		})
	}
}

func TestFullDiskBeforeAnything(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start("MINNE_FAULT=store-write@1:enospc")
	b.want(1, "nothing was changed: step record", "apply", b.config("first", lan1, wan1))
	b.wantAddresses("", "")
	b.want(0, "applied", "apply", b.config("first", lan1, wan1))
}
