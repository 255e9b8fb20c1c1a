// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"minne/internal/base/health"
	"minne/internal/base/plan"
	"minne/internal/daemon/router"
	"minne/internal/daemon/show"
	"minne/internal/model/api"
	"minne/internal/model/config"
	"minne/internal/model/revisions"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/services/dnsmasq"
	"minne/internal/subsystem/services/lldp"
	"minne/internal/subsystem/services/web"
)

// hostile is what a stranger may call his computer, his switch or his radio.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'` + "\r\nSet-Cookie: x=y"

// view serves a view with an answer that stays.
func view[Q, A any](s *api.Server, path string, a A) {
	api.Serve(s, api.Operation[Q, A]{Method: "GET", Path: "/v1/show/" + path}, func(*http.Request, Q) (A, error) { return a, nil })
}

// site is a page in front of a daemon that says what the test wants.
type site struct {
	t *testing.T
	*httptest.Server
	client  *http.Client
	who     *web.Server
	desired web.Desired
	applied *[]api.Commit
	users   []string
}

const runningText = "version: 1\nsystem: {hostname: attic}\n"

func newSite(t *testing.T) *site {
	t.Helper()
	hash, err := web.Hash("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := config.ParseSecrets("secrets", []byte("p: \""+hash+"\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("c", []byte("version: 1\ninterfaces: {lan: {addresses: [192.0.2.1/24]}}\nservices: {web: {interfaces: [lan], users: {ana: {role: admin, secret: p}, ben: {role: read, secret: p}}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	x := &site{t: t, who: web.New(t.TempDir(), log), applied: new([]api.Commit)}
	if x.desired, err = x.who.Render(cfg, secrets); err != nil {
		t.Fatal(err)
	}
	x.who.Trust(x.desired)
	s := api.NewServer(log)
	api.Serve(s, api.GetStatus, func(*http.Request, api.Empty) (api.Status, error) {
		return api.Status{State: api.Degraded, Running: 3, Faults: []health.Fault{{Key: "lan", Text: hostile}}, Degraded: []string{hostile}}, nil
	})
	view[router.ConfigQuestion](s, "config", api.Revision{Text: runningText})
	view[router.Nothing](s, "interfaces", show.InterfacesView{Interfaces: []kernel.Interface{{Name: "lan", Description: hostile, State: "up"}}})
	view[router.Nothing](s, "dhcp", show.DHCPView{Given: []dnsmasq.Lease{{MAC: "02:00:00:00:00:01", Name: hostile}}})
	view[router.Nothing](s, "lldp/neighbors", lldp.Observed{On: true, Running: true, Neighbors: []lldp.Neighbor{{Interface: "lan", System: hostile, Port: hostile, Chassis: hostile}}})
	view[router.LogQuestion](s, "log", show.LogView{Lines: []string{hostile, hostile}})
	view[router.Nothing](s, "rates", show.RatesView{Rates: []show.RateView{{Name: "lan", Windows: []show.RateWindow{{Seconds: 1, RxBits: 1000}}}}})
	api.Serve(s, api.GetRevisions, func(*http.Request, api.Empty) (api.Revisions, error) {
		return api.Revisions{Revisions: []api.Revision{{Revision: revisions.Revision{Number: 2, User: hostile, Comment: hostile}}}}, nil
	})
	api.Serve(s, api.GetRevision, func(*http.Request, api.RevisionQuestion) (api.Revision, error) {
		return api.Revision{Revision: revisions.Revision{Number: 2, Comment: hostile}, Text: "version: 1\n# " + hostile + "\n"}, nil
	})
	api.Serve(s, api.Plan, func(_ *http.Request, q api.Commit) (api.Result, error) {
		if _, err := config.Parse(q.Source, []byte(q.Config)); err != nil {
			return api.Result{}, &api.Error{Kind: api.Invalid, Message: err.Error()}
		}
		return api.Result{Outcome: api.Planned, Changes: []plan.Change{{Action: plan.Add, Object: hostile}}, Warnings: []string{hostile}}, nil
	})
	api.Serve(s, api.Apply, func(r *http.Request, q api.Commit) (api.Result, error) {
		*x.applied = append(*x.applied, q)
		x.users = append(x.users, api.PeerOf(r.Context()).User)
		return api.Result{Outcome: api.Awaiting}, nil
	})
	x.Server = httptest.NewTLSServer(New(s, x.who, log))
	t.Cleanup(x.Close)
	x.client = x.browser()
	return x
}

// browser is one without cookies.
func (x *site) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

func (x *site) ask(method, path string, form url.Values, change ...func(*http.Request)) (*http.Response, string) {
	x.t.Helper()
	r, err := http.NewRequest(method, x.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		x.t.Fatal(err)
	}
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range change {
		c(r)
	}
	resp, err := x.client.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return resp, string(text)
}

func (x *site) login(user string) {
	x.t.Helper()
	if resp, text := x.ask("POST", "/login", url.Values{"user": {user}, "password": {"correct horse"}}); resp.StatusCode != http.StatusSeeOther {
		x.t.Fatalf("login of %s: %s\n%s", user, resp.Status, text)
	}
}

// mark is that of the session's forms.
func (x *site) mark() string {
	x.t.Helper()
	_, text := x.ask("GET", "/configuration", nil)
	m := regexp.MustCompile(`name="form" value="([A-Z2-7]+)"`).FindStringSubmatch(text)
	if m == nil {
		x.t.Fatalf("no form in\n%s", text)
	}
	return m[1]
}

// Names that strangers choose are text on every page, and pages are small, with a head that lets a browser run nothing else.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	x.login("ana")
	for _, path := range []string{"/", "/show/interfaces", "/show/dhcp", "/show/lldp/neighbors", "/show/log", "/revisions", "/revisions/2", "/configuration",
		"/explain?in=" + url.QueryEscape(hostile) + "&src=" + url.QueryEscape(hostile) + "&dst=" + url.QueryEscape(hostile),
		"/show/log?lines=" + url.QueryEscape(hostile), "/show/" + url.PathEscape(hostile), "/nowhere"} {
		resp, text := x.ask("GET", path, nil)
		if strings.Contains(text, "<script>") || strings.Contains(text, "<img") || resp.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s has markup of a stranger in it:\n%s", path, text)
		}
		if !strings.Contains(text, "attic") || len(text) > 60_000 {
			t.Errorf("%s: %s, %d bytes\n%.3000s", path, resp.Status, len(text), text)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") || !strings.HasPrefix(csp, "default-src 'none'") || resp.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: head %v", path, resp.Header)
		}
	}
	if _, text := x.ask("GET", "/show/dhcp", nil); !strings.Contains(text, "&lt;script&gt;alert(1)") {
		t.Errorf("the name of the host is not shown:\n%s", text)
	}
	_, text := x.ask("POST", "/configuration", url.Values{"form": {x.mark()}, "do": {"check"}, "text": {"version: 1\n# " + strings.ReplaceAll(hostile, "\r\n", " ")}, "comment": {hostile}})
	if strings.Contains(text, "<script>") || !strings.Contains(text, "The configuration is valid") {
		t.Errorf("preview:\n%s", text)
	}
}

