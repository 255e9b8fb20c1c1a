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
	text := string(b)
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	const most = 4094 // IEEE 802.1Q: 0 and 4095 are no VLANs
	one, err := decimal(first, most)
	two, err2 := decimal(last, most)
	if err != nil || err2 != nil || one == 0 || two < one {
		return &wrongValue{fmt.Sprintf("%q is no VLAN id", abridge(text)), vlanRangeForm, ""}
	}
	*r = VLANRange{int(one), int(two)}
	return nil
}

// String writes it as it is read.
func (r VLANRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// MarshalText returns the String form.
func (r VLANRange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
