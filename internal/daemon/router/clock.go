// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/boottime"
)

// clock is the time that deadlines are kept in: since boot, counting suspend, so
// that neither a jump of the wall clock nor a closed lid moves a deadline. The
// boot's id tells whether a stored deadline can still be compared.
type clock interface {
	now() time.Time
	sinceBoot() time.Duration
	bootID() string
	// at calls f once that time since boot is reached, unless stop is called before.
	at(sinceBoot time.Duration, f func()) (stop func(), err error)
}

// kernelClock is CLOCK_BOOTTIME.
type kernelClock struct{ boot string }

func newKernelClock() (kernelClock, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return kernelClock{}, fmt.Errorf("id of this boot: %w", err)
	}
	return kernelClock{boot: strings.TrimSpace(string(id))}, nil
}

func (kernelClock) now() time.Time   { return time.Now() }
func (c kernelClock) bootID() string { return c.boot }

func (kernelClock) sinceBoot() time.Duration { return boottime.Now() }

// at waits on a timerfd: the runtime's own timers stand still during suspend.
func (kernelClock) at(sinceBoot time.Duration, f func()) (func(), error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	// A zero value would disarm the timer.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(sinceBoot), 1))}
	if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("timer: %w", err)
	}
	timer := os.NewFile(uintptr(fd), "deadline")
	go func() {
		defer timer.Close()
		var expirations [8]byte
		if _, err := timer.Read(expirations[:]); err == nil {
			f()
		}
	}()
	return func() { timer.Close() }, nil // a read that waits ends with an error
}