// Nothing but the login page, and no file of the router, is there without a login.
func TestNothingWithoutLogin(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	for _, path := range []string{"/", "/show/interfaces", "/configuration", "/revisions/1", "/..%2f..%2f..%2fetc%2fshadow", "/show/..%2f..%2fetc/passwd", "/files/style.css"} {
		if resp, text := x.ask("GET", path, nil); resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/login" || strings.Contains(text, "attic") {
			t.Errorf("%s: %s to %q", path, resp.Status, resp.Header.Get("Location"))
		}
	}
	for path, want := range map[string]int{"/live": 401, "/v1/status": 401, "/style.css": 200, "/script.js": 200, "/login": 200} {
		if resp, _ := x.ask("GET", path, nil); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
	if resp, _ := x.ask("POST", "/configuration", url.Values{"do": {"apply"}, "text": {"version: 1"}}); resp.StatusCode != http.StatusUnauthorized || len(*x.applied) > 0 {
		t.Errorf("apply without login: %s", resp.Status)
	}
	x.login("ana")
	if resp, text := x.ask("GET", "/show/..%2f..%2fetc%2fpasswd", nil); resp.StatusCode != http.StatusNotFound || strings.Contains(text, "root:") {
		t.Errorf("a path that climbs: %s", resp.Status)
	}
}

// A login gives a new secret whatever the browser brought; its cookie is for this site alone; logging out, and a changed
// password, end it.
func TestSessions(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	brought := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie, Value: "CHOSENBYSOMEBODYELSE"}) }
	resp, _ := x.ask("POST", "/login", url.Values{"user": {"ana"}, "password": {"correct horse"}}, brought)
	line := resp.Header.Get("Set-Cookie")
	for _, word := range []string{"__Host-minne=", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(line, word) {
			t.Errorf("cookie %q lacks %s", line, word)
		}
	}
	if strings.Contains(line, "CHOSEN") || len(resp.Header["Set-Cookie"]) != 1 {
		t.Errorf("cookies: %q", resp.Header["Set-Cookie"])
	}
	secret := regexp.MustCompile(`__Host-minne=([A-Z2-7]{26})`).FindStringSubmatch(line)
	if secret == nil {
		t.Fatalf("cookie %q", line)
	}
	if resp, _ := x.ask("GET", "/", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("logged in: %s", resp.Status)
	}
	if resp, _ := x.ask("POST", "/logout", url.Values{"form": {x.mark()}}); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("logout: %s", resp.Status)
	}
	kept := func(r *http.Request) { r.Header.Set("Cookie", cookie+"="+secret[1]) }
	if resp, _ := x.ask("GET", "/", nil, kept); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("the cookie of a login that has ended: %s", resp.Status)
	}
	x.login("ana")
	x.who.Trust(web.Desired{})
	if resp, _ := x.ask("GET", "/", nil); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("somebody who is no user any more: %s", resp.Status)
	}
}

