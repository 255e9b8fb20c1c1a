// SPDX-License-Identifier: Apache-2.0

package login

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"minne/internal/base/acme"
	"minne/internal/base/certfile"
	"minne/internal/model/config"
	"minne/internal/subsystem/services/service"
)

// The portal is an HTTP server on each interface, bound to it, so that it answers nobody else. The firewall leads requests of unknown
// hosts for any page to its port 80; their port 443 is never touched. A host is known by its MAC address, so there are no cookies, and what is typed
// in stands in no address and no log.

//go:embed pages/*.html
var pageFiles embed.FS

var pages = template.Must(template.ParseFS(pageFiles, "pages/*.html"))

// page is the portal on one interface, for resident.
type page struct {
	Login string
	Title string
	Files certfile.Files
	Tells announcement
}

func (d Desired) pages() map[string]page {
	all := map[string]page{}
	for name, s := range d {
		for _, i := range s.Login.Interfaces {
			all[i] = page{name, s.Login.Title, s.Files, s.Tells[i]}
		}
	}
	return all
}

func pageFact(iface string, p page) string {
	if p.Files != (certfile.Files{}) {
		return fmt.Sprintf("login %s on %s by HTTPS", p.Login, iface)
	}
	return fmt.Sprintf("login %s on %s", p.Login, iface)
}

// Bounds of the server.
const (
	mostBody        = 4096
	mostHeader      = 16 << 10
	mostConnections = 2000
	mostOfHost      = 16
	tokenLasts      = time.Hour
)

// portal answers the hosts of one interface.
type portal struct {
	l     *Login
	iface string
	login string
}

// shown is what templates are made of.
type shown struct {
	Title, Page, Error, Token, Code, User string
	Users, Vouchers, Agree                bool
	Terms                                 []string
	TimeLeft, BytesLeft, Sent, Received   string
}

// asking is a request with who it is from.
type asking struct {
	mac     config.MAC
	address netip.Addr
	s       Settings
	session *Session // a copy; nil for nobody
	left    *uint64  // bytes; nil for any number
}

func (p *portal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Connection", "close")
	if strings.HasPrefix(r.URL.Path, acme.ChallengePath) && r.TLS == nil && strings.EqualFold(hostOf(r), p.l.nameOf(p.login)) {
		p.l.proofs.ServeHTTP(w, r)
		return
	}
	a, err := p.who(r)
	if err != nil {
		p.page(w, http.StatusForbidden, &shown{Title: a.s.Login.Title, Page: "message", Error: err.Error()})
		return
	}
	if to := p.elsewhere(r, a.s); to != "" {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	post := r.Method == http.MethodPost
	switch {
	case r.URL.Path == "/captive-portal/api" && !post:
		p.api(w, a)
	case r.URL.Path == "/terms" && !post:
		p.show(w, a, "terms", "")
	case r.URL.Path == "/" && !post:
		p.front(w, r, a, "")
	case r.URL.Path == "/login" && post:
		p.answer(w, r, a, p.enter)
	case r.URL.Path == "/logout" && post:
		p.answer(w, r, a, p.leave)
	case r.Method != http.MethodGet && r.Method != http.MethodHead && !post:
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		http.Redirect(w, r, "/", http.StatusFound)
	}
}

// who finds out which host asks.
func (p *portal) who(r *http.Request) (a asking, err error) {
	p.l.mu.Lock()
	a.s = p.l.settings[p.login]
	p.l.mu.Unlock()
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return a, err
	}
	a.address = from.Addr().WithZone("").Unmap()
	mac, ok := p.l.hosts.mac(p.iface, a.address)
	if !ok {
		return a, errors.New("the router does not know your device yet: load the page again")
	}
	a.mac = mac
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if s := p.l.sessions[hostID{p.login, mac}]; s != nil {
		copied := *s
		a.session = &copied
		if left, bounded := p.l.bytesLeft(s); bounded {
			a.left = &left
		}
	}
	return a, nil
}

