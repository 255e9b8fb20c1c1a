// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"minne/internal/model/api"
)

// browser is a person or a program behind a port of the router, which remembers cookies.
type browser struct {
	*neighbour
	http.Client
	base  string
	token string
	print *atomic.Value // SHA-256 of the certificate that was shown
}

// browses returns a browser of the page at an address.
func (n *neighbour) browses(address string) *browser {
	n.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		n.t.Fatal(err)
	}
	br := &browser{neighbour: n, base: "https://" + address, print: new(atomic.Value)}
	br.Client = http.Client{Jar: jar, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(_ context.Context, network, address string) (net.Conn, error) { return n.dial(network, address) },
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
				br.print.Store(fmt.Sprintf("%X", sha256.Sum256(raw[0])))
				return nil
			}},
		}}
	n.t.Cleanup(br.CloseIdleConnections)
	return br
}

// ask sends a request and returns status, body and head.
func (br *browser) ask(method, path string, body any, change ...func(*http.Request)) (int, string, http.Header) {
	br.t.Helper()
	var reader io.Reader
	kind := "application/json"
	switch v := body.(type) {
	case nil:
	case url.Values:
		reader, kind = strings.NewReader(v.Encode()), "application/x-www-form-urlencoded"
	case string:
		reader = strings.NewReader(v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			br.t.Fatal(err)
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequest(method, br.base+path, reader)
	if err != nil {
		br.t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	if br.token != "" {
		r.Header.Set("Authorization", "Bearer "+br.token)
	}
	for _, c := range change {
		c(r)
	}
	resp, err := br.Do(r)
	if err != nil {
		br.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		br.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// want asks and wants a status, and words in the answer.
func (br *browser) want(status int, words, method, path string, body any) string {
	br.t.Helper()
	got, text, _ := br.ask(method, path, body)
	if got != status || !strings.Contains(text, words) {
		br.t.Errorf("%s %s: %d, want %d and %q\n%.1500s", method, path, got, status, words, text)
	}
	return text
}

// token makes one with the command and returns it.
func (b *box) token(name, role string) string {
	b.t.Helper()
	a := b.want(0, "token: minne-", "web", "token", name, "--role", role)
	return regexp.MustCompile(`minne-[a-z2-7]{26}`).FindString(a.out)
}

// webText is a router with the page in the LAN.
func webText(b *box, services string) string {
	return b.file("web.yaml", `version: 1
system: {hostname: attic}
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8::1/64"], zone: lan}
  wan: {addresses: [198.51.100.1/24], zone: wan}
firewall:
  policies:
    - {from: self, to: any, default: deny}
fast-path: {mode: generic}
services: {`+services+"}\n")
}

// The API of the socket is there over HTTPS for who has a token, only in the LAN, with what the token's role may; who
// guesses tokens waits. Every write is in the log, no token is.
func TestWebAPI(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	lan, wan := b.newNeighbour("lan"), b.newNeighbour("wan")
	lan.run("ip addr add 192.0.2.9/24 dev eth0 && ip addr add 192.0.2.10/24 dev eth0 && ip -6 addr add 2001:db8::9/64 dev eth0 nodad")
	wan.run("ip addr add 198.51.100.9/24 dev eth0 && ip route add 192.0.2.0/24 via 198.51.100.1")
	b.start()
	tokens := map[string]string{}
	for _, role := range []string{"read", "operate", "admin"} {
		tokens[role] = b.token("t-"+role, role)
	}
	const web = "web: {interfaces: [lan], tokens: {t-read: {role: read, secret: web-token-t-read}, t-operate: {role: operate, secret: web-token-t-operate}%s}}"
	b.want(0, "the web page is off", "show", "web")
	file := webText(b, fmt.Sprintf(web, ", t-admin: {role: admin, secret: web-token-t-admin}"))
	b.want(0, "web page and API on lan", "apply", "--dry-run", file)
	b.want(0, "applied", "apply", file)
	b.want(0, "nothing to change", "apply", file)
	shown := b.want(0, "https on lan (port 443)", "show", "web")
	for _, line := range []string{"t-read: read", "t-admin: admin", "self-signed certificate"} {
		if !strings.Contains(shown.out, line) {
			t.Errorf("no %q in\n%s", line, shown.out)
		}
	}
	if st, err := os.Stat(filepath.Join(b.root, "etc/minne/instances", b.name, "web/key.pem")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", st, err)
	}

	br := lan.browses("192.0.2.1")
	br.want(401, "takes a token", "GET", "/v1/status", nil)
	br.token = tokens["read"]
	br.want(200, `"instance"`, "GET", "/v1/status", nil)
	if words := strings.NewReplacer(":", "", "\n", "", " ", "").Replace(shown.out); !strings.Contains(words, br.print.Load().(string)[:32]) {
		t.Errorf("the certificate %s is not the one of\n%s", br.print.Load(), shown.out)
	}
	br.want(200, `"openapi"`, "GET", "/v1/openapi.json", nil)
	br.want(200, `"name":"lan"`, "GET", "/v1/show/interfaces", nil)
	br.want(403, "has the role read", "POST", "/v1/clear/counters", "{}")
	br.token = tokens["operate"]
	br.want(200, "", "POST", "/v1/clear/counters", "{}")
	br.want(403, "has the role operate", "POST", "/v1/apply", api.Commit{Config: "version: 1\n"})
	br.token = tokens["admin"]
	br.want(422, "unknown key", "POST", "/v1/apply", api.Commit{Config: "versoin: 1\n"})
	br.want(200, `"unchanged"`, "POST", "/v1/plan", api.Commit{Config: b.read(file)})
	if _, _, h := br.ask("GET", "/v1/status", nil); h.Get("X-Frame-Options") != "DENY" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("Strict-Transport-Security") == "" {
		t.Errorf("head: %v", h)
	}
	six := lan.browses("[2001:db8::1]")
	six.token = tokens["read"]
	six.want(200, "attic", "GET", "/v1/show/config", nil)

	// By the WAN nobody is there, neither at the router's address of the WAN nor at that of the LAN.
	for _, at := range []string{"198.51.100.1:443", "192.0.2.1:443"} {
		if c, err := wan.dial("tcp", at); err == nil {
			c.Close()
			t.Errorf("the WAN reached %s", at)
		}
	}
	// A token that is taken away is refused at once; who guesses waits, and nobody else does.
	b.want(0, "token t-admin of the API", "apply", webText(b, fmt.Sprintf(web, "")))
	br.want(401, "no such token", "GET", "/v1/status", nil)
	br.token = "minne-guess"
	status := 0
	for range 10 {
		if status, _, _ = br.ask("GET", "/v1/status", nil); status == http.StatusTooManyRequests {
			break
		}
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("after 10 guesses: %d", status)
	}
	six.want(200, "instance", "GET", "/v1/status", nil)

	log := b.want(0, `user=token:t-operate@web role=operate from=192.0.2.9 method=POST path=/v1/clear/counters status=200`, "show", "log", "--lines", "500").out
	for role, token := range tokens {
		if strings.Contains(log, token) {
			t.Errorf("the token of %s is in the log", role)
		}
	}
}

// Somebody logs in with the password of the command, sees the router, applies a configuration on trial and keeps it, in the
// browser alone; the revision has his name. A role that may only look can't.
func TestWebPage(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	lan := b.newNeighbour("lan")
	lan.run("ip addr add 192.0.2.9/24 dev eth0")
	b.start()
	made := b.want(0, "password of ana: ", "web", "user", "add", "ana", "--role", "admin", "--random").out
	password := regexp.MustCompile(`password of ana: (\S+)`).FindStringSubmatch(made)[1]
	file := webText(b, "web: {interfaces: [lan], users: {ana: {role: admin, secret: web-ana}, ben: {role: read, secret: web-ana}}}")
	b.want(0, "applied", "apply", file)
	br := lan.browses("192.0.2.1")
	br.want(303, "", "GET", "/", nil)
	br.want(401, "wrong name or password", "POST", "/login", url.Values{"user": {"ana"}, "password": {"guess"}})
	br.want(303, "", "POST", "/login", url.Values{"user": {"ana"}, "password": {password}})
	br.want(200, "attic", "GET", "/", nil)
	for _, path := range []string{"/show/interfaces", "/show/ip/route?prefix=192.0.2.9", "/show/firewall", "/show/drops", "/show/flows/summary", "/show/services", "/show/fast-path", "/show/log", "/show/web",
		"/explain?in=lan&src=192.0.2.9&dst=198.51.100.9&proto=tcp&sport=4000&dport=80"} {
		if text := br.want(200, "<h1>", "GET", path, nil); strings.Contains(text, `class="trouble"`) {
			t.Errorf("%s:\n%s", path, text)
		}
	}
	mark := func() string {
		return regexp.MustCompile(`name="form" value="([A-Z2-7]+)"`).FindStringSubmatch(br.want(200, "", "GET", "/configuration", nil))[1]
	}
	next := url.Values{"form": {mark()}, "do": {"check"}, "comment": {"a better name"}, "text": {strings.ReplaceAll(b.read(file), "attic", "cellar")}}
	br.want(200, "cellar", "POST", "/configuration", next)
	next.Set("do", "apply")
	br.want(303, "", "POST", "/configuration", next)
	br.want(200, "Keep it", "GET", "/", nil)
	br.want(303, "", "POST", "/confirm", url.Values{"form": {mark()}})
	b.want(0, "ana@web", "revisions")
	b.want(0, "cellar", "show", "config")
	br.want(200, "a better name", "GET", "/revisions", nil)
	br.want(200, "attic", "GET", "/revisions/1", nil)
	br.want(303, "", "POST", "/rollback", url.Values{"form": {mark()}, "revision": {"1"}})
	b.want(0, "attic", "show", "config")

	ben := lan.browses("192.0.2.1")
	ben.want(303, "", "POST", "/login", url.Values{"user": {"ben"}, "password": {password}})
	br = ben
	ben.want(403, "has the role read", "POST", "/rollback", url.Values{"form": {mark()}, "revision": {"1"}})
}
