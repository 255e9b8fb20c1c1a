// SPDX-License-Identifier: Apache-2.0

// Package boottime is the clock that counts from the start of the kernel, also through suspend. It does not jump
// when the wall clock is set, as that of a router without a battery is when it hears the time.
package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time since boot: CLOCK_BOOTTIME of clock_gettime(2), the first number of /proc/uptime.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("CLOCK_BOOTTIME: " + err.Error()) // exists since Linux 2.6.39
	}
	return time.Duration(t.Nano())
}
