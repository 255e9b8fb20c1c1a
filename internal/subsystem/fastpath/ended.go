// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"minne/internal/subsystem/fastpath/flow"
)

// readEvery is how often flows that have ended are asked for when nobody wakes us: the program does
// when many are waiting, and whoever asks for flows does.
const readEvery = 5 * time.Second

// ListenToFlows makes flows that end known to a listener, with what they had counted. It is called before
// the program is loaded; without it, the program tells nothing.
func (f *FastPath) ListenToFlows(l flow.Listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listener = l
}

// ended hears of flows that a program ends. It lives as long as the program.
type ended struct {
	log      *slog.Logger
	reader   *ringbuf.Reader
	table    *flow.Table
	listener flow.Listener
	drained  chan struct{} // each drain gets one answer
	done     chan struct{} // closed when run ends
}

// listen begins to tell a listener of flows that end.
func (p *program) listen(l flow.Listener, log *slog.Logger) error {
	if !p.shape.tells || !p.shape.firewall.conntrack {
		return nil
	}
	reader, err := ringbuf.NewReader(p.objects.FlowEnded)
	if err != nil {
		return fmt.Errorf("opening the ring of flows that ended: %w", err)
	}
	p.firewall.flows.SetListener(l)
	p.ended = &ended{log: log, reader: reader, table: p.firewall.flows, listener: l,
		drained: make(chan struct{}, 1), done: make(chan struct{})}
	go p.ended.run()
	return nil
}

func (e *ended) run() {
	defer close(e.done)
	var record ringbuf.Record
	e.reader.SetDeadline(time.Now().Add(readEvery))
	for {
		switch err := e.reader.ReadInto(&record); {
		case err == nil:
			if one, ok := e.table.Ended(record.RawSample); ok {
				e.listener.FlowEnded(one)
			}
		case errors.Is(err, ringbuf.ErrFlushed):
			e.drained <- struct{}{}
		case errors.Is(err, os.ErrDeadlineExceeded):
			e.reader.SetDeadline(time.Now().Add(readEvery))
		case errors.Is(err, os.ErrClosed):
			return
		default:
			e.log.Error("the counters of ended flows are lost from now on", "error", err)
			return
		}
	}
}

// drain returns when the listener has been told of all flows that the program had ended before. One
// goroutine at a time.
func (e *ended) drain() {
	if e == nil || e.reader.Flush() != nil {
		return
	}
	select {
	case <-e.drained:
	case <-e.done:
	}
}

// close ends the telling. What the ring still holds is lost.
func (e *ended) close() {
	if e == nil {
		return
	}
	_ = e.reader.Close() // can't fail: it was opened by us
	<-e.done
}

// leaveFlows tells of all flows of a program that no packet meets any more.
func (p *program) leaveFlows() {
	p.ended.drain()
	p.firewall.flows.NotifyAll()
}
