// SPDX-License-Identifier: Apache-2.0

package mapped

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	membarrierGlobal = 1 // MEMBARRIER_CMD_GLOBAL of include/uapi/linux/membarrier.h
	// gracePeriod is far longer than any run of a program.
	gracePeriod = 100 * time.Millisecond
)

// WaitForReaders returns when every run of an eBPF program that had begun has ended: a global
// memory barrier waits for an RCU grace period. On kernels without it, it waits a while.
func WaitForReaders() {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		time.Sleep(gracePeriod)
	}
}
