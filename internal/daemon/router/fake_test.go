// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"minne/internal/base/plan"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/model/revisions"
)

// bench is an engine on subsystems that only remember what they were told. A
// configuration is its host name here.
type bench struct {
	t      *testing.T
	dir    string
	clock  *fakeClock
	system map[string]string // what each subsystem is at; outlives the engine, as the system does the daemon
	calls  *[]string         // "kernel r1", in order
	fails  map[string]error  // step → how it fails, for as long as it stands here
	fault  func(point string) error
	block  chan struct{} // when set, the kernel step tells here that it began, and waits for an answer
	woken  int

	*Engine
}

func newBench(t *testing.T) *bench {
	b := &bench{
		t: t, dir: t.TempDir(),
		clock:  &fakeClock{wall: time.Unix(1e9, 0).UTC(), boot: "first boot", since: time.Hour},
		system: map[string]string{"kernel": "-", "routing": "-", "fast-path": "-", "forwarding": "off"},
		calls:  new([]string),
		fails:  make(map[string]error),
	}
	b.restart()
	return b
}

// restart replaces the engine by a new one on the same disk and system, not yet started.
func (b *bench) restart() {
	store, err := revisions.Open(b.dir, slog.New(slog.NewTextHandler(b.t.Output(), nil)))
	if err != nil {
		b.t.Fatal(err)
	}
	fault := func(point string) error {
		if b.fault == nil {
			return nil
		}
		return b.fault(point)
	}
	store.Fault = func(point string) error { return fault("store-" + point) }
	b.clock.forget()
	b.Engine = newEngine(&Engine{
		log:         slog.New(slog.NewTextHandler(b.t.Output(), nil)),
		store:       store,
		clock:       b.clock,
		subsystems:  []Subsystem{&fake{b, "kernel"}, &fake{b, "routing"}, &fake{b, "fast-path"}},
		forwarding:  b.forward,
		read:        readHostname,
		fingerprint: func(Input) map[string]string { return nil },
		fault:       fault,
		onDegraded:  func() { b.woken++ },
	})
}

func readHostname(source, text string, strict bool, _ policy.Reach) (Input, error) {
	if strings.HasPrefix(text, "unreadable") || strict && strings.HasPrefix(text, "wrong") {
		return Input{}, &config.Error{}
	}
	return Input{Config: &config.Config{System: config.System{Hostname: text}}}, nil
}

func (b *bench) forward(_ context.Context, on bool) error {
	state := map[bool]string{true: "on", false: "off"}[on]
	*b.calls = append(*b.calls, "forwarding "+state)
	if err := b.fails["forwarding"]; err != nil {
		return err
	}
	b.system["forwarding"] = state
	return nil
}

type fake struct {
	*bench
	name string
}

func (f *fake) String() string { return f.name }

func (f *fake) Render(in Input) (Desired, error) {
	if f.name == "routing" && strings.Contains(in.Config.System.Hostname, "unrenderable") {
		return nil, errors.New("no such secret")
	}
	return in.Config.System.Hostname, nil
}

func (f *fake) Plan(_ context.Context, d Desired) ([]plan.Change, error) {
	if f.system[f.name] == d {
		return nil, nil
	}
	return []plan.Change{{Subsystem: f.name, Action: plan.Modify, Object: "name", From: f.system[f.name], To: d.(string)}}, nil
}

func (f *fake) Apply(_ context.Context, d Desired) error {
	*f.calls = append(*f.calls, strings.TrimSpace(f.name+" "+d.(string)))
	if f.name == "kernel" && f.block != nil {
		f.block <- struct{}{}
		<-f.block
	}
	f.system[f.name] = "between"
	if err := f.fails[f.name+" "+d.(string)]; err != nil {
		return err
	}
	f.system[f.name] = d.(string)
	return nil
}

func (f *fake) Restore(ctx context.Context, d Desired) error { return f.Apply(ctx, d) }

// apply applies a configuration and wants it to work.
func (b *bench) apply(name string, confirm time.Duration) api.Result {
	b.t.Helper()
	r, err := b.Engine.Apply(b.t.Context(), "ana", api.Commit{Config: name, Source: "file", Confirm: confirm})
	if err != nil {
		b.t.Fatalf("apply %s: %v", name, err)
	}
	return r
}

// wantSystem compares what all subsystems are at.
func (b *bench) wantSystem(name string) {
	b.t.Helper()
	forwarding := "on"
	if name == "" {
		forwarding = "off"
	}
	want := map[string]string{"kernel": name, "routing": name, "fast-path": name, "forwarding": forwarding}
	if fmt.Sprint(b.system) != fmt.Sprint(want) {
		b.t.Errorf("system is at %v, want %v", b.system, want)
	}
}

// wantStates compares the states of all revisions, oldest first.
func (b *bench) wantStates(want ...revisions.State) {
	b.t.Helper()
	var got []revisions.State
	for _, r := range b.store.List() {
		got = append(got, r.State)
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("revisions are %v, want %v", got, want)
	}
}

// wantCalls compares the order of what was done since the last look.
func (b *bench) wantCalls(want ...string) {
	b.t.Helper()
	if !slices.Equal(*b.calls, want) {
		b.t.Errorf("done: %q, want %q", *b.calls, want)
	}
	*b.calls = nil
}

// wantKind wants an error of a kind whose message contains all the words.
func wantKind(t *testing.T, err error, kind api.Kind, words ...string) {
	t.Helper()
	if err == nil || api.KindOf(err) != kind {
		t.Fatalf("error %v, want one of kind %s", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q lacks %q", err, w)
		}
	}
}

// fakeClock stands still until it is moved.
type fakeClock struct {
	mu     sync.Mutex
	wall   time.Time
	boot   string
	since  time.Duration
	timers map[int]fakeTimer
	next   int
}

type fakeTimer struct {
	at time.Duration
	f  func()
}

func (c *fakeClock) now() time.Time           { return c.wall }
func (c *fakeClock) sinceBoot() time.Duration { return c.since }
func (c *fakeClock) bootID() string           { return c.boot }

func (c *fakeClock) at(sinceBoot time.Duration, f func()) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.next
	c.next++
	c.timers[id] = fakeTimer{sinceBoot, f}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, id)
	}, nil
}

// forget drops the timers of a daemon that is gone.
func (c *fakeClock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers = make(map[int]fakeTimer)
}

// advance moves time on and calls the timers that are due.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	c.since += d
	c.wall = c.wall.Add(d)
	var due []func()
	for id, timer := range c.timers {
		if timer.at <= c.since {
			due = append(due, timer.f)
			delete(c.timers, id)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

// reboot starts time anew.
func (c *fakeClock) reboot(id string) { c.boot, c.since = id, time.Minute }