// elsewhere is where a request has to go first: to the portal, and to HTTPS when it has that. The code of a voucher goes with it.
func (p *portal) elsewhere(r *http.Request, s Settings) string {
	p.l.mu.Lock()
	secure := p.l.secure(p.login)
	p.l.mu.Unlock()
	here := p.here(r, s)
	switch {
	case secure && r.TLS == nil && here && r.URL.RawQuery != "":
		return "https://" + s.Login.Name + "/?" + r.URL.RawQuery
	case secure && (r.TLS == nil || !here):
		return "https://" + s.Login.Name + "/"
	case !here:
		return "http://" + p.l.host(p.login, r) + "/"
	}
	return ""
}

// here says whether a request is for the portal, and not for a page elsewhere whose name led to it.
func (p *portal) here(r *http.Request, s Settings) bool {
	host := hostOf(r)
	if s.Login.Name != "" && strings.EqualFold(host, s.Login.Name) {
		return true
	}
	a, err := netip.ParseAddr(host)
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if err != nil || !ok {
		return false
	}
	own, _ := netip.AddrFromSlice(local.IP)
	return a.WithZone("") == own.Unmap().WithZone("")
}

// hostOf is the host that a request names, without the port.
func hostOf(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.Trim(host, "[]")
}

func (l *Login) nameOf(login string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settings[login].Login.Name
}

// host is the portal's name, or its address that was asked.
func (l *Login) host(login string, r *http.Request) string {
	name := l.nameOf(login)
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && name == "" {
		a, _ := netip.AddrFromSlice(local.IP)
		if a = a.Unmap(); a.Is4() {
			return a.String()
		}
		return "[" + a.String() + "]"
	}
	return name
}

// address is the portal's for vouchers. The caller holds mu.
func (l *Login) address(login string) string {
	s := l.settings[login]
	switch {
	case l.secure(login):
		return "https://" + s.Login.Name + "/"
	case s.Login.Name != "":
		return "http://" + s.Login.Name + "/"
	case s.Resolver.Is4():
		return "http://" + s.Resolver.String() + "/"
	}
	return "http://[" + s.Resolver.String() + "]/"
}

// front is the first page: the login, or the state of the session.
func (p *portal) front(w http.ResponseWriter, r *http.Request, a asking, problem string) {
	if a.session != nil {
		p.show(w, a, "status", problem)
		return
	}
	code := readCode(r.URL.Query().Get("voucher"))
	if len(code) != codeLength || strings.Trim(code, alphabet) != "" {
		code = ""
	} else {
		code = spelled(code)
	}
	p.shows(w, a, &shown{Page: "login", Error: problem, Code: code})
}

func (p *portal) show(w http.ResponseWriter, a asking, name, problem string) {
	p.shows(w, a, &shown{Page: name, Error: problem})
}

// shows fills in what all pages have.
func (p *portal) shows(w http.ResponseWriter, a asking, v *shown) {
	users := a.s.Login.Users
	v.Title, v.Terms, v.Token = a.s.Login.Title, a.s.Terms, p.l.token(p.login, a.mac, p.l.clock())
	v.Vouchers, v.Users, v.Agree = slices.Contains(users, "vouchers"), slices.Contains(users, "local") || slices.Contains(users, "radius"), len(a.s.Terms) > 0
	if s := a.session; s != nil {
		left := s.left(p.l.clock())
		v.User, v.Sent, v.Received = s.User, service.Amount(int64(s.Traffic.Sent)), service.Amount(int64(s.Traffic.Received))
		if left > 0 {
			v.TimeLeft = spanWords(left)
		}
		if a.left != nil {
			v.BytesLeft = service.Amount(int64(*a.left))
		}
	}
	status := http.StatusOK
	if v.Error != "" {
		status = http.StatusForbidden
	}
	p.page(w, status, v)
}

// spanWords are the two largest parts of a time.
func spanWords(d time.Duration) string {
	days, hours, minutes := int(d/(24*time.Hour)), int(d/time.Hour)%24, int(d/time.Minute)%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d days %d hours", days, hours)
	case hours > 0:
		return fmt.Sprintf("%d hours %d minutes", hours, minutes)
	}
	return fmt.Sprintf("%d minutes", max(1, minutes))
}

