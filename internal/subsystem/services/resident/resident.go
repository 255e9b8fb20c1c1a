// SPDX-License-Identifier: Apache-2.0

// Package resident runs a service inside the daemon, with one worker for each interface that it is configured on.
//
// A worker that fails begins anew, and at once when its interface came back as another link. When the daemon ends,
// so do the workers; the next daemon starts them again. What they serve must bear that pause.
package resident

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/plan"
	"minne/internal/subsystem/services/program"
)

const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// ErrRemoved is why a worker's context ends when the configuration no longer asks for what it does.
var ErrRemoved = errors.New("removed from the configuration")

// errEnded is why it ends when the daemon ends, or when the worker begins anew.
var errEnded = errors.New("ended")

// Kind is what a service is: S is what the configuration says of one interface.
type Kind[S any] struct {
	Name  string                        // of the task
	Title string                        // to an operator, as "DHCP relay"
	Fact  func(name string, s S) string // what is served on an interface, for previews and views

	// Work serves an interface until ctx ends. It calls up when it does so.
	Work func(ctx context.Context, name string, s S, up func()) error
}

// Service is the workers of a router instance. It is safe for concurrent use.
type Service[S any] struct {
	kind  Kind[S]
	log   *slog.Logger
	ready chan struct{}

	mu      sync.Mutex
	since   time.Time
	workers map[string]*worker[S] // by interface
}

// worker is one interface's.
type worker[S any] struct {
	want  S
	end   context.CancelCauseFunc
	ended chan struct{}
	first chan error // the first result: nil when it serves

	mu      sync.Mutex
	failure error
}

// New returns the service. Nothing is done before the first Apply.
func New[S any](kind Kind[S], log *slog.Logger) *Service[S] {
	return &Service[S]{kind: kind, log: log.With("service", kind.Name), ready: make(chan struct{}), workers: map[string]*worker[S]{}}
}

// String names the task.
func (s *Service[S]) String() string { return s.kind.Name }

// Ready is closed once Run waits.
func (s *Service[S]) Ready() <-chan struct{} { return s.ready }

// Run ends the workers when ctx ends.
func (s *Service[S]) Run(ctx context.Context) error {
	close(s.ready)
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workers {
		w.stop(errEnded)
	}
	return nil
}

// Plan says what Apply would change. It changes nothing.
func (s *Service[S]) Plan(_ context.Context, want map[string]S) (changes []plan.Change, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.workers)) {
		if _, stays := want[name]; !stays {
			changes = append(changes, plan.Change{Subsystem: "services", Action: plan.Remove, Object: s.kind.Title + " on " + name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		c := plan.Change{Subsystem: "services", Action: plan.Add, Object: s.kind.Title + " on " + name, Details: []string{s.kind.Fact(name, want[name])}}
		if w := s.workers[name]; w != nil {
			if reflect.DeepEqual(w.want, want[name]) {
				continue
			}
			c.Action = plan.Modify
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// Apply makes the service work as desired. Workers that do so already go on. An interface that is not there
// is no error: its worker waits for it.
func (s *Service[S]) Apply(ctx context.Context, want map[string]S) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, w := range s.workers {
		next, stays := want[name]
		if stays && reflect.DeepEqual(w.want, next) {
			continue
		}
		cause := ErrRemoved
		if stays {
			cause = errEnded
		}
		w.stop(cause)
		delete(s.workers, name)
	}
	var begun []*worker[S]
	var names []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if s.workers[name] == nil {
			s.workers[name] = s.begin(name, want[name])
			begun, names = append(begun, s.workers[name]), append(names, name)
		}
	}
	if len(begun) > 0 && len(begun) == len(s.workers) {
		s.since = time.Now()
	}
	for i, w := range begun {
		select {
		case err := <-w.first:
			if err != nil && !absent(err) {
				return fmt.Errorf("%s on %s: %w", s.kind.Title, names[i], err)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Stop ends the service.
func (s *Service[S]) Stop(ctx context.Context) error { return s.Apply(ctx, nil) }

// absent says whether an error tells that a link, or its address, is not there.
func absent(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// Returned begins anew on an interface that came back as another link.
func (s *Service[S]) Returned(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workers[name]
	if w == nil {
		return nil
	}
	w.stop(errEnded)
	s.workers[name] = s.begin(name, w.want)
	return nil
}

// begin starts the worker of an interface.
func (s *Service[S]) begin(name string, want S) *worker[S] {
	ctx, end := context.WithCancelCause(context.Background())
	w := &worker[S]{want: want, end: end, ended: make(chan struct{}), first: make(chan error, 1)}
	go func() {
		defer close(w.ended)
		wait := firstBackoff
		for {
			err := s.kind.Work(ctx, name, want, func() { w.result(nil) })
			if ctx.Err() != nil {
				return
			}
			if w.result(err) {
				s.log.Warn("a service has stopped on an interface; it is tried again", "interface", name, "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			wait = min(2*wait, lastBackoff)
		}
	}()
	return w
}

// result takes what a worker has come to, and says whether that is news.
func (w *worker[S]) result(err error) bool {
	select {
	case w.first <- err:
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	news := fmt.Sprint(err) != fmt.Sprint(w.failure)
	w.failure = err
	return news
}

// stop ends a worker and waits for it.
func (w *worker[S]) stop(cause error) {
	w.end(cause)
	<-w.ended
}

// States says what is served, as one program: the daemon itself.
func (s *Service[S]) States() []program.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.workers) == 0 {
		return nil
	}
	state := program.State{Name: s.kind.Name, Object: s.kind.Title, Running: true, PID: os.Getpid(), Since: s.since, Starts: 1}
	for _, name := range slices.Sorted(maps.Keys(s.workers)) {
		state.Facts = append(state.Facts, s.kind.Fact(name, s.workers[name].want))
	}
	return []program.State{state}
}

// Down says on which interfaces nothing is served, and why.
func (s *Service[S]) Down() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.workers)) {
		w := s.workers[name]
		w.mu.Lock()
		if w.failure != nil {
			list = append(list, fmt.Sprintf("%s on %s: %v", s.kind.Title, name, w.failure))
		}
		w.mu.Unlock()
	}
	return list
}
