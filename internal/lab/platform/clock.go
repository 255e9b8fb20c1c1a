// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cycles counts the cycles of the CPU and the time that the calling thread and its children run.
type cycles struct{ clock, time int }

// openCycles begins to count. Children count from their start on; the caller stays on its thread.
func openCycles() (*cycles, error) {
	open := func(kind uint32, config uint64) (int, error) {
		a := unix.PerfEventAttr{Type: kind, Config: config, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitInherit | unix.PerfBitExcludeHv}
		return unix.PerfEventOpen(&a, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	}
	clock, err := open(unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES)
	if err != nil {
		return nil, cyclesMissing(err)
	}
	time, err := open(unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK)
	if err != nil {
		unix.Close(clock)
		return nil, cyclesMissing(err)
	}
	return &cycles{clock, time}, nil
}

func cyclesMissing(err error) error {
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV):
		return errors.New("not measurable here: this CPU, or its hypervisor, shows no cycle counter")
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return errors.New("not measurable here: the kernel lets only root count cycles (kernel.perf_event_paranoid)")
	case errors.Is(err, unix.ENOSYS):
		return errors.New("not measurable here: this kernel has no performance events")
	}
	return fmt.Errorf("not measurable here: perf_event_open: %w", err)
}

// gigahertz stops counting and returns cycles per ns.
func (c *cycles) gigahertz() (float64, error) {
	defer unix.Close(c.clock)
	defer unix.Close(c.time)
	var n [2]uint64
	for i, fd := range []int{c.clock, c.time} {
		var b [8]byte
		if _, err := unix.Read(fd, b[:]); err != nil {
			return 0, fmt.Errorf("not measurable here: read a counter: %w", err)
		}
		n[i] = binary.NativeEndian.Uint64(b[:])
	}
	if n[0] == 0 || n[1] == 0 {
		return 0, errors.New("not measurable here: the cycle counter does not advance")
	}
	return float64(n[0]) / float64(n[1]), nil
}
