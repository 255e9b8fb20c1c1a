// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serve answers with the endpoints that add adds, until the test ends.
func serve(t *testing.T, add func(*Server)) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(slog.New(slog.DiscardHandler))
	add(s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l, time.Second) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	})
	return NewClient(socket)
}

func TestErrorsKeepTheirKindAsRoot(t *testing.T) {
	var answer error
	c := serve(t, func(s *Server) {
		Serve(s, Apply, func(*http.Request, Commit) (Result, error) { return Result{}, answer })
	})
	for _, kind := range []Kind{Failed, Invalid, Reverted, Locked, Denied, Missing} {
		answer = &Error{Kind: kind, Message: "because\nof this", Step: "kernel"}
		_, err := Apply.Ask(t.Context(), c, Commit{})
		var got *Error
		if !errors.As(err, &got) || *got != *answer.(*Error) {
			t.Errorf("%s came as %#v", kind, err)
		}
	}
	answer = errors.New("plain")
	if _, err := Apply.Ask(t.Context(), c, Commit{}); KindOf(err) != Failed || err.Error() != "plain" {
		t.Errorf("plain error came as %v", err)
	}
}

func TestPeerAsRoot(t *testing.T) {
	var peer Peer
	c := serve(t, func(s *Server) {
		Serve(s, GetStatus, func(r *http.Request, _ Empty) (Status, error) { peer = PeerOf(r.Context()); return Status{}, nil })
	})
	for sudo, want := range map[string]string{"": "root", "ana": "ana"} {
		t.Setenv("SUDO_USER", sudo)
		if _, err := GetStatus.Ask(t.Context(), c, Empty{}); err != nil || peer.UID != 0 || peer.User != want {
			t.Errorf("sudo by %q: peer %+v, %v", sudo, peer, err)
		}
	}
}

// Only root's word counts about whom it works for, and only root may write.
func TestOthersMayOnlyRead(t *testing.T) {
	s := NewServer(slog.New(slog.DiscardHandler))
	touched := false
	Serve(s, Stop, func(*http.Request, StopQuestion) (Empty, error) { touched = true; return Empty{}, nil })
	var user string
	Serve(s, GetStatus, func(r *http.Request, _ Empty) (Status, error) { user = PeerOf(r.Context()).User; return Status{}, nil })
	ask := func(method, path string) *answerWriter {
		ctx := context.WithValue(t.Context(), peerKey{}, Peer{UID: 1000, User: "ben"})
		r, err := http.NewRequestWithContext(ctx, method, path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(sudoHeader, "root")
		w := &answerWriter{header: http.Header{}}
		s.withPeer(s.mux).ServeHTTP(w, r)
		return w
	}
	if w := ask("POST", "/v1/stop"); w.status != http.StatusForbidden || touched || !strings.Contains(w.body.String(), "ben") {
		t.Errorf("write by ben: status %d, done %t, %s", w.status, touched, &w.body)
	}
	if w := ask("GET", "/v1/status"); w.status != http.StatusOK || user != "ben" {
		t.Errorf("read by ben: status %d as %q", w.status, user)
	}
}

type answerWriter struct {
	header http.Header
	status int
	body   strings.Builder
}

func (w *answerWriter) Header() http.Header         { return w.header }
func (w *answerWriter) WriteHeader(status int)      { w.status = status }
func (w *answerWriter) Write(b []byte) (int, error) { return w.body.Write(b) }

func TestRequestsAreBoundedAsRoot(t *testing.T) {
	c := serve(t, func(s *Server) {
		Serve(s, Apply, func(_ *http.Request, q Commit) (Result, error) {
			return Result{Revision: len(q.Config)}, nil
		})
	})
	if r, err := Apply.Ask(t.Context(), c, Commit{Config: strings.Repeat("x", 3<<20)}); err != nil || r.Revision != 3<<20 {
		t.Errorf("3 MB: %v, %v", r.Revision, err)
	}
	if _, err := Apply.Ask(t.Context(), c, Commit{Config: strings.Repeat("x", MaxBody)}); err == nil {
		t.Error("a request beyond the bound was taken")
	}
	var answer Result
	if err := c.do(t.Context(), http.MethodPost, "/v1/apply", map[string]any{"confg": "x"}, &answer); err == nil || !strings.Contains(err.Error(), "confg") {
		t.Errorf("unknown key: %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	if _, err := GetStatus.Ask(t.Context(), NewClient(socket), Empty{}); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("no socket: %v", err)
	}
	// A daemon that was killed leaves its socket; the next one replaces it.
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := GetStatus.Ask(t.Context(), NewClient(socket), Empty{}); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("dead socket: %v", err)
	}
	if l, err = Listen(socket); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// One that ends in the middle.
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.ReadFull(c, make([]byte, 10))
			c.Close()
		}
	}()
	if _, err := GetStatus.Ask(t.Context(), NewClient(socket), Empty{}); err == nil || errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "ended before it answered") {
		t.Errorf("daemon that ends: %v", err)
	}
	if _, err := Listen(filepath.Join(t.TempDir(), strings.Repeat("x", maxPath))); err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("long path: %v", err)
	}
}

// Nobody but root and the group may connect.
func TestSocketModeAsRoot(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var st unix.Stat_t
	if err := unix.Stat(socket, &st); err != nil {
		t.Fatal(err)
	}
	if mode := st.Mode & 0o777; mode != 0o600 && mode != 0o660 || st.Uid != 0 || mode == 0o660 && st.Gid == 0 {
		t.Errorf("socket has mode %o, owner %d:%d", mode, st.Uid, st.Gid)
	}
}
