// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
	"minne/internal/model/rib"
)

// A Watcher tells a listener the forwarding state of the namespace and follows it.
//
// It joins the kernel's notifications first, then dumps everything between Begin
// and End, then works off what was notified meanwhile, and so on. A notification
// that the dump already knew is harmless: it ends in the same state. When the
// kernel had to drop notifications, everything is dumped again.
//
// What the kernel does without saying is found out after the events that cause
// it: a link that went down, up, or lost its carrier, and an IPv4 address that
// went, silently take routes and next-hop objects along, or mark their hops. The
// notification comes before the deed, so each look is preceded by a question
// that the kernel answers under the lock of the deed (barrier).
type Watcher struct {
	log        *slog.Logger
	listener   rib.Listener
	ready      chan struct{}
	resync     chan struct{}
	restorable chan struct{}
	probe      chan struct{} // read by whoever asks if the loop still turns
	received   atomic.Uint64 // notifications and routes that were looked at

	ask    *asker
	stream *stream
	ledger *ledger

	links    map[int]rib.Link
	rules    map[rib.Rule]bool
	nextHops map[uint32]rib.NextHopGroup

	batch   batch
	doubt   [2]bool // IPv4, IPv6: routes may differ from what was told
	delay   *time.Timer
	pending bool          // delay runs
	cost    time.Duration // of the last comparison
	decoded routeMessage
}

const (
	settleTime  = 50 * time.Millisecond  // links come in bursts; one comparison for all
	unquietTime = 500 * time.Millisecond // IPv6 dumps need a moment without changes
)

// NewWatcher returns a watcher that tells listener. Run starts it.
func NewWatcher(log *slog.Logger, listener rib.Listener) *Watcher {
	return &Watcher{
		log: log, listener: listener, ready: make(chan struct{}),
		resync: make(chan struct{}, 1), restorable: make(chan struct{}, 1), probe: make(chan struct{}),
	}
}

// String names the task.
func (w *Watcher) String() string { return "kernel watcher" }

// Ready is closed after the first End.
func (w *Watcher) Ready() <-chan struct{} { return w.ready }

// Resync makes the watcher tell everything again, between Begin and End.
func (w *Watcher) Resync() { token(w.resync) }

// Restorable receives a token after a change that something else may have made to what the kernel
// package keeps: links, addresses, static and connected routes, forwarding. Call Kernel.Reassert then.
func (w *Watcher) Restorable() <-chan struct{} { return w.restorable }

// Alive returns once the watcher's loop has turned, or taken a notification: it neither waits for ever nor
// has ended. Before the first account of the kernel's state is told, there is nothing to follow yet.
func (w *Watcher) Alive(ctx context.Context) error {
	before := w.received.Load()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.probe:
			return nil
		case <-tick.C:
			if w.received.Load() != before {
				return nil
			}
		case <-ctx.Done():
			select {
			case <-w.ready:
				return fmt.Errorf("%v does not read: %w", w, ctx.Err())
			default:
				return nil
			}
		}
	}
}

// token puts one token into c unless it has one.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run tells the state until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := w.open(); err != nil {
		return fmt.Errorf("kernel watcher: %w", err)
	}
	defer w.ask.Close()
	done := make(chan struct{})
	go func() { defer close(done); w.stream.run(ctx) }()
	defer func() { cancel(); <-done }()
	err := w.follow(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("kernel watcher: %w", err)
}

func (w *Watcher) open() (err error) {
	if w.stream, err = newStream(); err != nil {
		return err
	}
	if w.ask, err = newAsker(); err != nil {
		w.stream.close()
		return err
	}
	w.delay = time.NewTimer(time.Hour)
	w.delay.Stop()
	return nil
}

// follow dumps once and then works whenever there is something to do.
func (w *Watcher) follow(ctx context.Context) error {
	defer w.delay.Stop()
	if err := w.notifyAll(ctx); err != nil {
		return err
	}
	close(w.ready)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.resync:
			if err := w.notifyAll(ctx); err != nil {
				return err
			}
		case <-w.stream.wake:
		case w.probe <- struct{}{}:
			continue
		case <-w.delay.C:
			w.pending = false
			if err := w.compareRoutes(ctx); err != nil {
				return err
			}
		}
		if err := w.work(ctx); err != nil {
			return err
		}
	}
}

// work tells the backlog.
func (w *Watcher) work(ctx context.Context) error {
	for {
		backlog, lost, err := w.stream.take()
		if err != nil {
			return err
		}
		if lost {
			w.log.Warn("the kernel dropped notifications; reading its whole state again")
			if err := w.notifyAll(ctx); err != nil {
				return err
			}
			continue
		}
		if len(backlog) == 0 {
			return nil
		}
		for i, chunk := range backlog {
			if err := w.notifyChunk(ctx, chunk); err != nil {
				return err
			}
			backlog[i] = nil
		}
		w.flush()
	}
}