// Forms of other sites and of other logins change nothing; a role that may only look applies nothing.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	x.login("ana")
	mark := x.mark()
	form := func(mark string) url.Values {
		return url.Values{"form": {mark}, "do": {"apply"}, "text": {"version: 1\r\nsystem: {hostname: b}\r\n"}}
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for name, try := range map[string]func() (*http.Response, string){
		"no mark":    func() (*http.Response, string) { return x.ask("POST", "/configuration", form("")) },
		"wrong mark": func() (*http.Response, string) { return x.ask("POST", "/configuration", form("AAAA")) },
		"other site": func() (*http.Response, string) {
			return x.ask("POST", "/configuration", form(mark), header("Sec-Fetch-Site", "cross-site"))
		},
		"other origin": func() (*http.Response, string) {
			return x.ask("POST", "/configuration", form(mark), header("Origin", "https://evil.example"))
		},
	} {
		if resp, _ := try(); resp.StatusCode != http.StatusForbidden || len(*x.applied) > 0 {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	if resp, _ := x.ask("POST", "/login", url.Values{"user": {"ana"}, "password": {"correct horse"}}, header("Origin", "https://evil.example")); resp.StatusCode != http.StatusForbidden {
		t.Errorf("login from another site: %s", resp.Status)
	}
	if resp, text := x.ask("POST", "/configuration", form(mark)); resp.StatusCode != http.StatusSeeOther || len(*x.applied) != 1 {
		t.Fatalf("apply: %s\n%s", resp.Status, text)
	}
	if q := (*x.applied)[0]; q.Config != "version: 1\nsystem: {hostname: b}\n" || q.Confirm != confirmTime || x.users[0] != "ana@web" {
		t.Errorf("applied %+v as %q", q, x.users)
	}
	x.client = x.browser()
	x.login("ben")
	_, page := x.ask("GET", "/configuration", nil)
	if strings.Contains(page, `value="apply"`) {
		t.Error("who may only look has a button to apply")
	}
	if resp, text := x.ask("POST", "/configuration", form(x.mark())); resp.StatusCode == http.StatusSeeOther || len(*x.applied) != 1 || !strings.Contains(text, "has the role read") {
		t.Errorf("apply by who may only look: %s\n%s", resp.Status, text)
	}
}

// The checker's messages come with the line, and what was typed is still there.
func TestEditorShowsTheLine(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	x.login("ana")
	resp, text := x.ask("POST", "/configuration", url.Values{"form": {x.mark()}, "do": {"check"}, "text": {"version: 1\nsystem:\n  hostnam: attic\n"}})
	for _, want := range []string{"Refused; nothing was changed", "configuration:3:3", `data-line="3"`, "did you mean hostname?", "hostnam: attic\n</textarea>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s, no %q in\n%s", resp.Status, want, text)
		}
	}
}

// Who guesses waits, whatever the name, also with the right password; another address does not.
func TestBruteForce(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	statuses := map[int]int{}
	for range 7 {
		resp, _ := x.ask("POST", "/login", url.Values{"user": {"ana"}, "password": {"guess"}})
		statuses[resp.StatusCode]++
	}
	resp, text := x.ask("POST", "/login", url.Values{"user": {"ana"}, "password": {"correct horse"}})
	if statuses[401] != 5 || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(text, "too many failed logins") {
		t.Errorf("%v, then %s", statuses, resp.Status)
	}
	x.login("ben")
}

// A live page hears of rates until its login ends.
func TestLive(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	x.login("ben")
	resp, err := x.client.Get(x.URL + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	d := make([]byte, 4096)
	n, err := resp.Body.Read(d)
	text, ok := strings.CutPrefix(string(d[:n]), "data: ")
	var said news
	if err != nil || !ok || resp.Header.Get("Content-Type") != "text/event-stream" || json.Unmarshal([]byte(text), &said) != nil || said.Rates[0].RX != 1000 || said.State != api.Degraded {
		t.Fatalf("%v: %q", err, d[:n])
	}
	x.who.Trust(web.Desired{})
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("after the login: %v", err)
	}
}
