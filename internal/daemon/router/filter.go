// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/health"
	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/nft"
)

// followFilter is the task that puts the tables of the packet filter back as soon as something
// else has changed them, and follows the clock that rules hang on.
type followFilter struct {
	log      *slog.Logger
	book     *health.Book
	firewall *firewall.Firewall
	kernel   *kernel.Kernel
	ready    chan struct{}
	woken    chan struct{}

	mu sync.Mutex
	by []string // who has touched the tables since the last look, the first and the last
}

// Somebody who changes the tables again and again is not answered for ever: the way is shut for a
// while, and for longer each time.
const (
	quarrel      = 10 * time.Second // in which
	patience     = 5                // so many repairs are a quarrel
	truceFirst   = 2 * time.Second
	truceLast    = time.Minute
	filterRetry  = time.Second // after a repair that failed, doubled up to truceLast
	filterHealth = "firewall"
)

func newFollowFilter(p parts) *followFilter {
	f := &followFilter{log: p.log, book: p.health, firewall: p.firewall, kernel: p.kernel,
		ready: make(chan struct{}), woken: make(chan struct{}, 1), by: []string{"an unknown process, before the daemon started"}}
	f.woken <- struct{}{}
	return f
}

func (f *followFilter) String() string         { return "filter" }
func (f *followFilter) Ready() <-chan struct{} { return f.ready }

// Run follows until ctx ends.
func (f *followFilter) Run(ctx context.Context) error {
	watch, err := nft.NewWatch()
	if errors.Is(err, unix.EPROTONOSUPPORT) { // a kernel without a packet filter has none to follow
		close(f.ready)
		<-ctx.Done()
		return nil
	}
	if err != nil {
		return err
	}
	close(f.ready)
	ended := make(chan error, 3)
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	running.Go(func() { ended <- watch.Run(ctx, f.notice) })
	running.Go(func() { ended <- f.firewall.FollowClock(ctx) })
	running.Go(func() { ended <- f.look(ctx) })
	return <-ended
}

// notice wakes look when a table of Minne's was touched.
func (f *followFilter) notice(t nft.Transaction) {
	touched, whole := t.Lost, t.Lost
	for _, table := range t.Tables {
		if nft.OwnTable(table.Family, table.Name) {
			touched, whole = true, whole || !table.Elements
		}
	}
	if !touched || !whole && ownThread(t.PID) { // elements that minne set puts in
		return
	}
	f.mu.Lock()
	f.by = append(f.by[:min(len(f.by), 1)], t.By())
	f.mu.Unlock()
	select {
	case f.woken <- struct{}{}:
	default: // it will look anyway
	}
}

// firstPIDs is the first PID namespace, in which the kernel counts: PROC_PID_INIT_INO of
// linux/proc_ns.h.
const firstPIDs = "pid:[4026531836]"

// ownThread says whether a thread is one of this process.
func ownThread(id uint32) bool {
	if space, err := os.Readlink("/proc/self/ns/pid"); err != nil || space != firstPIDs {
		return false // its number means somebody else here
	}
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", id))
	return err == nil
}

// look compares the tables each time that they were touched, and once at the beginning.
func (f *followFilter) look(ctx context.Context) error {
	var repairs []time.Time // the last ones
	truce, pause := truceFirst, filterRetry
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.woken:
		case <-again:
		}
		again = nil
		wait := func(d time.Duration) { again = time.After(d) }
		f.mu.Lock()
		by := strings.Join(f.by, ", then ")
		f.by = nil
		f.mu.Unlock()
		began := time.Now()
		words, err := f.firewall.Recheck(ctx)
		if !f.antiSpoof(ctx, by, began) {
			wait(pause)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			f.book.Fault(filterHealth, fmt.Sprintf("%s; it can't be put in place as it should be: %v", strings.Join(append(words, ""), "; "), err))
			wait(pause)
			pause = min(2*pause, truceLast)
			continue
		}
		pause = filterRetry
		f.book.Clear(filterHealth)
		if len(words) == 0 {
			if len(repairs) > 0 && time.Since(repairs[len(repairs)-1]) > truceLast {
				truce = truceFirst
			}
			continue
		}
		f.book.Repaired(filterHealth, fmt.Sprintf("%s, by %s; loaded again after %s", strings.Join(words, ", "), by, time.Since(began).Round(time.Millisecond)))
		repairs = append(repairs, time.Now())
		if len(repairs) < patience || time.Since(repairs[len(repairs)-patience]) > quarrel {
			continue
		}
		repairs = nil
		if err := f.truce(ctx, by, truce); err != nil {
			return nil
		}
		truce = min(2*truce, truceLast)
		wait(0)
	}
}

// antiSpoof puts the source address checks back, and says whether they are in place.
func (f *followFilter) antiSpoof(ctx context.Context, by string, began time.Time) bool {
	const key = "anti-spoof"
	changed, stood, err := f.kernel.ReassertAntiSpoof(ctx)
	if err != nil && ctx.Err() == nil {
		words := "the source address checks can't be put in place"
		if stood {
			words = "the source address checks were changed by something else and can't be put back"
		}
		f.book.Fault(key, words+": "+err.Error())
		return false
	}
	f.book.Clear(key)
	if changed && stood {
		f.book.Repaired(key, fmt.Sprintf("the source address checks were changed by %s; put back after %s", by, time.Since(began).Round(time.Millisecond)))
	}
	return true
}

// truce shuts the way for a while.
func (f *followFilter) truce(ctx context.Context, by string, length time.Duration) error {
	words := fmt.Sprintf("%s changes the rules again and again: nothing is forwarded for %s; stop it", by, length)
	f.book.Fault(filterHealth, words)
	if err := f.firewall.Shut(); err != nil {
		f.book.Fault(filterHealth, words+"; "+err.Error())
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}
