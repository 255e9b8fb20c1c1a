// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
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

// certificate makes a self-signed one, NAME.pem and NAME.key beside the configuration.
func (b *box) certificate(name, of string) (dir string) {
	b.t.Helper()
	path := b.here(name+".key", "", 0o600)
	dir = filepath.Dir(path)
	out, err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9", "-subj", "/CN=test", "-addext", "subjectAltName="+of,
		"-keyout", path, "-out", filepath.Join(dir, name+".pem")).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%v: %s", err, out)
	}
	return dir
}

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
	b.certificate("other", "DNS:www.example.org")
	b.certificate("portal", "DNS:login.example.org")
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
	g.write("ra.py", `import socket,struct,sys
s = socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)
s.setsockopt(41, socket.IPV6_MULTICAST_HOPS, 255)
s.setsockopt(41, socket.IPV6_RECVHOPLIMIT, 1)
s.settimeout(10)
s.sendto(bytes([133, 0, 0, 0, 0, 0, 0, 0]), ("ff02::2%eth0", 0))
while True:
    b, more, _, who = s.recvmsg(1500, 99)
    if b[0] != 134: continue
    hops, head, options = struct.unpack("i", more[0][2])[0], b[5:8], b[16:]
    while options and options[0] != 37: options = options[8*options[1]:]
    if options: sys.exit(print(who[0][:6], hops, head.hex(), len(options) == 8*options[1], options[2:].rstrip(bytes(1)).decode()))
`)
	if told := g.run("exec python3 ra.py"); strings.TrimSpace(told) != "fe80:: 255 000708 True "+api {
		t.Errorf("option 37 of a router advertisement: %s", told)
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

// A portal gets its certificate from an authority that sees the router from outside, and keeps it over a restart; nobody listens
// outside before and after.
func TestLoginACME(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	g := guest{b.newNeighbour("lan")}
	g.run("ip addr add 192.0.2.77/24 dev eth0")
	isp := b.newNeighbour("wan")
	isp.run("ip addr add 198.51.100.9/24 dev eth0")
	dir := b.certificate("authority", "IP:198.51.100.9")
	isp.write("pebble.json", `{"pebble": {"listenAddress": "198.51.100.9:14000", "managementListenAddress": "198.51.100.9:15000", "certificate": "`+dir+`/authority.pem", "privateKey": "`+dir+`/authority.key",
		"httpPort": 80, "tlsPort": 443, "ocspResponderURL": "", "externalAccountBindingRequired": false}}`)
	isp.serve(`exec pebble-challtestsrv -defaultIPv4 198.51.100.1 -defaultIPv6 "" -dns01 198.51.100.9:8053 -management 127.0.0.1:8055 -http01 "" -https01 "" -tlsalpn01 "" >names 2>&1`)
	isp.serve("PEBBLE_VA_NOSLEEP=1 PEBBLE_AUTHZREUSE=0 exec pebble -config pebble.json -dnsserver 198.51.100.9:8053 >said 2>&1")
	eventually(t, "the authority", func() bool { _, err := isp.try("curl -s -k https://198.51.100.9:14000/dir"); return err == nil })
	b.start()
	b.want(0, "applied", "apply", b.file("login.yaml", strings.Replace(portalConfig, "TLS", `acme: {directory: "https://198.51.100.9:14000/dir", ca-certificate: authority.pem, interfaces: [wan]}`, 1)))
	eventually(t, "the certificate", func() bool { _, err := os.Stat(filepath.Join(dir, "acme/login.example.org.pem")); return err == nil })
	g.write("root.pem", isp.run("curl -s -k https://198.51.100.9:15000/roots/0"))
	front := func() bool {
		return strings.Contains(g.get("--cacert root.pem --resolve login.example.org:443:192.0.2.1 https://login.example.org/"), "Voucher code")
	}
	eventually(t, "the portal", front)
	if page := g.get("http://192.0.2.1/"); !strings.Contains(page, "Location: https://login.example.org/\r") {
		t.Errorf("by HTTP: %s", page)
	}
	if out, err := isp.try("curl -s -m 3 http://198.51.100.1/"); err == nil {
		t.Errorf("somebody listens outside: %s", out)
	}
	for _, file := range []string{"login.example.org.pem", "account.key"} {
		if st, err := os.Stat(filepath.Join(dir, "acme", file)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, st, err)
		}
	}
	was := b.read(filepath.Join(dir, "acme/login.example.org.pem"))
	b.end(syscall.SIGKILL)
	b.start()
	eventually(t, "the portal of the next daemon", front)
	if b.read(filepath.Join(dir, "acme/login.example.org.pem")) != was {
		t.Error("a restart took another certificate")
	}
}
