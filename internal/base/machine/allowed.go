// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mostCPUs is how many the kernel's mask of allowed processors is read for.
const mostCPUs = 1024

// Allowed returns the numbers of the processors that this process may run on.
func Allowed() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the list of CPUs: %w", err)
	}
	var cpus []int
	for cpu := range mostCPUs {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