func (p *portal) page(w http.ResponseWriter, status int, v *shown) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, "page.html", v); err != nil {
		p.l.log.Error("cannot write a login page", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// api is the state for the host's system (RFC 8908).
func (p *portal) api(w http.ResponseWriter, a asking) {
	p.l.mu.Lock()
	v := map[string]any{"captive": a.session == nil, "user-portal-url": p.l.address(p.login)}
	p.l.mu.Unlock()
	if s := a.session; s != nil {
		left := s.left(p.l.clock())
		if left > 0 {
			v["seconds-remaining"] = int64(left / time.Second)
		}
		if a.left != nil {
			v["bytes-remaining"] = *a.left
		}
	}
	w.Header().Set("Content-Type", "application/captive+json")
	_ = json.NewEncoder(w).Encode(v)
}

// answer does what a form asks for, when it is one of the portal's that this host was shown.
func (p *portal) answer(w http.ResponseWriter, r *http.Request, a asking, do func(*http.Request, asking) error) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	if err := r.ParseForm(); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "null" && origin != scheme(r)+"://"+r.Host {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if !p.l.goodToken(p.login, a.mac, r.PostForm.Get("token")) {
		p.front(w, r, a, "The page was too old. Try again.")
		return
	}
	err := do(r, a)
	var words refusal
	switch {
	case errors.As(err, &words):
		p.front(w, r, a, string(words))
	case err != nil:
		p.l.log.Error("a login failed", "login", p.login, "mac", a.mac, "error", err)
		p.front(w, r, a, "Something is wrong with the router. Tell the operator.")
	default:
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// enter logs in.
func (p *portal) enter(r *http.Request, a asking) error {
	if len(a.s.Terms) > 0 && r.PostForm.Get("agree") == "" {
		return refusal("You have to agree to the terms of use.")
	}
	s := &Session{Login: p.login, MAC: a.mac, Addresses: []netip.Addr{a.address}, Idle: Span(a.s.Login.Idle)}
	user, password, code := strings.TrimSpace(r.PostForm.Get("user")), r.PostForm.Get("password"), r.PostForm.Get("voucher")
	if strings.TrimSpace(code) != "" {
		user = ""
	} else if !validName(user) || password == "" || len(password) > longestPass {
		return errWrong
	}
	keys := keysOf(p.login, a.mac, user)
	l := p.l
	l.mu.Lock()
	wait := l.locked(keys)
	l.mu.Unlock()
	if wait > 0 {
		return waitWords(wait)
	}
	var err error
	if user == "" {
		if !slices.Contains(a.s.Login.Users, "vouchers") {
			return errWrong
		}
	} else {
		err = p.check(r.Context(), a, s, user, password)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
	case !l.mayHave(s, a.address):
		err = refusal("Another device that is logged in has your address.")
	case user == "":
		err = l.byVoucher(s, code)
	default:
		if err = l.fits(s, a.s.Login.Devices); err == nil {
			err = l.begin(s)
		}
	}
	if err == errWrong {
		l.failed(&a.s.Login, keys)
	}
	return err
}

// check asks who knows the user.
func (p *portal) check(ctx context.Context, a asking, s *Session, user, password string) error {
	s.User = user
	if d := a.s.Login.Time; d != 0 {
		s.Until = p.l.clock().Add(d.Std())
	}
	err := error(errWrong)
	for _, kind := range a.s.Login.Users {
		switch kind {
		case "local":
			s.Kind, err = kind, local(a.s.Users, user, password)
		case "radius":
			s.Kind, err = kind, p.l.radius.ask(ctx, a.s, s, user, password)
		default:
			continue
		}
		if err == nil {
			break
		}
	}
	return err
}

// leave logs out.
func (p *portal) leave(_ *http.Request, a asking) error {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	p.l.end(hostID{p.login, a.mac}, "logged out by the user")
	return nil
}

// token is the proof that a form is the portal's, for this host and for an hour or two.
func (l *Login) token(login string, mac config.MAC, at time.Time) string {
	h := hmac.New(sha256.New, l.key[:])
	_ = binary.Write(h, binary.BigEndian, at.Unix()/int64(tokenLasts/time.Second))
	h.Write(mac[:])
	h.Write([]byte(login))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}

func (l *Login) goodToken(login string, mac config.MAC, given string) bool {
	now := l.clock()
	good := hmac.Equal([]byte(given), []byte(l.token(login, mac, now)))
	return hmac.Equal([]byte(given), []byte(l.token(login, mac, now.Add(-tokenLasts)))) || good
}
