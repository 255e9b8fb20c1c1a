// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strconv"
	"strings"
)

// VLANRange is some VLANs in a row, often one.
type VLANRange struct{ First, Last int }

const vlanRangeForm = "a VLAN id from 1 to 4094, or a range as 100-199"

// UnmarshalText reads 10 or 100-199.
func (r *VLANRange) UnmarshalText(b []byte) error {
	first, last, ok := rangeOf(string(b), 1, 4094) // IEEE 802.1Q: 0 and 4095 are no VLANs
	if !ok {
		return &wrongValue{fmt.Sprintf("%q is no VLAN id", abridge(string(b))), vlanRangeForm, ""}
	}
	*r = VLANRange{first, last}
	return nil
}

// String writes it as it is read.
func (r VLANRange) String() string { return rangeText(r.First, r.Last) }

// MarshalText returns the String form.
func (r VLANRange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// rangeOf reads a number, or two with a dash between them, from least to most.
func rangeOf(text string, least, most int) (first, last int, ok bool) {
	one, two, isRange := strings.Cut(text, "-")
	if !isRange {
		two = one
	}
	a, err := decimal(one, uint64(most))
	b, err2 := decimal(two, uint64(most))
	return int(a), int(b), err == nil && err2 == nil && int(a) >= least && a <= b
}

// rangeText writes what rangeOf reads.
func rangeText(first, last int) string {
	if first == last {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}
