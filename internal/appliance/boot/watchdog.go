// SPDX-License-Identifier: Apache-2.0

package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	watchdogDevice = "/dev/watchdog"
	// watchdogTimeout is how long a machine may be dead before it is reset. Devices
	// that can't wait that long take what they can.
	watchdogTimeout = 60 // s
	// trialTimeout is how long a system that is tried may take until its daemon works.
	trialTimeout = 180 // s
)

const nonblock = unix.O_NONBLOCK | unix.O_NOCTTY

// Watchdog is the task that feeds the machine's watchdog as long as the router
// answers. When its process dies, init starts another that goes on; when none comes
// up in time, or the router hangs, the machine is reset. A daemon that never worked
// since the boot leaves the watchdog asleep, since people may be at work on the
// console; a system that is tried has it armed from the start (see armTrial).
type Watchdog struct {
	answers func() // returns when the router is alive
	log     *slog.Logger
	ready   chan struct{}
}

// NewWatchdog returns the watchdog of a router that is alive when answers returns.
func NewWatchdog(log *slog.Logger, answers func()) *Watchdog {
	return &Watchdog{answers: answers, log: log, ready: make(chan struct{})}
}

func (w *Watchdog) String() string         { return "watchdog" }
func (w *Watchdog) Ready() <-chan struct{} { return w.ready }

// Run feeds the watchdog until ctx ends. It is left armed: whoever stops the daemon
// wants it to start again, or the machine to go down, and neither may hang.
func (w *Watchdog) Run(ctx context.Context) error {
	f, timeout, err := openWatchdog(watchdogTimeout)
	close(w.ready)
	if errors.Is(err, fs.ErrNotExist) {
		w.log.Info("this machine has no hardware watchdog")
		return nil
	}
	if err != nil {
		w.log.Warn("cannot use the hardware watchdog", "error", err)
		return nil
	}
	defer f.Close() // without the letter V, which would disarm it
	tick := time.NewTicker(timeout / 4)
	defer tick.Stop()
	for {
		w.answers()
		if _, err := f.Write([]byte{0}); err != nil {
			w.log.Warn("cannot keep the hardware watchdog alive; it may reset the machine", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// openWatchdog arms the machine's watchdog for that many seconds, or as many as it can wait.
func openWatchdog(seconds int) (*os.File, time.Duration, error) {
	f, err := os.OpenFile(watchdogDevice, os.O_WRONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	fd := int(f.Fd())
	_ = unix.IoctlSetPointerInt(fd, unix.WDIOC_SETTIMEOUT, seconds) // what it took is asked next
	timeout, err := unix.IoctlGetInt(fd, unix.WDIOC_GETTIMEOUT)
	if err != nil || timeout < 2 {
		timeout = 10
	}
	return f, time.Duration(timeout) * time.Second, nil
}

// armTrial arms the watchdog for a system that is tried: if its daemon does not come
// up, the machine is reset, and GRUB boots the good slot.
func armTrial(context.Context, *Report) error {
	f, _, err := openWatchdog(trialTimeout)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("no hardware watchdog: if this system hangs, restart the machine by hand")
	}
	if err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	return f.Close() // it stays armed
}
