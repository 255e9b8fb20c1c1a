// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"minne/internal/subsystem/services/web"
)

// How often one account may ask: a burst, and requests a second.
const (
	paceBurst  = 200
	paceSecond = 50
)

// pace bounds how often each account asks. There are as many as the configuration has accounts.
type pace struct {
	mu   sync.Mutex
	have map[string]tokens
}

type tokens struct {
	left float64
	at   time.Time
}

func newPace() *pace { return &pace{have: map[string]tokens{}} }

// take counts a request; it returns how long to wait when there were too many.
func (p *pace) take(now time.Time, name string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.have[name]
	if !ok {
		t = tokens{paceBurst, now}
	}
	t.left = min(paceBurst, t.left+now.Sub(t.at).Seconds()*paceSecond)
	t.at = now
	wait := time.Duration(0)
	if t.left >= 1 {
		t.left--
	} else {
		wait = time.Second
	}
	p.have[name] = t
	return wait
}

// waiting is how long somebody must wait who has failed too often, 0 for another error.
func waiting(err error) time.Duration {
	var w *web.Waiting
	if errors.As(err, &w) {
		return w.Left
	}
	return 0
}

// seconds is a time for the header Retry-After.
func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}
