// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"minne/internal/base/health"
	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/model/flowrecord"
	"minne/internal/subsystem/flowlog"
	"minne/internal/subsystem/flows"
)

// flowLog is the records of connections: flows makes them, flowlog keeps them.
type flowLog struct {
	dir      string
	recorder *flows.Recorder
	feed     *flowrecord.Feed // to who else listens
	faults   *health.Book
	log      *slog.Logger

	mu     sync.Mutex
	now    loggedFlows
	store  *flowlog.Store // nil without a log
	tidied time.Time

	queue chan []flowrecord.Record // to the store: nil without a log
	kept  chan struct{}            // closed when the queue is empty and the store closed
	lost  uint64                   // records that the store could not take; under mu
}

// loggedFlows is what the configuration says; nil for no log.
type loggedFlows struct{ *config.FlowLog }

const (
	// waiting is how many batches wait for the disk. More is lost, and counted: a disk never holds up the router.
	waiting = 16
	// tidyEvery is how often records that are too old are looked for.
	tidyEvery = 10 * time.Minute
)

func newFlowLog(dir string, feed *flowrecord.Feed, r *flows.Recorder, faults *health.Book, log *slog.Logger) *flowLog {
	return &flowLog{dir: dir, feed: feed, recorder: r, faults: faults, log: log}
}

func renderFlowLog(cfg *config.Config) loggedFlows { return loggedFlows{cfg.FlowLog} }

func (l loggedFlows) words() string {
	if l.FlowLog == nil {
		return "off"
	}
	words := fmt.Sprintf("%d MB, %d days, every %s", l.Size, l.Days, l.Interval)
	if !l.Unanswered.On() {
		words += ", answered connections only"
	}
	return words
}

func (l loggedFlows) limits() flowlog.Limits {
	return flowlog.Limits{Bytes: int64(l.Size) * 1e6, Age: time.Duration(l.Days) * 24 * time.Hour}
}

// Plan says what a commit changes.
func (f *flowLog) Plan(_ context.Context, want loggedFlows) ([]plan.Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := plan.Change{Subsystem: "flow-log", Action: plan.Modify, Object: "flow log", From: f.now.words(), To: want.words()}
	if c.From == c.To {
		return nil, nil
	}
	return []plan.Change{c}, nil
}

// Apply makes connections be recorded as the configuration says.
func (f *flowLog) Apply(ctx context.Context, want loggedFlows) error {
	f.mu.Lock()
	same := f.now.words() == want.words()
	f.mu.Unlock()
	if same {
		return nil
	}
	if err := f.recorder.Record(ctx, nil); err != nil {
		return err
	}
	f.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = want
	if want.FlowLog == nil {
		return nil
	}
	store, err := flowlog.Open(f.dir, want.limits())
	if err != nil {
		f.now = loggedFlows{}
		return err
	}
	f.store, f.queue, f.kept = store, make(chan []flowrecord.Record, waiting), make(chan struct{})
	go f.keep(store, f.queue, f.kept)
	interval := want.Interval.Std()
	return f.recorder.Record(ctx, &flows.Recording{Interval: interval, Answered: !want.Unanswered.On(), Write: f.write,
		Lasting: func(visit func(*flowrecord.Record)) error { return store.Lasting(max(2*interval, time.Hour), visit) }})
}

// write takes records, and waits for nothing.
func (f *flowLog) write(records []flowrecord.Record) {
	f.feed.Tell(records)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue == nil {
		return
	}
	select {
	case f.queue <- records:
	default:
		f.lost += uint64(len(records))
	}
}

// keep stores records until the queue ends.
func (f *flowLog) keep(store *flowlog.Store, queue <-chan []flowrecord.Record, kept chan<- struct{}) {
	defer close(kept)
	for records := range queue {
		err := store.Append(records)
		if err != nil {
			f.mu.Lock()
			f.lost += uint64(len(records))
			f.mu.Unlock()
			f.faults.Fault("flow-log", "connections cannot be logged: "+err.Error())
			continue
		}
		f.faults.Clear("flow-log")
	}
	if err := store.Close(); err != nil {
		f.log.Warn("closing the flow log", "error", err)
	}
}

// close ends the log when all records are in it.
func (f *flowLog) close() {
	f.mu.Lock()
	queue, kept := f.queue, f.kept
	f.queue, f.store = nil, nil
	f.mu.Unlock()
	if queue != nil {
		close(queue)
		<-kept
	}
	f.faults.Clear("flow-log")
}

// String names the task.
func (f *flowLog) String() string { return f.recorder.String() }

// Ready is the recorder's.
func (f *flowLog) Ready() <-chan struct{} { return f.recorder.Ready() }

// Run records until ctx ends, and then until all records are in the log.
func (f *flowLog) Run(ctx context.Context) error {
	err := f.recorder.Run(ctx)
	f.feed.End()
	f.close()
	return err
}

// tidy removes what is too old.
func (f *flowLog) tidy(context.Context) {
	f.mu.Lock()
	store, late := f.store, time.Since(f.tidied) > tidyEvery
	if late {
		f.tidied = time.Now()
	}
	f.mu.Unlock()
	if store != nil && late {
		store.Trim()
	}
}

var errNoFlowLog = errors.New("the flow log is not running: the configuration has no section flow-log")

// opened is the log, if there is one.
func (f *flowLog) opened() (*flowlog.Store, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.store == nil {
		return nil, errNoFlowLog
	}
	return f.store, nil
}
