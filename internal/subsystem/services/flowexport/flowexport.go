// SPDX-License-Identifier: Apache-2.0

// Package flowexport sends the records of the flow log to collectors: as IPFIX (RFC 7011) over UDP, TCP or TLS, with the replies in
// the same record (RFC 5103) and with translations (RFC 8158); or as NetFlow v9 (RFC 3954) over UDP, a record for each direction.
//
// Each collector has a queue. What does not fit into it is lost to that collector, and counted; neither the log nor another
// collector waits.
package flowexport

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"minne/internal/base/sink"
	"minne/internal/model/config"
	"minne/internal/model/flowrecord"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
)

// Service is the export of the flow log to the other parts.
var Service = service.Descriptor{
	Name:     "flow-export",
	Title:    "IPFIX",
	Openings: openings,
	New: func(h service.Host) service.Running {
		x := &Exporter{feed: h.Flows, collectors: map[string]*collector{}}
		x.Service = resident.New(resident.Kind[Settings]{Name: "flow-export", Title: "flow export", Fact: fact, Work: x.work}, h.Log)
		r := service.Of(x, Render)
		r.Task, r.Stop, r.States, r.Down = x, x.Stop, x.States, x.Down
		return r
	},
	Views: []service.View{service.NewView(service.View{Path: "flows collectors", Short: "Show what was sent to the collectors of the flow log"}, (*Exporter).Observe, table)},
}

// openings let the records out where zones would not.
func openings(cfg *config.Config) (list []policy.Opening) {
	if cfg.FlowLog == nil {
		return nil
	}
	for _, c := range cfg.FlowLog.Collectors {
		list = append(list, policy.Towards("flow export", string(c.Transport), c.At()))
	}
	return list
}

// Settings is one collector.
type Settings struct {
	sink.Server
	Protocol  string
	Templates time.Duration // how often templates are sent again over UDP
}

// LogValue keeps the key out of logs.
func (s Settings) LogValue() slog.Value { return slog.StringValue(fact("", s)) }

// Render is what a configuration asks for, by the collectors' names.
func Render(cfg *config.Config, secrets config.Secrets) (map[string]Settings, error) {
	all := map[string]Settings{}
	if cfg.FlowLog == nil {
		return all, nil
	}
	for name, c := range cfg.FlowLog.Collectors {
		one := Settings{sink.To(c.At(), string(c.Transport), c.Name), string(c.Protocol), c.Templates.Std()}
		if c.CA != "" {
			one.CA, _ = secrets.Get(c.CA) // that it exists has been checked
			if _, err := sink.Authorities(one.CA); err != nil {
				return nil, fmt.Errorf("flow-log.collectors.%s.ca: the secret %s %w", name, c.CA, err)
			}
		}
		if c.Certificate != "" {
			one.Certificate, _ = secrets.Get(c.Certificate)
			if _, err := sink.Own(one.Certificate); err != nil {
				return nil, fmt.Errorf("flow-log.collectors.%s.certificate: the secret %s %w", name, c.Certificate, err)
			}
		}
		all[name] = one
	}
	return all, nil
}

func fact(name string, s Settings) string {
	return fmt.Sprintf("flows to %s (%s, %s over %s)", name, s.At, s.Protocol, s.Transport)
}

const (
	// waiting is how many records wait for a collector: those of two seconds at 31,000 new flows/s.
	waiting = 1 << 16
	// burst is how many bytes go out over UDP at once, and rest the pause behind them: a collector's socket holds some 200 kB. At
	// the most 30 MB/s come of that, 250,000 records/s.
	burst = 30 << 10
	rest  = time.Millisecond

	// lastLimit is how long the end of the daemon waits for the last records to be written, and again for them to be sent.
	lastLimit = 3 * time.Second
)

// Exporter is the task.
type Exporter struct {
	*resident.Service[Settings]
	feed *flowrecord.Feed // nil in a preview

	mu         sync.Mutex
	collectors map[string]*collector
}

