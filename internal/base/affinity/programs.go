// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// helperTime is how long a program must have run to be looked at: those that the kernel starts to load a module or a
// firmware end at once, and do not have the CPUs of the program that needed them.
const helperTime = 5 * time.Second

// clockTick is the unit of times in /proc/PID/stat: USER_HZ, which is 100 on all architectures of Linux that Minne runs on.
const clockTick = 10 * time.Millisecond

// Programs returns the threads of the programs in this process's network namespace that may run on just these
// processors. Threads of the kernel are not among them.
func Programs(cpus []int) (threads []int, err error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return nil, err
	}
	dirs, err := filepath.Glob("/proc/[1-9]*")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		net, err := os.Readlink(filepath.Join(dir, "ns/net"))
		if err != nil || net != own {
			continue // or it has ended
		}
		if _, err := os.Readlink(filepath.Join(dir, "exe")); err != nil || time.Duration(up.Nano())-started(dir) < helperTime {
			continue // a thread of the kernel has no program
		}
		tasks, _ := filepath.Glob(dir + "/task/[1-9]*")
		for _, task := range tasks {
			id, err := strconv.Atoi(filepath.Base(task))
			if err != nil {
				continue
			}
			if now, err := Of(id); err == nil && slices.Equal(now, cpus) {
				threads = append(threads, id)
			}
		}
	}
	return threads, nil
}

// started is when a process began, since the machine's start.
func started(dir string) time.Duration {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0
	}
	_, behind, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ") // the name may have spaces
	words := strings.Fields(behind)
	const starttime = 22 - 3 // field 22 of proc(5); the state, field 3, is the first behind the name
	if len(words) <= starttime {
		return 0
	}
	ticks, _ := strconv.ParseInt(words[starttime], 10, 64)
	return time.Duration(ticks) * clockTick
}

// Of returns the processors that a thread may run on.
func Of(thread int) (cpus []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &set); err != nil {
		return nil, err
	}
	for c := range len(set) * strconv.IntSize {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus, nil
}

// Tie has a thread, and what it starts, run on these processors. One that has ended is no error.
func Tie(thread int, cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	err := unix.SchedSetaffinity(thread, &set)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return os.NewSyscallError("sched_setaffinity", err)
}
