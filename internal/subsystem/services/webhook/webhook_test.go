// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"minne/internal/base/health"
	"minne/internal/subsystem/services/service"
)

// Each turn of an alarm arrives, in order and once, also when the server refuses it at first; a token stays secret.
func TestTurnsArrive(t *testing.T) {
	book := health.NewBook(slog.New(slog.DiscardHandler))
	got := make(chan Notice, 10)
	var refused atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n Notice
		err := json.NewDecoder(r.Body).Decode(&n)
		if err != nil || r.Method != "POST" || r.Header.Get("Authorization") != "Bearer hush" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%v %v %v", r.Method, r.Header, err)
		}
		if refused.CompareAndSwap(false, true) {
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		got <- n
	}))
	defer server.Close()
	n := &sender{host: service.Host{Alarms: book.Follow}, next: map[string]int{}, client: server.Client()}
	s := Settings{URL: server.URL + "/secret-path", Token: "hush", Host: "attic"}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			err := n.work(ctx, "central", s, func() {})
			if err != nil && (strings.Contains(err.Error(), "secret-path") || strings.Contains(err.Error(), "hush")) {
				t.Errorf("tells a secret: %v", err)
			}
		}
	}()
	book.Fault("time", "no server")
	book.Clear("time")
	for i, want := range []health.Turn{health.Raised, health.Cleared} {
		if n := <-got; n.Router != "attic" || n.Turn != want || n.Number != i || n.Fault.Key != "time" || n.Fault.Severity != health.Minor {
			t.Errorf("%d: %+v", i, n)
		}
	}
	end()
	<-ended
	if text := fact("central", s); strings.Contains(text, "secret") {
		t.Error(text)
	}
}
