// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"minne/internal/subsystem/fastpath/flow"
)

// Connections that the program can't ask conntrack about, because the kernel's functions for it know TCP
// and UDP only: ICMP echo, GRE, ESP and whatever conntrack tells apart by addresses alone. The
// program names them (flow_asks of bpf/followed.h), conntrack is asked over netlink, and the flow is made by a small program
// over the same tables (bpf/flowenter.bpf.c). What is not confirmed every few seconds goes back to the kernel.

// confirmEvery is how often conntrack is asked again about the flows that were made so: a flow whose connection is gone is
// carried for no longer than that, and a little. A confirmation holds for at least three ticks of 2^31 ns.
const confirmEvery = 2 * time.Second

// mostFollowed bounds the flows that are made so: 16,384 questions in two seconds are a few hundredths of a CPU.
const mostFollowed = 1 << 14

// followedRing is room for what the program asks in a second, in bytes.
const followedRing = 1 << 16

// Conntrack is asked about connections, by one goroutine at a time.
type Conntrack interface {
	// Carriable returns the keys of both directions of the connection whose packets have a key, in either of them; ok
	// when it is established both ways and nothing but addresses and ids changes in its packets.
	Carriable(ctx context.Context, k flow.Key) (keys [2]flow.Key, ok bool, err error)
	Close()
}

// AskConntrack lets the fast path carry connections that its program can't ask conntrack about. open makes a Conntrack for each
// program that is loaded. It is called before the program is loaded; without it the kernel carries them.
func (f *FastPath) AskConntrack(open func() Conntrack) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conntrack = open
}

// followed makes and confirms flows. It lives as long as the program.
type followed struct {
	log       *slog.Logger
	reader    *ringbuf.Reader
	enter     *ebpf.Program
	table     *flow.Table
	conntrack Conntrack
	known     map[flow.Key]flow.Key // both keys of flows that were made, by the first
	failed    bool                  // conntrack could not be asked, and that is in the log
	ctx       context.Context
	cancel    context.CancelFunc
	done      chan struct{} // closed when run ends
}

// follow begins to make flows for a program.
func (p *program) follow(open func() Conntrack, log *slog.Logger) error {
	if open == nil || !p.shape.firewall.conntrack {
		return nil
	}
	reader, err := ringbuf.NewReader(p.objects.FlowAsks)
	if err != nil {
		return fmt.Errorf("opening the ring of connections to ask for: %w", err)
	}
	w := &followed{log: log, reader: reader, enter: p.enter, table: p.firewall.flows, conntrack: open(),
		known: map[flow.Key]flow.Key{}, done: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	p.followed = w
	go w.run()
	return nil
}

func (w *followed) run() {
	defer close(w.done)
	defer w.conntrack.Close()
	var record ringbuf.Record
	confirmed := time.Now()
	for {
		w.reader.SetDeadline(w.next(confirmed))
		err := w.reader.ReadInto(&record)
		switch {
		case err == nil:
			w.requested(record.RawSample)
		case errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, os.ErrClosed):
			return
		default:
			w.log.Error("the kernel forwards ICMP and protocols without ports from now on", "error", err)
			return
		}
		if time.Since(confirmed) >= confirmEvery {
			w.confirm()
			confirmed = time.Now()
		}
	}
}

// next is when flows are to be confirmed: never while there are none.
func (w *followed) next(confirmed time.Time) time.Time {
	if len(w.known) == 0 {
		return time.Time{}
	}
	return confirmed.Add(confirmEvery)
}

// requested makes a flow of the connection that the program names.
func (w *followed) requested(record []byte) {
	key, err := flow.KeyOf(record)
	if err != nil || len(w.known) >= mostFollowed {
		return
	}
	generation := w.table.Generation()
	keys, ok := w.ask(key)
	now := flow.Now()
	if !ok || w.known[keys[0]] == keys[1] && w.table.Confirm(keys[0], now) { // packets of both directions ask
		return
	}
	made := false
	err = w.table.Enter(generation, keys[0], now, func() error {
		outcome, err := w.enter.Run(&ebpf.RunOptions{Data: flow.NewFlow(keys, now)})
		made = err == nil && outcome == flow.Made
		return err
	})
	if err != nil {
		w.log.Error("cannot create a flow; the kernel forwards this connection", "error", err)
	}
	if made {
		w.known[keys[0]] = keys[1]
	}
}

func (w *followed) ask(key flow.Key) (keys [2]flow.Key, ok bool) {
	keys, ok, err := w.conntrack.Carriable(w.ctx, key)
	if err != nil && !w.failed && w.ctx.Err() == nil {
		w.log.Warn("cannot query conntrack; the kernel forwards ICMP and protocols without ports", "error", err)
	}
	w.failed = err != nil
	return keys, ok && err == nil
}

// confirm asks about all flows that were made here again, and ends those whose connections are gone or are others now.
func (w *followed) confirm() {
	for first, second := range w.known {
		keys, ok := w.ask(first)
		if w.ctx.Err() != nil {
			return
		}
		if ok = ok && keys == [2]flow.Key{first, second}; !ok {
			w.table.EndKey(first)
		}
		if !ok || !w.table.Confirm(first, flow.Now()) {
			delete(w.known, first)
		}
	}
}

// close ends it. Flows that it has made are the kernel's some seconds later.
func (w *followed) close() {
	if w == nil {
		return
	}
	w.cancel()
	_ = w.reader.Close() // can't fail: it was opened by us
	<-w.done
}
