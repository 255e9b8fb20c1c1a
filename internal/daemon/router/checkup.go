// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/appliance/boot"
	"minne/internal/base/health"
	"minne/internal/base/medium"
	"minne/internal/base/tick"
	"minne/internal/subsystem/kernel"
)

// checkup looks at what tells nobody when it goes wrong, and writes it into the book of health: when
// somebody asks for the status, and beside that once in checkupEvery, so that the log has it too.
type checkup struct {
	log  *slog.Logger
	book *health.Book
	asks []ask
	trim func() // bounds what programs print

	mu    sync.Mutex
	found map[string]bool // keys of the faults in the book that are ours

	rest int // ticks until the next look
}

// ask says what is wrong with one thing, by key; nothing when it is well.
type ask func(context.Context) map[string]string

// checkupEvery is how often the log hears of it: a look costs a few system calls and, with a time
// server, one run of chronyc.
const checkupEvery = 30 * time.Second

// checkupLimit bounds one look.
const checkupLimit = 5 * time.Second

func newCheckup(p parts) *checkup {
	c := &checkup{log: p.log, book: p.health, trim: p.services.trim, found: map[string]bool{}, rest: int(checkupEvery / tick.Every)}
	c.asks = []ask{
		func(context.Context) map[string]string { return p.fastpath.Trouble() },
		func(context.Context) map[string]string { return roomTrouble(p.inst.StateDir) },
		p.connections.trouble,
		p.services.trouble,
		(&gauges{kernel: p.kernel, machine: p.inst.OwnsHost()}).trouble,
		func(context.Context) map[string]string { return slotTrouble() },
		func(ctx context.Context) map[string]string { return routeTrouble(ctx, p.kernel) },
	}
	return c
}

// look is called at every tick.
func (c *checkup) look(ctx context.Context) {
	if c.rest--; c.rest > 0 {
		return
	}
	c.rest = int(checkupEvery / tick.Every)
	go func() { // the tick is others' too
		c.trim()
		c.examine(ctx)
	}()
}

// examine looks at everything now.
func (c *checkup) examine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkupLimit)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := map[string]bool{}
	for _, ask := range c.asks {
		for key, text := range ask(ctx) {
			now[key] = true
			c.book.Fault(key, text)
		}
	}
	for key := range c.found {
		if !now[key] {
			c.book.Clear(key)
		}
	}
	c.found = now
}

// routeTrouble says which static routes somebody's own routes take the packets from.
func routeTrouble(ctx context.Context, k *kernel.Kernel) map[string]string {
	text, err := k.Overruled(ctx)
	if err != nil {
		text = err.Error()
	}
	if text == "" {
		return nil
	}
	return map[string]string{"static routes": text}
}

// leastRoom is how much must be free where revisions are kept: a few of the biggest configurations.
const leastRoom = 16 << 20

// roomTrouble says whether the state directory can take another commit. On the image the medium is
// mounted read-only but while something is written.
func roomTrouble(dir string) map[string]string {
	trouble := func(format string, args ...any) map[string]string {
		return map[string]string{"state directory": dir + ": " + fmt.Sprintf(format, args...)}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return trouble("%v; no configuration can be committed", err)
	}
	if st.Flags&unix.ST_RDONLY != 0 && !medium.On(dir) {
		return trouble("the file system is read-only; no configuration can be committed")
	}
	free, all := uint64(st.Bavail)*uint64(st.Bsize), uint64(st.Blocks)*uint64(st.Bsize)
	if free < min(leastRoom, all/20) {
		return trouble("the file system is full (%d kB of %d MB are free); commits will fail", free>>10, all>>20)
	}
	if st.Files > 0 && st.Ffree == 0 {
		return trouble("the file system has no free inodes; commits will fail")
	}
	return nil
}

// slotTrouble tells of a system of the image that did not get well.
func slotTrouble() map[string]string {
	r, err := boot.ReadReport()
	if err != nil || r.Failed == "" {
		return nil
	}
	return map[string]string{"slot " + r.Failed: boot.NeverWell(r.Failed)}
}
