// SPDX-License-Identifier: Apache-2.0

// Package web lets people and programs in over HTTPS: it listens, has the certificate, and knows who may log in. What is
// answered is somebody else's business (AnswerBy).
//
// A socket is bound to each named interface, so that what comes in by another one finds nobody, whatever address it is
// sent to and whatever the firewall permits. That is also how it is found in a VRF.
package web

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"minne/internal/base/certfile"
	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
)

// Service is the web page and the API over HTTPS to the other parts.
var Service = service.Descriptor{
	Name:     "web",
	Title:    "web",
	Openings: openings,
	New: func(h service.Host) service.Running {
		s := New(filepath.Dir(h.Config), h.Log)
		r := service.Of(s, s.Render)
		r.Task, r.Stop, r.States, r.Down, r.Returned = s.listeners, s.listeners.Stop, s.listeners.States, s.listeners.Down, s.listeners.Returned
		return r
	},
	Views: []service.View{view},
}

// openings let people in on the interfaces where the page is.
func openings(cfg *config.Config) []policy.Opening {
	w := cfg.Services.Web
	if w == nil {
		return nil
	}
	return []policy.Opening{{Text: "web", Protocols: []uint8{unix.IPPROTO_TCP}, Port: uint16(w.Port), Interfaces: w.Interfaces}}
}

// Listener is what the configuration says of one interface.
type Listener struct {
	Port  int
	Files certfile.Files
}

// Desired is what a configuration asks for.
type Desired struct {
	listeners map[string]Listener
	accounts  accounts
	names     []string // for a certificate of one's own
}

// Server is the service of a router instance. It is safe for concurrent use.
type Server struct {
	dir       string // of the certificate that the router makes
	base      string // of the configuration
	log       *slog.Logger
	listeners *resident.Service[Listener]
	room      *room
	throttle  *throttle
	files     *certfile.Reader
	hashing   chan struct{} // who computes a hash now

	mu      sync.Mutex
	names   []string
	all     accounts
	handler http.Handler
}

// New returns the service. Nothing listens before the first Apply. dir is the directory of the configuration.
func New(dir string, log *slog.Logger) *Server {
	s := &Server{dir: filepath.Join(dir, "web"), base: dir, log: log.With("service", "web"), room: newRoom(), throttle: newThrottle(),
		hashing: make(chan struct{}, 1)}
	s.files = certfile.New("the web page", s.log)
	s.listeners = resident.New(resident.Kind[Listener]{Name: "web", Title: "web page and API", Fact: fact, Work: s.listen}, log)
	return s
}

func fact(name string, l Listener) string {
	return fmt.Sprintf("https on %s (port %d)", name, l.Port)
}

// AnswerBy says who answers requests. Before, they are told to come again.
func (s *Server) AnswerBy(h http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h := s.handler
	s.mu.Unlock()
	if h == nil {
		http.Error(w, "the router is starting: try again", http.StatusServiceUnavailable)
		return
	}
	h.ServeHTTP(w, r)
}

// Render is what a configuration asks for.
func (s *Server) Render(cfg *config.Config, secrets config.Secrets) (Desired, error) {
	d := Desired{listeners: map[string]Listener{}, accounts: accounts{}}
	w := cfg.Services.Web
	if w == nil {
		return d, nil
	}
	files := certfile.Files{Certificate: filepath.Join(s.dir, certificateFile), Key: filepath.Join(s.dir, keyFile)}
	if w.Certificate != "" {
		files = certfile.Files{Certificate: s.place(w.Certificate), Key: s.place(w.Key)}
	}
	d.names = []string{cfg.System.Hostname}
	for _, name := range w.Interfaces {
		d.listeners[name] = Listener{Port: w.Port, Files: files}
		for _, a := range cfg.Interfaces[name].Addresses {
			d.names = append(d.names, a.Addr().String())
		}
	}
	d.accounts = accountsOf(cfg, secrets)
	return d, nil
}

// place is where a file of the configuration is.
func (s *Server) place(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.base, name)
}

// Plan says what Apply would change. It changes nothing.
func (s *Server) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	changes, err := s.listeners.Plan(ctx, d.listeners)
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(changes, s.all.changes(d.accounts)...), err
}

// Trust lets those in whom a configuration names, and nobody else. Apply does it, too.
func (s *Server) Trust(d Desired) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.names = d.accounts, slices.Clone(d.names)
}

// Apply makes the service work as desired. Who is no user any more is logged out.
func (s *Server) Apply(ctx context.Context, d Desired) error {
	s.Trust(d)
	if names := slices.Sorted(maps.Keys(d.listeners)); len(names) > 0 { // all have the same certificate
		if err := s.usable(d.listeners[names[0]].Files); err != nil {
			return err
		}
	}
	return s.listeners.Apply(ctx, d.listeners)
}

// changes says which accounts would be others, not how.
func (a accounts) changes(next accounts) (list []plan.Change) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if _, stays := next[name]; !stays {
			list = append(list, plan.Change{Subsystem: "services", Action: plan.Remove, Object: a[name].what()})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		c := plan.Change{Subsystem: "services", Action: plan.Add, Object: next[name].what(), Details: []string{"role " + next[name].role.String()}}
		if was, had := a[name]; had {
			if reflect.DeepEqual(was, next[name]) {
				continue
			}
			c.Action = plan.Modify
		}
		list = append(list, c)
	}
	return list
}

func (a account) what() string {
	if a.token {
		return "token " + strings.TrimPrefix(a.name, tokenMark) + " of the API"
	}
	return "user " + a.name + " of the web page"
}
