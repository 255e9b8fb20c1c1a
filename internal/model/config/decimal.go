// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Decimal is a number with or without a fraction, written plainly: 8.4, -2.15, 12. The router's own file
// has none; sheets of parts do.
type Decimal float64

const decimalForm = "a number such as 12 or 8.4"

// UnmarshalText reads digits with at most one point and a minus in front; no exponent, no thousands separators.
func (d *Decimal) UnmarshalText(b []byte) error {
	text := string(b)
	value, err := plainDecimal(text)
	if err == nil {
		*d = Decimal(value)
		return nil
	}
	wrong := &wrongValue{fmt.Sprintf("%q is not a number", abridge(text)), decimalForm, ""}
	guess := strings.TrimRight(strings.Replace(text, ",", ".", 1), " %°AaCcEehHMmPpVvWwSKR$€£")
	if _, err := plainDecimal(guess); err == nil && strings.Count(text, ",")+strings.Count(text, ".") < 2 {
		wrong.nearest = guess
	}
	return wrong
}

func plainDecimal(text string) (float64, error) {
	digits := strings.TrimPrefix(text, "-")
	whole, fraction, dotted := strings.Cut(digits, ".")
	if whole == "" || dotted && fraction == "" || len(digits) > 15 || strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, errors.New("no plain number")
	}
	if len(whole) > 1 && whole[0] == '0' {
		return 0, errors.New("leading zeros")
	}
	return strconv.ParseFloat(text, 64)
}

// String returns the shortest form that reads back to the same number.
func (d Decimal) String() string { return strconv.FormatFloat(float64(d), 'f', -1, 64) }

// MarshalText returns the String form.
func (d Decimal) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MarshalJSON returns a JSON number.
func (d Decimal) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }
