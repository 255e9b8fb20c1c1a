// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
)

// CPUs says which processors forward packets, and which do all else.
type CPUs struct {
	Forwarding []CPURange `yaml:"forwarding" json:"forwarding,omitempty" doc:"The CPUs that forward, by number from 0: each port has a queue for each of them. Absent: those that are not in control, or all." example:"0-2"`
	Control    []CPURange `yaml:"control" json:"control,omitempty" doc:"The CPUs for FRR, the daemon, the services and all other programs: best the highest. Absent: all." example:"3"`
}

// Numbers are the CPUs of a list of ranges, ascending, each once.
func Numbers(list []CPURange) (all []int) {
	for _, r := range list {
		for n := r.First; n <= r.Last; n++ {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ForwardingCPUs are those that forward, of the ones that run: those of the list forwarding, else all that are not in control, else all.
func ForwardingCPUs(forwarding, control, online []int) []int {
	if forwarding != nil {
		return forwarding
	}
	rest := slices.DeleteFunc(slices.Clone(online), func(c int) bool { return slices.Contains(control, c) })
	if len(rest) == 0 {
		return slices.Clone(online)
	}
	return rest
}

// CPURange is some CPUs in a row, often one.
type CPURange struct{ First, Last int }

const (
	cpuRangeForm = "a number from 0 to 1023, or a range as 1-3"
	mostCPU      = 1023
)

// UnmarshalText reads 1 or 1-3.
func (r *CPURange) UnmarshalText(b []byte) error {
	first, last, ok := rangeOf(string(b), 0, mostCPU)
	if !ok {
		return &wrongValue{fmt.Sprintf("%q is no CPU", abridge(string(b))), cpuRangeForm, ""}
	}
	*r = CPURange{first, last}
	return nil
}

// String writes it as it is read.
func (r CPURange) String() string { return rangeText(r.First, r.Last) }

// MarshalText returns the String form.
func (r CPURange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }
