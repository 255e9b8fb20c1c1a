// SPDX-License-Identifier: Apache-2.0

package irdp

import (
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"minne/internal/base/sendip"
)

var lan = Settings{
	Addresses:  []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("198.51.100.1/24")},
	Preference: -2, Interval: 10 * time.Minute, Lifetime: 30 * time.Minute,
}

// An advertisement is what RFC 1256, section 3, draws; the one of farewell has the lifetime 0.
func TestMessage(t *testing.T) {
	for lifetime, want := range map[time.Duration]string{
		lan.Lifetime: "090001c102020708c0000201fffffffec6336401fffffffe",
		0:            "090008c902020000c0000201fffffffec6336401fffffffe",
	} {
		b := message(lan, lifetime)
		if got := hex.EncodeToString(b); got != want || sendip.Sum(b) != 0xffff {
			t.Errorf("lifetime %v: %s", lifetime, got)
		}
	}
	many := lan
	for range 200 {
		many.Addresses = append(many.Addresses, lan.Addresses[0])
	}
	if b := message(many, 0); len(b) != 8+8*int(b[4]) || len(b) > 576-20 {
		t.Errorf("%d addresses in %d bytes", b[4], len(b))
	}
}

func TestAsks(t *testing.T) {
	for _, c := range []struct {
		message, from string
		want          bool
	}{
		{"0a00f5ff00000000", "192.0.2.9", true},
		{"0a00f5ff00000000", "198.51.100.9", true},
		{"0a00f5ff00000000", "0.0.0.0", true}, // it has no address yet
		{"0a00f5ff0000000000", "192.0.2.9", true},
		{"0a00f5ff00000000", "203.0.113.9", false}, // no neighbour
		{"0a00f5fe00000000", "192.0.2.9", false},   // checksum
		{"0a01f5fe00000000", "192.0.2.9", false},   // code
		{"0900f6ff00000000", "192.0.2.9", false},   // another type
		{"0a00f5ff000000", "192.0.2.9", false},
		{"", "192.0.2.9", false},
	} {
		b, err := hex.DecodeString(c.message)
		if err != nil {
			t.Fatal(err)
		}
		if got := asks(b, netip.MustParseAddr(c.from), lan); got != c.want {
			t.Errorf("%s from %s: %v", c.message, c.from, got)
		}
	}
}