// notifyChunk passes notifications on in their order; those of one kind that follow each other together.
func (w *Watcher) notifyChunk(ctx context.Context, b []byte) error {
	for len(b) > 0 {
		m, rest, err := nlmsg.Next(b)
		if err != nil {
			return err
		}
		b = rest
		if err := w.notify(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// notify takes one notification.
func (w *Watcher) notify(ctx context.Context, m nlmsg.Message) error {
	w.received.Add(1)
	switch m.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		w.batch.flushExcept(w, kindRoute)
		return w.notifyRoute(m)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		if n, ok := decodeNeighbour(m); ok {
			w.batch.flushExcept(w, kindNeighbour)
			w.batch.neighbours = append(w.batch.neighbours, n)
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if a, ok := decodeAddress(m); ok {
			w.batch.flushExcept(w, kindAddress)
			w.batch.addresses = append(w.batch.addresses, a)
			token(w.restorable)
			if a.Deleted && a.Address.Addr().Is4() {
				// Routes with it as preferred source go; kernels before 6.18 don't say so.
				w.doubtRoutes(true, false, settleTime)
			}
		}
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if l, ok := decodeLink(m); ok {
			return w.notifyLink(ctx, l)
		}
		if len(m.Body) > 0 && m.Body[0] == familyBridge {
			token(w.restorable) // a port came, went, or got other VLANs
		}
	case unix.RTM_NEWQDISC, unix.RTM_DELQDISC, unix.RTM_NEWTCLASS, unix.RTM_DELTCLASS, unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER:
		token(w.restorable) // of a shaped line, maybe
	case unix.RTM_NEWNETCONF:
		token(w.restorable) // forwarding was switched, of the namespace or of a link
	case rtmNewNextHop, rtmDelNextHop:
		if g, ok := decodeNextHop(m); ok {
			w.flush()
			w.notifyNextHops([]rib.NextHopGroup{g})
		}
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		token(w.restorable)
		w.flush()
		return w.compareRules(ctx)
	}
	return nil
}

func (w *Watcher) notifyRoute(m nlmsg.Message) error {
	r := &w.decoded
	if err := r.decode(m.Body); err != nil {
		return err
	}
	if r.Cloned || r.Family != unix.AF_INET && r.Family != unix.AF_INET6 {
		return nil
	}
	if r.Table == rib.TableMain && (r.Protocol == protocolStatic || m.Type == unix.RTM_DELROUTE && r.Protocol == unix.RTPROT_KERNEL) {
		token(w.restorable)
	}
	if !w.ledger.change(r, m.Type == unix.RTM_DELROUTE, m.Flags) {
		w.doubtRoutes(r.Family == unix.AF_INET, r.Family == unix.AF_INET6, settleTime)
	}
	return nil
}

// notifyLink passes a link on and looks after what its change did silently.
func (w *Watcher) notifyLink(ctx context.Context, l rib.Link) error {
	before, known := w.links[l.Index]
	if l.Deleted {
		delete(w.links, l.Index)
	} else {
		w.links[l.Index] = l
	}
	w.batch.flushExcept(w, kindLink)
	w.batch.links = append(w.batch.links, l)
	if !known || l.Deleted || before.Name != l.Name || before.Up != l.Up || before.Running != l.Running || before.MTU != l.MTU || before.Master != l.Master || before.Settings != l.Settings {
		token(w.restorable)
	}
	changed := l.Deleted || known && (before.Up != l.Up || before.Running != l.Running)
	if !changed {
		return nil
	}
	w.flush()
	w.doubtRoutes(true, true, settleTime)
	return w.compareNextHops(ctx)
}

// doubtRoutes schedules a comparison. One that takes long makes the next wait: at most a fifth of a core.
func (w *Watcher) doubtRoutes(v4, v6 bool, after time.Duration) {
	w.doubt[0], w.doubt[1] = w.doubt[0] || v4, w.doubt[1] || v6
	if !w.pending {
		w.pending = true
		w.delay.Reset(max(after, 4*w.cost))
	}
}

// The kinds of batch.
type kind int

const (
	kindNone kind = iota
	kindRoute
	kindNeighbour
	kindAddress
	kindLink
)

// batch collects notifications of one kind; the routes' is the ledger's.
type batch struct {
	neighbours []rib.Neighbour
	addresses  []rib.LinkAddress
	links      []rib.Link
}

// flush tells what was collected.
func (w *Watcher) flush() { w.batch.flushExcept(w, kindNone) }

// flushExcept tells what was collected of other kinds than the one that comes next.
func (b *batch) flushExcept(w *Watcher, next kind) {
	if next != kindRoute {
		w.ledger.flush()
	}
	if next != kindNeighbour && len(b.neighbours) > 0 {
		w.listener.Neighbours(b.neighbours)
		b.neighbours = nil
	}
	if next != kindAddress && len(b.addresses) > 0 {
		w.listener.Addresses(b.addresses)
		b.addresses = nil
	}
	if next != kindLink && len(b.links) > 0 {
		w.listener.Links(b.links)
		b.links = nil
	}
}
