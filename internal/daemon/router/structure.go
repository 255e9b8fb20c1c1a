// SPDX-License-Identifier: Apache-2.0

package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"minne/internal/base/instance"
	"minne/internal/subsystem/fastpath/choice"
)

// measuring is the task that finds out which structure of the routing table is best on
// this machine when nobody has yet: with this kernel, by this release. It waits until the
// machine has nothing else to do, because caches that are full of a benchmark's tables, and a core that is
// not there, cost packets. It changes nothing: the fast path reads the answer when it next builds its tables.
type measuring struct {
	log   *slog.Logger
	store *choice.Store
	ready chan struct{}

	idle    func(context.Context) (bool, error) // looks for a while whether the machine is
	measure func(context.Context) error         // and store
	wait    time.Duration                       // before each look
}

// How long the machine is left alone after the start and after each look, and how long it is looked at.
const (
	measureWait = 2 * time.Minute
	measureLook = 10 * time.Second
	// idleShare is the part of all processors that must have nothing to do.
	idleShare = 0.8
)

func newMeasuring(log *slog.Logger, store *choice.Store) *measuring {
	m := &measuring{log: log, store: store, ready: make(chan struct{}), idle: idleMachine, measure: measureInChild, wait: measureWait}
	close(m.ready) // nobody waits for it
	return m
}

func (m *measuring) String() string         { return "structure" }
func (m *measuring) Ready() <-chan struct{} { return m.ready }

// Run measures once if need be. A failure is no reason to try again before the next start.
func (m *measuring) Run(ctx context.Context) error {
	if _, fresh, err := m.store.Read(); err == nil && fresh {
		return nil
	}
	for sleep(ctx, m.wait) {
		idle, err := m.idle(ctx)
		if err == nil && !idle {
			continue
		}
		if err == nil {
			err = m.measure(ctx)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			m.log.Warn("cannot measure the routing table's structures here; using the default", "task", m, "error", err)
		default:
			m.log.Info("measured the routing table's structures", "task", m, "result", m.store.Choose().Why)
		}
		return nil
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// measureInChild lets a process of its own measure: what that takes of memory is gone with it, and it has the lowest priority.
func measureInChild(ctx context.Context) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	c := exec.CommandContext(ctx, binary, "bench", "structure", "--store", "--instance", instance.Default)
	c.Stderr = &said
	c.WaitDelay = time.Second
	if err := c.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
	}
	return nil
}

// idleMachine looks whether the processors have hardly anything to do.
func idleMachine(ctx context.Context) (bool, error) {
	idle1, all1, err := processorTimes()
	if err != nil {
		return false, err
	}
	if !sleep(ctx, measureLook) {
		return false, ctx.Err()
	}
	idle2, all2, err := processorTimes()
	return idle2-idle1 >= idleShare*(all2-all1), err
}

// processorTimes reads how long all processors together have been idle, and how long they have been there, in ticks (proc_stat(5)).
func processorTimes() (idle, all float64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	var t [8]float64 // user, nice, system, idle, iowait, irq, softirq, steal
	if n, err := fmt.Sscanf(string(text), "cpu %g %g %g %g %g %g %g %g", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]); err != nil {
		return 0, 0, errors.Join(fmt.Errorf("/proc/stat begins with %d numbers: expected 8", n), err)
	}
	for _, ticks := range t {
		all += ticks
	}
	return t[3] + t[4], all, nil
}
