// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/subsystem/kernel"
)

// overviewBody is what the first page shows.
type overviewBody struct {
	Ports    []kernel.Interface
	Sessions []show.Part // of routing protocols
	Faults   []string
}

// overview is the first page: is the box well, and what goes through it.
func (p *Page) overview(w http.ResponseWriter, r *request) {
	ctx, end := bounded(r)
	defer end()
	var b overviewBody
	all, err := router.Interfaces.Ask(ctx, r.client, router.Nothing{})
	if err != nil {
		p.failBy(w, r, err)
		return
	}
	b.Ports = slices.DeleteFunc(all.Interfaces, func(i kernel.Interface) bool { return i.Name == "lo" })
	// A router without BGP or OSPF has no such view: that is no fault.
	for _, path := range []string{"bgp/summary", "ospf/neighbor", "ospf6/neighbor"} {
		if parts := p.sheetsOf(ctx, r, path); parts != nil {
			b.Sessions = append(b.Sessions, parts...)
		}
	}
	p.page(w, r, http.StatusOK, "overview", "Overview", "Overview", b)
}

// sheetsOf are the tables of a view, nil when there is none.
func (p *Page) sheetsOf(ctx context.Context, r *request, path string) []show.Part {
	v, _ := find(path)
	if v == nil {
		return nil
	}
	q := v.NewQuestion()
	if api.SetDefaults(q) != nil {
		return nil
	}
	a, err := v.AskAny(ctx, r.client, q)
	if err != nil {
		return nil
	}
	parts, err := printed(func(paper *show.Paper) error { return v.PrintAny(paper, q, a) })
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(parts, func(part show.Part) bool { return part.Table == nil || len(part.Table.Rows) == 0 })
}

// mostLive bounds the pages that are kept up to date at once.
const mostLive = 32

// beat is how often a live page hears of the router, and how long a write to it may take.
const (
	beat      = 2 * time.Second
	writeTime = 10 * time.Second
)

// news is what a live page hears.
type news struct {
	State  api.State `json:"state"`
	Faults int       `json:"faults"`
	Rates  []rate    `json:"rates"`
}

// rate is one interface's, of the last second.
type rate struct {
	Name string  `json:"name"`
	RX   float64 `json:"rx"` // bit/s
	TX   float64 `json:"tx"`
	RXP  float64 `json:"rxp"` // packets/s
	TXP  float64 `json:"txp"`
}

// live keeps a page up to date by server-sent events until it is left, or its login ends.
func (p *Page) live(w http.ResponseWriter, r *http.Request) {
	s := p.sessions.of(r, false)
	if s == nil || !p.who.Valid(s.Identity) {
		http.Error(w, "not logged in", http.StatusUnauthorized)
		return
	}
	select {
	case p.lives <- struct{}{}:
		defer func() { <-p.lives }()
	default:
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	client := api.NewClientOf(p.api, s.Peer())
	connection := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		n, err := p.news(r.Context(), client)
		if err != nil {
			return
		}
		text, err := json.Marshal(n)
		if err != nil {
			return
		}
		if connection.SetWriteDeadline(time.Now().Add(writeTime)) != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
			return
		}
		if connection.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
		if s := p.sessions.of(r, false); s == nil || !p.who.Valid(s.Identity) {
			return
		}
	}
}

func (p *Page) news(ctx context.Context, client *api.Client) (n news, err error) {
	ctx, end := context.WithTimeout(ctx, askTime)
	defer end()
	rates, err := router.Rates.Ask(ctx, client, router.Nothing{})
	if err != nil {
		return n, err
	}
	status, err := api.GetStatus.Ask(ctx, client, api.Empty{})
	if err != nil {
		return n, err
	}
	n = news{State: status.State, Faults: status.Troubles(), Rates: []rate{}}
	for _, one := range rates.Rates {
		if len(one.Windows) > 0 {
			now := one.Windows[0]
			n.Rates = append(n.Rates, rate{one.Name, now.RxBits, now.TxBits, now.RxPackets, now.TxPackets})
		}
	}
	return n, nil
}
