// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

func TestDecimal(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "12": 12, "8.4": 8.4, "-2.15": -2.15, "0.223": 0.223, "1111.60": 1111.6} {
		var d Decimal
		if err := d.UnmarshalText([]byte(text)); err != nil || float64(d) != want {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
	for text, nearest := range map[string]string{
		"8,4": "8.4", "8.4W": "8.4", "50%": "50", "12 V": "12", "1,111.6": "", "1e3": "", "": "", ".5": "", "5.": "", "07": "", "--1": "", "0x10": "",
		"1_000": "", "nan": "", "inf": "", "+1": "", "123456789012345678": "",
	} {
		var d Decimal
		err := d.UnmarshalText([]byte(text))
		wrong, ok := err.(*wrongValue)
		if !ok || wrong.nearest != nearest || !strings.Contains(wrong.expected, "8.4") {
			t.Errorf("%q: %v, %v; expected the hint %q", text, d, err, nearest)
		}
	}
}
