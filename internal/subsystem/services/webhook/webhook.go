// SPDX-License-Identifier: Apache-2.0

// Package webhook tells web servers of alarms: a POST with JSON for each turn (raised, changed, acknowledged, cleared), in their
// order. A server that does not take one is asked again; meanwhile up to 512 turns wait in memory, and the numbers
// of what comes then tell how many are missing.
package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/health"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
)

// Service is webhooks to the other parts.
var Service = service.Descriptor{
	Name:     "webhooks",
	Title:    "webhooks",
	Openings: openings,
	New: func(h service.Host) service.Running {
		n := &sender{host: h, next: map[string]int{}, client: &http.Client{Timeout: limit, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a token goes where it was meant to
		}}}
		s := resident.New(resident.Kind[Settings]{Name: "webhooks", Title: "alarms", Fact: fact, Work: n.work}, h.Log)
		r := service.Of(s, Render)
		r.Task, r.Stop, r.States, r.Down = s, s.Stop, s.States, s.Down
		return r
	},
}

const limit = 10 * time.Second // of one request

// openings let the alarms out where zones would not.
func openings(cfg *config.Config) (list []policy.Opening) {
	for _, w := range cfg.Services.Webhooks {
		u, err := url.Parse(w.URL)
		if err != nil {
			continue // refused by the check
		}
		port := uint64(443)
		if u.Scheme == "http" {
			port = 80
		}
		if u.Port() != "" {
			port, _ = strconv.ParseUint(u.Port(), 10, 16)
		}
		list = append(list, policy.Opening{Text: "webhook", Protocols: []uint8{unix.IPPROTO_TCP}, Port: uint16(port), Out: true, Anywhere: true})
	}
	return list
}

// Settings is one server.
type Settings struct {
	URL   string
	Token string
	Host  string // the router's name
}

// Render is what a configuration asks for, by the servers' names.
func Render(cfg *config.Config, secrets config.Secrets) (map[string]Settings, error) {
	all := map[string]Settings{}
	for name, w := range cfg.Services.Webhooks {
		token, _ := secrets.Get(w.Token) // that it exists has been checked
		all[name] = Settings{URL: w.URL, Token: token, Host: cfg.System.Hostname}
	}
	return all, nil
}

func fact(name string, s Settings) string {
	at := s.URL
	if u, err := url.Parse(s.URL); err == nil {
		at = u.Host // what follows may be a secret
	}
	return fmt.Sprintf("alarms to %s (%s)", name, at)
}

// sender knows which turn each server gets next.
type sender struct {
	host   service.Host
	client *http.Client

	mu   sync.Mutex
	next map[string]int
}

// Notice is what is sent.
type Notice struct {
	Router string `json:"router"`
	health.Event
}

// work sends the turns to a server until ctx ends or the server refuses one.
func (n *sender) work(ctx context.Context, name string, s Settings, up func()) error {
	up() // a server that does not answer is no reason to refuse a commit
	if n.host.Alarms == nil {
		<-ctx.Done()
		return nil
	}
	host := s.Host
	if host == "" {
		host, _ = os.Hostname() // "" without one
	}
	n.mu.Lock()
	from := n.next[name]
	n.mu.Unlock()
	return n.host.Alarms(ctx, from, func(e health.Event) error {
		if err := n.post(ctx, s, Notice{host, e}); err != nil {
			return err
		}
		n.mu.Lock()
		n.next[name] = e.Number + 1
		n.mu.Unlock()
		return nil
	})
}

func (n *sender) post(ctx context.Context, s Settings, notice Notice) error {
	text, err := json.Marshal(notice)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "minne")
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	resp, err := n.client.Do(req)
	if err != nil {
		if u, ok := err.(*url.Error); ok {
			err = u.Err // its text has the whole address
		}
		return fmt.Errorf("post to %s: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", req.URL.Host, resp.Status)
	}
	return nil
}
