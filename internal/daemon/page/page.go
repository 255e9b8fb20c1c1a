// SPDX-License-Identifier: Apache-2.0

// Package page answers people and programs over HTTPS: the web page, and the API of the unix socket for those who have a
// token. It knows no more of the router than the commands do: it asks the same questions of the same API, as somebody with
// a role.
//
// A page is made here, of templates, with one small script and one style; nothing of it comes from elsewhere. All that it
// shows goes through html/template, so names that strangers chose (hosts, radios, neighbours on a cable) are only text.
package page

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"minne/internal/model/api"
	"minne/internal/subsystem/services/web"
)

// Page answers requests. It is safe for concurrent use.
type Page struct {
	api      *api.Server
	who      *web.Server
	log      *slog.Logger
	document []byte // OpenAPI
	pace     *pace
	people   *http.ServeMux
	sessions *sessions
	lives    chan struct{} // a place for each page that is kept up to date
}

// New returns the page of an API; who says who asks.
func New(s *api.Server, who *web.Server, log *slog.Logger) *Page {
	p := &Page{api: s, who: who, log: log.With("task", "web"), pace: newPace(), sessions: newSessions(), lives: make(chan struct{}, mostLive)}
	var err error
	if p.document, err = s.Document(); err != nil {
		p.log.Error("cannot describe the API", "error", err)
	}
	p.people = p.routes()
	return p
}

// ServeHTTP answers a request: programs below /v1/, people elsewhere.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Strict-Transport-Security", "max-age=31536000")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		p.program(w, r)
		return
	}
	p.people.ServeHTTP(w, r)
}

// program answers who has a token.
func (p *Page) program(w http.ResponseWriter, r *http.Request) {
	from := address(r)
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="Minne"`)
		refuse(w, http.StatusUnauthorized, "the API takes a token in the header Authorization: Bearer TOKEN; minne web token makes one")
		return
	}
	id, err := p.who.Token(from, strings.TrimSpace(token))
	if err != nil {
		status := http.StatusUnauthorized
		if left := waiting(err); left > 0 {
			status = http.StatusTooManyRequests
			w.Header().Set("Retry-After", seconds(left))
		}
		refuse(w, status, err.Error())
		return
	}
	if wait := p.pace.take(time.Now(), id.Name); wait > 0 {
		w.Header().Set("Retry-After", seconds(wait))
		refuse(w, http.StatusTooManyRequests, "this token asks too often: at most 50 requests a second")
		return
	}
	if r.URL.Path == "/v1/openapi.json" && r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(p.document) // the client may have gone
		return
	}
	peer := id.Peer()
	if r.Method == http.MethodGet {
		p.api.ServeFor(peer, w, r)
		return
	}
	seen := &watched{ResponseWriter: w, status: http.StatusOK}
	p.api.ServeFor(peer, seen, r)
	p.audit(peer, r, from, seen.status)
}

// audit writes down what somebody has changed, or has tried to.
func (p *Page) audit(peer api.Peer, r *http.Request, from netip.Addr, status int) {
	p.log.Info("request", "audit", "write", "user", peer.User, "role", peer.Role, "from", from, "method", r.Method, "path", r.URL.Path, "status", status)
}

// refuse answers a program with an error, as the API does.
func refuse(w http.ResponseWriter, status int, text string) {
	kind := api.Denied
	if status == http.StatusTooManyRequests {
		kind = api.Locked
	}
	writeJSON(w, status, api.Failure{Error: &api.Error{Kind: kind, Message: text}})
}

// address is where a request comes from.
func address(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(host)
	return a.Unmap()
}

// watched remembers the status of an answer.
type watched struct {
	http.ResponseWriter
	status int
}

func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
