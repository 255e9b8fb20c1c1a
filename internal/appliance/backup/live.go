// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"slices"
	"time"
)

// Live is what a router has come to hold beside its configuration, and hosts count on.
type Live struct {
	Leases    string            `json:"leases,omitempty"`     // of the DHCP server, lines in the format of dnsmasq(8)
	VRFLeases map[string]string `json:"vrf_leases,omitempty"` // of the DHCP servers in VRFs, by VRF
	Sets      []LiveSet         `json:"sets,omitempty"`
}

// LiveSet is what minne set add has put into a set.
type LiveSet struct {
	Name     string        `json:"name"`
	Elements []LiveElement `json:"elements"`
}

// LiveElement is an address or a prefix in a set.
type LiveElement struct {
	Element string    `json:"element"`
	Until   time.Time `json:"until,omitzero"` // zero: until it is deleted
}

// Batch is elements with the same time left.
type Batch struct {
	Left     time.Duration // 0: until they are deleted
	Elements []string
}

// Left returns the elements whose time is not up, by the time that they have left, in seconds.
func (s *LiveSet) Left(now time.Time) (list []Batch) {
	at := map[time.Duration]int{}
	for _, e := range s.Elements {
		left := time.Duration(0)
		if !e.Until.IsZero() {
			if left = e.Until.Sub(now).Truncate(time.Second); left <= 0 {
				continue
			}
		}
		i, known := at[left]
		if !known {
			i = len(list)
			at[left] = i
			list = append(list, Batch{Left: left})
		}
		list[i].Elements = append(list[i].Elements, e.Element)
	}
	slices.SortFunc(list, func(a, b Batch) int { return int(a.Left/time.Second) - int(b.Left/time.Second) })
	return list
}
