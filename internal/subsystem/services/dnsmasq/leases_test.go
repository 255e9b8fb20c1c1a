// SPDX-License-Identifier: Apache-2.0

package dnsmasq

import (
	"strings"
	"testing"
	"time"
)

const (
	leaseA  = "2000 02:00:00:00:00:01 192.0.2.10 ana *"
	leaseB  = "0 02:00:00:00:00:02 192.0.2.11 * 01:02:00:00:00:00:02"
	ended   = "900 02:00:00:00:00:03 192.0.2.12 * *"
	other   = "3000 02:00:00:00:00:09 192.0.2.10 other *"
	six     = "3000 12345 2001:db8::10 * 00:01:00:01:2a:00:00:00:02:00:00:00:00:01"
	duidOne = "duid 00:01:00:01:2a:00:00:01:02:00:00:00:00:aa"
	duidTwo = "duid 00:01:00:01:2b:00:00:02:02:00:00:00:00:bb"
)

func lines(list ...string) string { return strings.Join(list, "\n") + "\n" }

// TestMerge: an address has one lease, that of this router; what is over is nobody's.
func TestMerge(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, test := range []struct {
		what, here, other, wants string
		taken                    int
	}{
		{"nothing here", "", lines(leaseA, leaseB, ended), lines(leaseA, leaseB), 2},
		{"leased here", lines(other), lines(leaseA, leaseB), lines(other, leaseB), 1},
		{"the same again", lines(leaseA, leaseB), lines(leaseA, leaseB), lines(leaseA, leaseB), 0},
		{"IPv6", lines(leaseA, duidOne), lines(duidTwo, six), lines(leaseA, duidTwo, six), 1},
		{"IPv6 here", lines(duidOne, six), lines(leaseA), lines(leaseA, duidOne, six), 1},
	} {
		got, taken := merge(test.here, test.other, now)
		if got != test.wants || taken != test.taken {
			t.Errorf("%s: %d taken, want %d; got\n%swant\n%s", test.what, taken, test.taken, got, test.wants)
		}
	}
}

// TestCheckLeases: what comes from a file of a backup is not written down unread.
func TestCheckLeases(t *testing.T) {
	if err := checkLeases(lines(leaseA, leaseB, ended, duidOne, six)); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		"hello\n", "\n", lines("x 02:00:00:00:00:01 192.0.2.10 ana *"), lines("1 02:00:00:00:00:01 192.0.2 ana *"),
		lines(leaseA + "\x00"), lines(leaseA + strings.Repeat("a", 1000)), strings.Repeat(lines(leaseA), mostLeases+1),
	} {
		if err := checkLeases(text); err == nil {
			t.Errorf("%.60q was taken", text)
		}
	}
}
