// SPDX-License-Identifier: Apache-2.0

// Package syslog sends the router's log to other hosts: RFC 5424 over UDP (RFC 5426), TCP with counted messages (RFC 6587,
// section 3.4.1) and TLS (RFC 5425).
//
// The queue is the journal that the daemon keeps in memory anyway, 2000 lines: nothing waits for a server, and while none answers
// the oldest lines are lost; how many is said when it answers again. A daemon that starts sends what it has said so far.
package syslog

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"minne/internal/base/sink"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
)

// Service is remote logging to the other parts.
var Service = service.Descriptor{
	Name:     "syslog",
	Title:    "syslog",
	Openings: openings,
	New: func(h service.Host) service.Running {
		n := &sender{host: h, next: map[string]int{}}
		s := resident.New(resident.Kind[Settings]{Name: "syslog", Title: "remote log", Fact: fact, Work: n.work}, h.Log)
		r := service.Of(s, Render)
		r.Task, r.Stop, r.States, r.Down = s, s.Stop, s.States, s.Down
		return r
	},
}

// openings let the log out where zones would not.
func openings(cfg *config.Config) (list []policy.Opening) {
	for _, s := range cfg.Services.Syslog {
		list = append(list, policy.Towards("syslog", string(s.Transport), s.At()))
	}
	return list
}

// Settings is one server.
type Settings struct {
	sink.Server
	Severity int    // the greatest number that is sent
	Host     string // the router's name
}

// Render is what a configuration asks for, by the servers' names.
func Render(cfg *config.Config, secrets config.Secrets) (map[string]Settings, error) {
	all := map[string]Settings{}
	for name, s := range cfg.Services.Syslog {
		one := Settings{sink.To(s.At(), string(s.Transport), s.Name), least[string(s.Level)], cfg.System.Hostname}
		if s.CA != "" {
			one.CA, _ = secrets.Get(s.CA) // that it exists has been checked
			if _, err := sink.Authorities(one.CA); err != nil {
				return nil, fmt.Errorf("services.syslog.%s.ca: the secret %s %w", name, s.CA, err)
			}
		}
		all[name] = one
	}
	return all, nil
}

func fact(name string, s Settings) string {
	return fmt.Sprintf("log to %s (%s, %s)", name, s.At, s.Transport)
}

// sender knows which line each server gets next, also when its settings change.
type sender struct {
	host service.Host

	mu   sync.Mutex
	next map[string]int
}

// work sends the log to a server until ctx ends or the server does.
func (n *sender) work(ctx context.Context, name string, s Settings, up func()) error {
	if n.host.Lines == nil {
		up()
		<-ctx.Done()
		return nil
	}
	up() // a server that does not answer is no reason to refuse a commit
	conn, err := s.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, end := s.WhileUp(ctx, conn)
	defer end()
	host := s.Host
	if host == "" {
		host, _ = os.Hostname() // "-" without one
	}
	send := func(text string) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := conn.SetWriteDeadline(time.Now().Add(sink.WriteLimit)); err != nil {
			return err
		}
		_, err := conn.Write(framed(text, s.Transport))
		return err
	}
	n.mu.Lock()
	from := n.next[name]
	n.mu.Unlock()
	expected := from
	err = n.host.Lines(ctx, from, func(number int, line string) error {
		if lost := number - expected; lost > 0 {
			text, _ := message(fmt.Sprintf("time=%s level=WARN msg=\"%d lines of the log are lost: the syslog server did not take them in time\" task=syslog", time.Now().Format(time.RFC3339), lost), host, os.Getpid())
			if err := send(text); err != nil {
				return err
			}
		}
		text, severity := message(line, host, os.Getpid())
		if severity <= s.Severity {
			if err := send(text); err != nil {
				return err
			}
		}
		expected = number + 1
		n.mu.Lock()
		n.next[name] = expected
		n.mu.Unlock()
		return nil
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// framed is a message as a transport carries it.
func framed(text, transport string) []byte {
	if transport == "udp" {
		if len(text) > mostUDP {
			text = strings.ToValidUTF8(text[:mostUDP], "")
		}
		return []byte(text)
	}
	return fmt.Appendf(nil, "%d %s", len(text), text)
}
