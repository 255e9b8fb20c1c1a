// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestASilentDaemonIsTold: who listens and never answers, as a daemon that was stopped, is told with its pid.
func TestASilentDaemonIsTold(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket) // the kernel takes connections, nobody else does
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := NewClient(socket)
	c.patience, c.alive = 50*time.Millisecond, 50*time.Millisecond
	following := Operation[Empty, Empty]{Method: "POST", Path: "/v1/capture", Goes: true}
	for name, ask := range map[string]func() error{
		"status": func() error { _, err := GetStatus.Ask(t.Context(), c, Empty{}); return err },
		"apply":  func() error { _, err := Apply.Ask(t.Context(), c, Commit{}); return err },
		"follow": func() error { return following.Follow(t.Context(), c, Empty{}, func(Empty) error { return nil }) },
	} {
		err := ask()
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("does not answer (pid %d, state ", os.Getpid())) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestASlowAnswerIsWaitedForAsRoot: a daemon that has much to do, and lives, may take its time.
func TestASlowAnswerIsWaitedForAsRoot(t *testing.T) {
	c := serve(t, func(s *Server) {
		Serve(s, Apply, func(*http.Request, Commit) (Result, error) {
			time.Sleep(500 * time.Millisecond)
			return Result{Revision: 7}, nil
		})
	})
	c.patience, c.alive = 20*time.Millisecond, 30*time.Second
	if r, err := Apply.Ask(t.Context(), c, Commit{}); err != nil || r.Revision != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, end := c.watch(t.Context(), time.Millisecond)
	defer end()
	<-ctx.Done()
	if err := broken(ctx, ctx.Err()); !strings.Contains(err.Error(), "lives, and has not answered") {
		t.Errorf("beyond the bound: %v", err)
	}
}
