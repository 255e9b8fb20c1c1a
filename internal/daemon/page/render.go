// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"
	"time"

	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/model/config"
)

// sheet is what a template gets.
type sheet struct {
	Title    string
	Host     string // of the router
	User     string
	Role     api.Role
	Form     string // mark of the session's forms
	Sections []section
	Here     string // title of the section
	Status   api.Status
	Body     any
	Version  string // of the files
}

// May says whether the user may do what a role may, for templates.
func (s *sheet) May(role string) bool {
	return s.Role == api.Admin || role == "operate" && s.Role == api.Operate
}

// Awaiting is how long the commit that waits may still be confirmed, in seconds.
func (s *sheet) Awaiting() int {
	if a := s.Status.Awaiting; a != nil {
		left, err := time.ParseDuration(a.Left)
		if err == nil {
			return int(left.Seconds())
		}
	}
	return 0
}

// words are functions of the templates.
var words = template.FuncMap{
	"tone": show.Tone,
	"many": func(head []show.Heading) bool { return len(head) > 4 },
	"line": func(text string) bool { return !strings.Contains(strings.TrimSpace(text), "\n") },
	"trim": func(text string) string { return strings.Trim(text, "\n") },
	"ago":  func(t time.Time) string { return time.Since(t).Round(time.Second).String() },
	"when": func(t time.Time) string { return t.Local().Format(time.DateTime) },
}

var templates = template.Must(template.New("").Funcs(words).ParseFS(files, "files/*.html"))

// render writes a page. It is made as a whole first, so that a failure is no half of one.
func (p *Page) render(w http.ResponseWriter, status int, name string, s *sheet) {
	s.Version = version
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, s); err != nil {
		p.log.Error("cannot make a page", "page", name, "error", err)
		http.Error(w, "this page can't be made: see the router's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client may have gone
}

// bare is a page for who has no session.
func (p *Page) bare(w http.ResponseWriter, status int, text string) {
	p.render(w, status, "bare", &sheet{Title: http.StatusText(status), Body: text})
}

// page is one for who has a session, with all around it.
func (p *Page) page(w http.ResponseWriter, r *request, status int, name, here, title string, body any) {
	ctx, end := bounded(r)
	defer end()
	s := &sheet{Title: title, User: r.Name, Role: r.Role, Form: r.form, Sections: sections(), Here: here, Body: body}
	var err error
	if s.Status, err = api.GetStatus.Ask(ctx, r.client, api.Empty{}); err != nil {
		p.log.Warn("cannot read the status for a page", "error", err)
	}
	s.Host = p.hostOf(r, s.Status.Running)
	p.render(w, status, name, s)
}

// fail is a page that says why there is none.
func (p *Page) fail(w http.ResponseWriter, r *request, status int, text string) {
	p.page(w, r, status, "error", "", http.StatusText(status), text)
}

// failBy is the same for an error of the API.
func (p *Page) failBy(w http.ResponseWriter, r *request, err error) {
	status := http.StatusInternalServerError
	switch api.KindOf(err) {
	case api.Denied:
		status = http.StatusForbidden
	case api.Missing:
		status = http.StatusNotFound
	case api.Locked, api.Reverted:
		status = http.StatusConflict
	case api.Usage, api.Invalid:
		status = http.StatusBadRequest
	}
	p.fail(w, r, status, err.Error())
}

// host is the name that the router has in a revision.
var host struct {
	sync.Mutex
	revision int
	name     string
}

// hostOf is the router's name; the configuration is read once for each revision.
func (p *Page) hostOf(r *request, revision int) string {
	host.Lock()
	defer host.Unlock()
	if host.revision == revision && host.name != "" {
		return host.name
	}
	name := "router"
	ctx, end := bounded(r)
	defer end()
	if rev, err := router.Config.Ask(ctx, r.client, router.ConfigQuestion{}); err == nil {
		if cfg, err := config.Parse("", []byte(rev.Text)); err == nil && cfg.System.Hostname != "" {
			name = cfg.System.Hostname
		}
	}
	host.revision, host.name = revision, name
	return name
}

// printed is a view as parts of a page.
func printed(print func(*show.Paper) error) (parts []show.Part, err error) {
	p := &show.Paper{Most: mostRows}
	if err := print(p); err != nil {
		return nil, fmt.Errorf("print: %w", err)
	}
	return p.Parts, nil
}

// mostRows keeps a page below 60 kB.
const mostRows = 150
