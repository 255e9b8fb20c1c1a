// SPDX-License-Identifier: Apache-2.0

package thread

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Stay keeps the calling goroutine on one thread, and that on a processor when one is given (not negative). The caller
// calls what it returns.
func Stay(cpu int) (release func(), err error) {
	runtime.LockOSThread()
	if cpu < 0 {
		return runtime.UnlockOSThread, nil
	}
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("ask for this thread's CPUs: %w", err)
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("stay on CPU %d: %w: expected one that this machine has and this process may use", cpu, err)
	}
	return func() {
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread() // else the thread ends with the goroutine
		}
	}, nil
}
