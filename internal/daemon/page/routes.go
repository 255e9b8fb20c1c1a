// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"minne/internal/model/api"
)

//go:embed files
var files embed.FS

// Bounds of what people send: a login, a form, a configuration.
const (
	mostForm   = 16 << 10
	mostConfig = 4 << 20
	askTime    = 30 * time.Second // for an answer of the daemon that changes nothing
)

// page is a request of somebody who has logged in.
type request struct {
	*http.Request
	*session
	client *api.Client
}

func (p *Page) routes() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /style.css", asset("files/style.css", "text/css; charset=utf-8"))
	m.HandleFunc("GET /script.js", asset("files/script.js", "text/javascript; charset=utf-8"))
	m.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	m.HandleFunc("GET /login", p.loginForm)
	m.HandleFunc("POST /login", p.login)
	m.HandleFunc("POST /logout", p.with(mostForm, p.logout))
	m.HandleFunc("GET /{$}", p.with(0, p.overview))
	m.HandleFunc("GET /show/{view...}", p.with(0, p.show))
	m.HandleFunc("GET /explain", p.with(0, p.explain))
	m.HandleFunc("GET /revisions", p.with(0, p.revisions))
	m.HandleFunc("GET /revisions/{number}", p.with(0, p.revision))
	m.HandleFunc("POST /rollback", p.with(mostForm, p.rollback))
	m.HandleFunc("POST /confirm", p.with(mostForm, p.confirm))
	m.HandleFunc("GET /configuration", p.with(0, p.editor))
	m.HandleFunc("POST /configuration", p.with(mostConfig, p.edit))
	m.HandleFunc("GET /live", p.live)
	m.HandleFunc("/", p.with(0, func(w http.ResponseWriter, r *request) {
		p.fail(w, r, http.StatusNotFound, "There is no such page.")
	}))
	return m
}

// version changes with the files, so that browsers may keep them.
var version = func() string {
	sum := sha256.New()
	for _, name := range []string{"files/style.css", "files/script.js"} {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // they are in the program
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}()

// asset answers with a file, which has nothing secret: also to who has not logged in.
func asset(name, kind string) http.HandlerFunc {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is in the program
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(text) // the client may have gone
	}
}

// foreign refuses requests that another site made a browser send (Sec-Fetch-Site, Origin).
var foreign http.CrossOriginProtection

// with lets only those in who have logged in. A form, of at most so many bytes, must carry the mark of the session.
func (p *Page) with(most int64, answer func(http.ResponseWriter, *request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s := p.sessions.of(r, true)
		if s == nil || !p.who.Valid(s.Identity) {
			if r.Method == http.MethodGet {
				http.Redirect(w, r, "/login", http.StatusSeeOther)
				return
			}
			p.bare(w, http.StatusUnauthorized, "You are not logged in any more. What you sent was not used.")
			return
		}
		if wait := p.pace.take(time.Now(), s.Name); wait > 0 {
			w.Header().Set("Retry-After", seconds(wait))
			p.bare(w, http.StatusTooManyRequests, "Too many requests: wait a moment.")
			return
		}
		q := &request{r, s, api.NewClientOf(p.api, s.Peer())}
		if r.Method != http.MethodPost {
			answer(w, q)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		if err := r.ParseForm(); err != nil {
			p.bare(w, http.StatusRequestEntityTooLarge, "The form is too large, or damaged.")
			return
		}
		if foreign.Check(r) != nil || r.PostForm.Get("form") != s.form {
			p.log.Warn("a form of another site, or of an earlier login, was refused", "audit", "write", "user", s.Name, "from", address(r), "path", r.URL.Path)
			p.bare(w, http.StatusForbidden, "This form is not of your login. Go back, load the page again, and repeat.")
			return
		}
		seen := &watched{ResponseWriter: w, status: http.StatusOK}
		answer(seen, q)
		if r.PostForm.Get("do") != "check" {
			p.audit(s.Peer(), r, address(r), seen.status)
		}
	}
}

// bounded is for questions that change nothing.
func bounded(r *request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), askTime)
}

func (p *Page) loginForm(w http.ResponseWriter, r *http.Request) {
	if s := p.sessions.of(r, false); s != nil && p.who.Valid(s.Identity) {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	p.render(w, http.StatusOK, "login", &sheet{Title: "Log in", Body: ""})
}

func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if r.ParseForm() != nil || foreign.Check(r) != nil {
		p.bare(w, http.StatusForbidden, "This form comes from another site, or is too large.")
		return
	}
	id, err := p.who.Login(r.Context(), address(r), strings.TrimSpace(r.PostForm.Get("user")), r.PostForm.Get("password"))
	if err != nil {
		status := http.StatusUnauthorized
		if left := waiting(err); left > 0 {
			status = http.StatusTooManyRequests
			w.Header().Set("Retry-After", seconds(left))
		}
		p.render(w, status, "login", &sheet{Title: "Log in", Body: err.Error()})
		return
	}
	p.sessions.end(w, r) // whatever session the browser had is not that of this login
	w.Header().Del("Set-Cookie")
	p.sessions.begin(w, id)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (p *Page) logout(w http.ResponseWriter, r *request) {
	p.sessions.end(w, r.Request)
	p.log.Info("logout", "audit", "login", "user", r.Name, "from", address(r.Request))
	http.Redirect(w, r.Request, "/login", http.StatusSeeOther)
}
