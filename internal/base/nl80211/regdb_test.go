// SPDX-License-Identifier: Apache-2.0

package nl80211

import (
	"encoding/binary"
	"errors"
	"testing"
)

// database makes one of two countries: AA with 2402-2482 MHz, and 5170-5250 of 80 MHz next to 5250-5330 with radars; BB may
// only listen.
func database() []byte {
	be := binary.BigEndian
	b := make([]byte, 256)
	be.PutUint32(b, dbMagic)
	be.PutUint32(b[4:], dbVersion)
	copy(b[8:], "AA")
	be.PutUint16(b[10:], 24/4)
	copy(b[12:], "BB")
	be.PutUint16(b[14:], 40/4)
	copy(b[24:], []byte{3, 3, 0, 0})
	copy(b[40:], []byte{3, 1, 0, 0})
	rule := func(at int, flags byte, first, last, widest uint32) {
		b[at], b[at+1] = 16, flags
		be.PutUint16(b[at+2:], 2000)
		be.PutUint32(b[at+4:], first)
		be.PutUint32(b[at+8:], last)
		be.PutUint32(b[at+12:], widest)
	}
	for n, at := range []int{64, 80, 96} {
		be.PutUint16(b[28+2*n:], uint16(at/4))
	}
	be.PutUint16(b[44:], 112/4)
	rule(64, 0, 2402000, 2482000, 40000)
	rule(80, flagAutoBW, 5170000, 5250000, 80000)
	rule(96, flagDFS|flagAutoBW, 5250000, 5330000, 80000)
	rule(112, flagNoIR, 2402000, 2482000, 40000)
	return b
}

// What a country allows is read from the kernel's database.
func TestCountry(t *testing.T) {
	aa, err := countryOf(database(), "AA")
	if err != nil || len(aa) != 3 || aa[0].Power != 20 {
		t.Fatalf("%+v %v", aa, err)
	}
	for _, c := range []struct {
		mhz, width int
		ok, radar  bool
	}{
		{2412, 20, true, false}, {2412, 80, false, false}, {2484, 20, false, false}, {5180, 80, true, false},
		{5260, 20, true, true}, {5260, 160, true, true}, {5320, 80, true, true}, {5340, 20, false, false},
	} {
		if ok, radar := Allows(aa, c.mhz, c.width); ok != c.ok || radar != c.radar {
			t.Errorf("%d MHz, %d wide: %v, radar %v", c.mhz, c.width, ok, radar)
		}
	}
	bb, err := countryOf(database(), "BB")
	if ok, _ := Allows(bb, 2412, 20); err != nil || ok {
		t.Errorf("a channel that may only be listened to is allowed: %+v %v", bb, err)
	}
	if _, err := countryOf(database(), "CC"); !errors.Is(err, ErrCountry) {
		t.Error(err)
	}
}

// A damaged file is refused, and never read beyond its end.
func TestDamagedDatabase(t *testing.T) {
	for n := range len(database()) {
		rules, err := countryOf(database()[:n:n], "BB")
		if err == nil && len(rules) != 1 {
			t.Errorf("%d bytes: %+v", n, rules)
		}
	}
	for n := range len(database()) {
		b := database()
		b[n] = 0xff
		_, _ = countryOf(b, "AA")
	}
	if _, err := countryOf(make([]byte, 64), "AA"); !errors.Is(err, ErrDatabase) {
		t.Error(err)
	}
}
