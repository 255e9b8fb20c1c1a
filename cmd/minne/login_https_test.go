// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const portalConfig = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8:1::1/64"], zone: guests}
  wan: {addresses: [198.51.100.1/24], zone: wan}
firewall:
  policies:
    - {from: guests, to: wan, default: permit}
services:
  dns: {interfaces: [lan], upstream: [198.51.100.9]}
  dhcp: {lan: {pool: 192.0.2.100-192.0.2.150}}
  router-advertisements: {lan: {prefixes: ["2001:db8:1::/64"]}}
  login:
    village: {interfaces: [lan], users: [vouchers], name: login.example.org, TLS}
`

// The portal by HTTPS: systems of hosts are told of it, port 80 leads to it, and forms work by it alone.
func TestLoginHTTPS(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	g := guest{b.newNeighbour("lan")}
	isp := b.newNeighbour("wan")
	isp.run("ip addr add 198.51.100.9/24 dev eth0 && ip route add 192.0.2.0/24 via 198.51.100.1")
	isp.write("index.html", "outside")
	isp.serve("exec python3 -m http.server 443 --bind ::")
	b.start()
	made := func(name, host string) {
		t.Helper()
		path := b.here(name+".key", "", 0o600)
		out, err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj", "/CN="+host, "-addext", "subjectAltName=DNS:"+host,
			"-keyout", path, "-out", filepath.Join(filepath.Dir(path), name+".pem")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	made("other", "www.example.org")
	made("portal", "login.example.org")
	with := func(keys string) string { return b.file("login.yaml", strings.Replace(portalConfig, "TLS", keys, 1)) }
	b.want(0, "not told where the portal is (RFC 8910)", "check", with("title: Village"))
	b.want(4, "www.example.org", "apply", with("certificate: other.pem, key: other.key"))
	b.want(0, "applied", "apply", with("certificate: portal.pem, key: portal.key"))

	g.write("event", "#!/bin/sh\n[ \"$1\" = bound ] || exit 0\nip addr replace $ip/$mask dev $interface\nip route replace default via $router\necho \"$opt114\" >told\n")
	eventually(t, "an address", func() bool {
		_, err := g.try("chmod +x event && udhcpc -q -n -f -i eth0 -t 3 -T 1 -O 114 -s $PWD/event")
		return err == nil
	})
	const api = "https://login.example.org/captive-portal/api"
	if told, _ := hex.DecodeString(strings.TrimSpace(g.run("cat told"))); string(told) != api {
		t.Errorf("DHCP option 114: %q", told)
	}
	curl := "--resolve login.example.org:443:192.0.2.1 --cacert " + filepath.Join(filepath.Dir(b.here("x", "", 0o644)), "portal.pem") + " "
	eventually(t, "the portal", func() bool { return strings.Contains(g.get(curl+api), `"captive":true`) })
	if page := g.get(curl + api); !strings.Contains(page, "application/captive+json") || !strings.Contains(page, `"user-portal-url":"https://login.example.org/"`) {
		t.Errorf("RFC 8908: %s", page)
	}
	for _, url := range []string{"http://198.51.100.9/x?y=1", "http://192.0.2.1/", "http://192.0.2.1/captive-portal/api"} {
		if page := g.get(url); !strings.Contains(page, "Location: https://login.example.org/\r") {
			t.Errorf("%s: %s", url, page)
		}
	}
	if page := g.get("'http://login.example.org/?voucher=ABCDEFGHJK' --resolve login.example.org:80:192.0.2.1"); !strings.Contains(page, "Location: https://login.example.org/?voucher=ABCDEFGHJK\r") {
		t.Errorf("a QR code of former days: %s", page)
	}
	if out, err := g.try("curl -s -m 5 -k https://198.51.100.9/"); err == nil {
		t.Errorf("somebody answers for a host's port 443: %s", out)
	}
	code := regexp.MustCompile(`[2-9A-Z]{5}-[2-9A-Z]{5}`).FindString(b.want(0, "", "login", "voucher", "add", "--time", "7d").out)
	token := tokenField.FindStringSubmatch(g.get(curl + "https://login.example.org/"))
	if token == nil {
		t.Fatal("no form")
	}
	form := "-d token=" + token[1] + " -d voucher=" + code
	if page := g.get(form + " http://192.0.2.1/login"); !strings.Contains(page, "302 Found") {
		t.Errorf("a form by HTTP: %s", page)
	}
	if page := g.get(curl + form + " -H 'Origin: http://login.example.org' https://login.example.org/login"); !strings.Contains(page, " 403") {
		t.Errorf("a form of a page by HTTP: %s", page)
	}
	if page := g.get(curl + form + " -H 'Origin: https://login.example.org' https://login.example.org/login"); !strings.Contains(page, " 303") {
		t.Fatalf("a voucher is refused: %s", page)
	}
	if !g.reaches("http://198.51.100.9:443/") {
		t.Error("logged in, and shut")
	}
	if page := g.get(curl + api); !strings.Contains(page, `"captive":false`) || !strings.Contains(page, `"seconds-remaining":60`) {
		t.Errorf("RFC 8908, logged in: %s", page)
	}
}
