// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ledger is what workers did.
type ledger struct {
	mu   sync.Mutex
	list []string
	fail map[string]error
}

func (l *ledger) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, fmt.Sprintf(format, args...))
}

// taken is what was done since it was asked last.
func (l *ledger) taken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.list, ", ")
	l.list = nil
	return text
}

func (l *ledger) work(ctx context.Context, name string, s int, up func()) error {
	l.mu.Lock()
	err := l.fail[name]
	l.mu.Unlock()
	if err != nil {
		return err
	}
	l.add("%s %d", name, s)
	up()
	<-ctx.Done()
	l.add("%s %d %v", name, s, context.Cause(ctx))
	return nil
}

// Workers begin, go on, change and end as the configuration says; what fails is told, and tried again.
func TestWorkers(t *testing.T) {
	l := &ledger{fail: map[string]error{}}
	s := New(Kind[int]{Name: "test", Title: "test", Fact: func(name string, s int) string { return name }, Work: l.work}, slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- s.Run(ctx) }()
	apply := func(want map[string]int, plan, done string) {
		t.Helper()
		changes, err := s.Plan(ctx, want)
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, c := range changes {
			words = append(words, c.String())
		}
		if got := strings.Join(words, ", "); got != plan {
			t.Errorf("planned %q, want %q", got, plan)
		}
		if err := s.Apply(ctx, want); err != nil {
			t.Fatal(err)
		}
		if got := l.taken(); got != done {
			t.Errorf("done %q, want %q", got, done)
		}
	}
	apply(map[string]int{"a": 1}, "+ test on a (a)", "a 1")
	apply(map[string]int{"a": 1}, "", "")
	apply(map[string]int{"a": 2}, "~ test on a (a)", "a 1 ended, a 2")
	apply(map[string]int{"a": 2, "b": 1}, "+ test on b (b)", "b 1")
	apply(map[string]int{"b": 1}, "- test on a", "a 2 removed from the configuration")
	if err := s.Returned(ctx, "b"); err != nil {
		t.Error(err)
	}
	for deadline, got := time.Now().Add(time.Minute), ""; got != "b 1 ended, b 1"; time.Sleep(time.Millisecond) {
		if more := l.taken(); more != "" {
			got = strings.TrimPrefix(got+", "+more, ", ")
		}
		if time.Now().After(deadline) {
			t.Fatalf("on an interface that came back: %s", got)
		}
	}

	l.fail["c"] = fmt.Errorf("%w (gone)", unix.ENODEV)
	apply(map[string]int{"b": 1, "c": 1}, "+ test on c (c)", "")
	if down := s.Down(); len(down) != 1 || !strings.Contains(down[0], "test on c: no such device") {
		t.Errorf("down: %q", down)
	}
	l.mu.Lock()
	delete(l.fail, "c")
	l.mu.Unlock()
	for deadline := time.Now().Add(time.Minute); len(s.Down()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the interface is not served though it came")
		}
	}
	l.taken()
	l.fail["d"] = errors.New("port in use")
	if err := s.Apply(ctx, map[string]int{"b": 1, "d": 1}); err == nil || err.Error() != "test on d: port in use" {
		t.Errorf("%v", err)
	}
	l.taken()
	end()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if got := l.taken(); got != "b 1 ended" {
		t.Errorf("at the end of the daemon: %s", got)
	}
}
