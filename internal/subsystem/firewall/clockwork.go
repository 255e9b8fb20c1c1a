// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clockwork is the time that live elements are kept in: since boot, which nobody sets, and the
// wall's, which goes on while the router is off.
type clockwork interface {
	sinceBoot() time.Duration
	wall() time.Time
	bootID() string
	synchronised() bool // the wall's clock follows a better one
	offset() time.Duration
	wallAt(sinceBoot time.Duration) time.Time
}

// kernelClocks are those of the machine.
type kernelClocks struct{ boot string }

func newKernelClocks() kernelClocks {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it all times are the wall's
	return kernelClocks{strings.TrimSpace(string(id))}
}

func (kernelClocks) sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("CLOCK_BOOTTIME: " + err.Error()) // exists since Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}

func (kernelClocks) wall() time.Time  { return time.Now().Round(0) } // without Go's own monotonic clock
func (c kernelClocks) bootID() string { return c.boot }

func (kernelClocks) synchronised() bool {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	return err == nil && state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}

func (c kernelClocks) offset() time.Duration {
	return time.Duration(c.wall().UnixNano()) - c.sinceBoot()
}

func (c kernelClocks) wallAt(sinceBoot time.Duration) time.Time {
	return time.Unix(0, int64(sinceBoot+c.offset()))
}

// FollowClock tells the firewall each time that the wall's clock is set, until ctx ends.
func (f *Firewall) FollowClock(ctx context.Context) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("follow the clock: %w", err)
	}
	// A time that never comes: the kernel calls a timer off when somebody sets the clock.
	never := unix.ItimerSpec{Value: unix.NsecToTimespec(1<<63 - 1)}
	arm := func() error {
		return unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &never, nil)
	}
	err = arm()
	timer := os.NewFile(uintptr(fd), "clock")
	defer timer.Close()
	defer context.AfterFunc(ctx, func() { _ = timer.Close() })()
	for err == nil {
		var expirations [8]byte
		if _, err = timer.Read(expirations[:]); errors.Is(err, unix.ECANCELED) {
			err = arm()
			f.ClockSet()
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("follow the clock: %w", err)
}

// ClockSet takes in that the wall's clock has been set: schedules are looked at again, and live
// elements keep the time that they have left.
func (f *Firewall) ClockSet() {
	f.mu.Lock()
	err := f.live.clockSet()
	f.wake()
	f.mu.Unlock()
	if err != nil {
		f.log.Error("cannot store the timeouts of live set elements; they are correct until a restart", "error", err)
	}
	f.expire()
	f.clockStrikes()
}
