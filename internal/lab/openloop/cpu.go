// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"os"
	"time"

	"minne/internal/base/machine"
)

// tick is the unit of /proc/stat (USER_HZ, proc_stat(5)).
const tick = time.Second / 100

// busyTime returns how long the machine's processors were not idle since it
// started, all together; 0 when the kernel doesn't tell.
func busyTime() time.Duration {
	t, err := machine.CPUTimes(os.DirFS("/"))
	if err != nil {
		return 0
	}
	return time.Duration(t.Busy) * tick
}