// collector is what is known of a collector, also when its settings change.
type collector struct {
	queue    *flowrecord.Queue
	sequence atomic.Uint32 // of the next message over UDP
	records  atomic.Uint64
	messages atomic.Uint64
	busy     atomic.Bool
	at       string
	words    string
}

func (x *Exporter) collector(name string, s Settings) *collector {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.collectors[name]
	if c == nil {
		c = &collector{queue: x.feed.Queue(waiting)}
		x.collectors[name] = c
	}
	if words := s.Protocol + "/" + s.Transport; c.at != s.At.String() || c.words != words {
		c.at, c.words = s.At.String(), words
		c.sequence.Store(0) // another collector, or another session
	}
	return c
}

// Apply sends to these collectors, and forgets the others with what waits for them.
func (x *Exporter) Apply(ctx context.Context, want map[string]Settings) error {
	err := x.Service.Apply(ctx, want)
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, c := range x.collectors {
		if _, stays := want[name]; !stays {
			c.queue.Close()
			delete(x.collectors, name)
		}
	}
	return err
}

// Run exports until ctx ends, and then what the log has written at its end.
func (x *Exporter) Run(ctx context.Context) error {
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go func() {
		defer end()
		<-ctx.Done()
		select {
		case <-x.feed.Ended():
		case <-time.After(lastLimit):
		}
		for until := time.Now().Add(lastLimit); time.Now().Before(until) && x.sending(); time.Sleep(10 * time.Millisecond) {
		}
	}()
	return x.Service.Run(late)
}

// sending says whether records wait for a collector.
func (x *Exporter) sending() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.collectors {
		if n, _ := c.queue.Figures(); n > 0 || c.busy.Load() {
			return true
		}
	}
	return false
}

// work sends to a collector until ctx ends or the collector does.
func (x *Exporter) work(ctx context.Context, name string, s Settings, up func()) error {
	if x.feed == nil {
		up()
		<-ctx.Done()
		return nil
	}
	c := x.collector(name, s)
	up() // a collector that does not answer is no reason to refuse a commit
	conn, err := s.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, end := s.WhileUp(ctx, conn)
	defer end()
	udp := s.Transport == "udp"
	gone := 0
	e := newEncoder(s.Protocol == "netflow9", func(message []byte) error {
		if err := conn.SetWriteDeadline(time.Now().Add(sink.WriteLimit)); err != nil {
			return err
		}
		if _, err := conn.Write(message); err != nil {
			return err
		}
		c.messages.Add(1)
		if gone += len(message); udp && gone >= burst {
			gone = 0
			time.Sleep(rest)
		}
		return nil
	})
	if udp {
		e.sequence = c.sequence.Load()
		defer func() { c.sequence.Store(e.sequence) }()
	}
	var told time.Time
	for {
		if told.IsZero() || udp && time.Since(told) >= s.Templates {
			if err := e.tellTemplates(); err != nil {
				return lasting(ctx, err)
			}
			told = time.Now()
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if udp {
			wait, cancel = context.WithTimeout(ctx, s.Templates-time.Since(told))
		}
		batch := c.queue.Next(wait)
		cancel()
		if ctx.Err() != nil {
			c.queue.PutBack(batch)
			return lasting(ctx, nil)
		}
		if err := c.export(e, batch); err != nil {
			return lasting(ctx, err)
		}
	}
}

// lasting is why sending ended.
func lasting(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// export sends records. Those whose message could not be sent go back into the queue.
func (c *collector) export(e *encoder, batch []flowrecord.Record) error {
	if len(batch) == 0 {
		return nil
	}
	c.busy.Store(true)
	defer c.busy.Store(false)
	sent, send := 0, e.send
	defer func() { e.send = send }()
	now := 0 // records in messages that are whole
	e.send = func(message []byte) error {
		err := send(message)
		if err == nil {
			sent = now
		}
		return err
	}
	var err error
	for i := range batch {
		now = i // a message that is sent while this one is added has those before
		if err = e.add(&batch[i]); err != nil {
			break
		}
	}
	if now = len(batch); err == nil {
		err = e.flush()
	}
	c.records.Add(uint64(sent))
	if err != nil {
		c.queue.PutBack(batch[sent:])
	}
	return err
}
