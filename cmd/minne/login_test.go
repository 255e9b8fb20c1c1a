// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/flows"
	"minne/internal/subsystem/services/login"
)

const loginConfig = `version: 1
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8:1::1/64"], zone: guests}
  wan: {addresses: [198.51.100.1/24, "2001:db8:2::1/64"], zone: wan}
zones: {guests: {}, wan: {}}
firewall:
  policies:
    - {from: guests, to: wan, default: permit}
    - {from: guests, to: self, rules: [permit tcp any self 2222]}
fast-path: {mode: generic}
services:
  dns: {interfaces: [lan], upstream: [198.51.100.9], names: {shop.example.org: 198.51.100.9, garden.example.org: 198.51.100.77}}
  dhcp: {lan: {pool: 192.0.2.100-192.0.2.150}}
  router-advertisements: {lan: {prefixes: ["2001:db8:1::/64"]}}
  login:
    village: {interfaces: [lan], users: [vouchers, local], users-file: users.txt, free: [198.51.100.77], name: login.example.org, terms: terms.txt}
`

// guest is a host behind a login, with its own view of the portal.
type guest struct{ *neighbour }

// get asks for a page, and returns its head and body.
func (g guest) get(args string) string {
	g.t.Helper()
	out, _ := g.try("curl -s -i -m 10 " + args)
	return out
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// post sends a form of the portal.
func (g guest) post(path, fields string) string {
	g.t.Helper()
	found := tokenField.FindStringSubmatch(g.get("http://192.0.2.1/"))
	if found == nil {
		g.t.Fatalf("the portal shows no form: %s", g.get("http://192.0.2.1/"))
	}
	return g.get(fmt.Sprintf("-d token=%s -d agree=yes %s http://192.0.2.1%s", found[1], fields, path))
}

// reaches says whether a page outside can be had.
func (g guest) reaches(url string) bool {
	out, err := g.try("curl -s -m 3 -o /dev/null -w '%{http_code} %{redirect_url}' " + url)
	return err == nil && strings.HasPrefix(out, "200")
}

// echoes answers connections with what they say.
func (n *neighbour) echoes(at string) {
	n.t.Helper()
	l := n.hosts(at)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

// speaks connects to an echo.
func (g guest) speaks(to string) connection {
	g.t.Helper()
	c, err := g.dial("tcp", to)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	return connection{g.t, c}
}

// A host without login gets an address, names and the portal, and reaches nothing else, over both families, also when the daemon is dead.
// With a voucher it is admitted, with all its addresses, until it logs out, its voucher is used up or taken away; a restart of the daemon
// changes nothing for it.
func TestLogin(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	g := guest{b.newNeighbour("lan")}
	isp := b.newNeighbour("wan")
	isp.run("ip addr add 198.51.100.9/24 dev eth0 && ip addr add 198.51.100.77/24 dev eth0 && ip addr add 2001:db8:2::9/64 dev eth0 nodad && ip route add 192.0.2.0/24 via 198.51.100.1 && ip -6 route add 2001:db8:1::/64 via 2001:db8:2::1")
	for _, n := range []*neighbour{g.neighbour, isp} {
		n.run("ethtool -K eth0 gro on tx off") // the fast path takes packets with their checksums
	}
	isp.write("index.html", "outside")
	isp.serve("exec python3 -m http.server 80 --bind ::")
	isp.serve("exec python3 -m http.server 443 --bind ::")
	isp.echoes(":90")
	isp.serve(`exec python3 -c "import socket;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.bind(('',53));[s.sendto(b'y',s.recvfrom(99)[1]) for _ in iter(int,1)]"`)
	b.start()
	hash := b.command("login", "hash")
	hash.Stdin = strings.NewReader("correct horse\n")
	hashed, err := hash.Output()
	if err != nil || !strings.HasPrefix(string(hashed), "$6$") {
		t.Fatalf("login hash: %s %v", hashed, err)
	}
	b.here("users.txt", "ada:"+string(hashed), 0o600)
	b.here("terms.txt", "Be kind.\n\nNobody warrants anything.\n", 0o644)
	b.want(0, "applied", "apply", b.file("login.yaml", loginConfig))
	b.want(0, "nothing to change", "apply", b.file("login.yaml", loginConfig))

	// DHCP, and nothing but the portal and what is free.
	g.write("event", `#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr replace $ip/$mask dev $interface
ip route replace default via $router
echo "$ip" >told
`)
	eventually(t, "an address", func() bool {
		_, err := g.try("chmod +x event && udhcpc -q -n -f -i eth0 -t 3 -T 1 -s $PWD/event")
		return err == nil
	})
	g.run("ip -6 addr add 2001:db8:1::66/64 dev eth0 nodad && ip -6 route replace default via 2001:db8:1::1")
	eventually(t, "the redirect", func() bool {
		return strings.Contains(g.get("http://198.51.100.9/x?y=1"), "Location: http://login.example.org/\r")
	})
	eventually(t, "the redirect by IPv6", func() bool {
		return strings.Contains(g.get("'http://[2001:db8:2::9]/'"), "Location: http://login.example.org/\r")
	})
	if out := g.resolve("192.0.2.1", "login.example.org"); !strings.Contains(out, "192.0.2.1") {
		t.Errorf("the portal's name: %s", out)
	}
	closed := func(when string) {
		t.Helper()
		line := ""
		for _, probe := range []string{
			"curl -s -m 2 -o /dev/null http://198.51.100.9:443/", "curl -s -m 2 -o /dev/null 'http://[2001:db8:2::9]:443/'", "curl -s -m 2 -o /dev/null http://192.0.2.1:2222/",
			"ping -c 1 -W 1 198.51.100.9 >/dev/null", "ping -c 1 -W 1 2001:db8:2::9 >/dev/null", "ping -c 1 -W 1 192.0.2.1 >/dev/null",
			`python3 -c "import socket;s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.settimeout(1);s.sendto(b'x',('198.51.100.9',53));s.recv(9)" 2>/dev/null`,
		} {
			line += "{ " + probe + " && echo '" + strings.ReplaceAll(probe, "'", "") + "'; } & "
		}
		if out, _ := g.try(line + "wait"); strings.TrimSpace(out) != "" {
			t.Errorf("%s: an unknown host reaches something: %s", when, out)
		}
	}
	closed("unknown")
	repeated := func() (n uint64) {
		var v fastpath.Observed
		b.json(&v, "show", "fast-path", "--json")
		for _, p := range v.Ports {
			n += p.Forwarded
		}
		return n
	}
	if n := repeated(); n != 0 {
		t.Errorf("the fast path has forwarded %d packets of or to an unknown host", n)
	}
	if !g.reaches("http://198.51.100.77:443/") {
		t.Error("the walled garden is shut")
	}

	page := g.get("http://192.0.2.1/")
	if !strings.Contains(page, "Voucher code") || len(page) > 5<<10 || strings.Contains(page, "<script") {
		t.Errorf("%d bytes of the first page: %s", len(page), page)
	}
	if page := g.get("-d token=x -d agree=yes -d voucher=A http://192.0.2.1/login"); !strings.Contains(page, "too old") {
		t.Errorf("a form of somebody else: %s", page)
	}
	if page := g.get("http://192.0.2.1/captive-portal/api"); !strings.Contains(page, `"captive":true`) || !strings.Contains(page, "application/captive+json") {
		t.Errorf("RFC 8908: %s", page)
	}

	var made login.Vouchers
	if err := json.Unmarshal([]byte(b.want(0, "", "login", "voucher", "add", "--count", "2", "--time", "7d", "--bytes", "20GB", "--comment", "summer", "--json").out), &made); err != nil || len(made.Vouchers) != 2 {
		t.Fatalf("vouchers: %v %v", made, err)
	}
	code := made.Vouchers[0].Code
	if page := g.get("http://192.0.2.1/?voucher=" + code); !strings.Contains(page, `value="`+code+`"`) {
		t.Errorf("the code of a QR code is not filled in: %s", page)
	}
	if page := g.post("/login", "-d voucher="+strings.ToLower(strings.ReplaceAll(code, "-", ""))); !strings.Contains(page, "303 See Other") {
		t.Fatalf("a voucher is refused: %s", page)
	}
	if !g.reaches("http://198.51.100.9:443/") {
		t.Error("logged in, and IPv4 is shut")
	}
	eventually(t, "IPv6 without another login", func() bool { return g.reaches("'http://[2001:db8:2::9]:443/'") })
	g.run("ip -6 addr add 2001:db8:1::67/64 dev eth0 nodad")
	eventually(t, "another address of IPv6", func() bool { return g.reaches("--interface 2001:db8:1::67 'http://[2001:db8:2::9]/'") })
	g.run("curl -s -m 5 http://192.0.2.1:2222/; test $? = 7 && ping -c 1 -W 5 192.0.2.1") // reached, and nobody listens
	if page := g.get("http://192.0.2.1/"); !strings.Contains(page, "You are online") || !strings.Contains(page, "6 days 23 hours") {
		t.Errorf("the state: %s", page)
	}
	b.want(0, "voucher "+code[:3], "show", "login", "users")
	b.want(0, "in use", "login", "voucher", "list")
	b.want(0, "1\n", "login", "count")

	// Neither a commit nor the daemon's death changes anything for either.
	b.want(0, "applied", "apply", b.file("login.yaml", strings.Replace(loginConfig, "self 2222", "self 2223", 1)))
	if !g.reaches("http://198.51.100.9:443/") {
		t.Error("shut by a commit")
	}
	b.end(syscall.SIGKILL)
	if !g.reaches("http://198.51.100.9:443/") {
		t.Error("shut by the daemon's death")
	}
	b.start()
	if !g.reaches("http://198.51.100.9:443/") || !g.reaches("'http://[2001:db8:2::9]:443/'") {
		t.Error("shut by the next daemon")
	}
	b.want(0, "applied", "apply", b.file("login.yaml", loginConfig))

	// Somebody else with the address is refused: another MAC address.
	g.run("ip link set eth0 down && ip link set eth0 address 02:00:00:00:00:99 && ip link set eth0 up && ip route replace default via 192.0.2.1 && ip -6 addr replace 2001:db8:1::66/64 dev eth0 nodad && ip -6 route replace default via 2001:db8:1::1")
	closed("an address of somebody else")
	b.want(0, "logged out", "login", "remove", strings.TrimSpace(g.run("cat told")))

	// A local user; three wrong passwords lock.
	for range 2 {
		if page := g.post("/login", "-d user=ada -d password=wrong"); !strings.Contains(page, "That is not right") {
			t.Errorf("a wrong password: %s", page)
		}
	}
	if page := g.post("/login", "-d user=ada --data-urlencode 'password=correct horse'"); !strings.Contains(page, "303 See Other") {
		t.Errorf("the right password: %s", page)
	}
	if !g.reaches("http://198.51.100.9:443/") {
		t.Error("shut for ada")
	}
	// Logout ends connections in both tables.
	four, six := g.speaks("198.51.100.9:90"), g.speaks("[2001:db8:2::9]:90")
	for _, c := range []connection{four, six} { // admitted hosts are forwarded by the fast path
		b.carried(c, "port", "90", "src", c.LocalAddr().(*net.TCPAddr).IP.String())
	}
	before := repeated()
	if page := g.post("/logout", ""); !strings.Contains(page, "303 See Other") {
		t.Errorf("logout: %s", page)
	}
	eventually(t, "the end of the connections in the kernel", func() bool {
		return !strings.Contains(b.want(0, "", "show", "flows", "port", "90").out, "established")
	})
	var left flows.Summary
	eventually(t, "the end of the connections in the fast path", func() bool {
		b.json(&left, "show", "flows", "summary", "--json")
		return left.FastPath.Connections == 0
	})
	four.wantEcho(false)
	six.wantEcho(false)
	if n := repeated() - before; n != 0 {
		t.Errorf("the fast path has forwarded %d packets after the logout", n)
	}
	b.end(syscall.SIGKILL)
	closed("logged out, and the daemon dead")
	b.start()
	closed("logged out, and a new daemon")
	for range 3 {
		g.post("/login", "-d voucher=AAAAA-AAAAA")
	}
	if page := g.post("/login", "-d voucher="+made.Vouchers[1].Code); !strings.Contains(page, "Too many failed logins") {
		t.Errorf("no lockout: %s", page)
	}
	b.want(0, "02:00:00:00:00:99", "show", "login", "blocks")
	b.want(0, "may log in again", "login", "unblock", "02:00:00:00:00:99")
	if page := g.post("/login", "-d voucher="+made.Vouchers[1].Code); !strings.Contains(page, "303 See Other") {
		t.Errorf("after unblock: %s", page)
	}
	b.want(0, "2 vouchers: deactivated", "login", "voucher", "deactivate", "--comment", "summer")
	closed("with a voucher that was deactivated")
	for _, secret := range []string{code, made.Vouchers[1].Code, "correct horse"} {
		if strings.Contains(b.log.String(), secret) {
			t.Errorf("the log has a secret: %s", secret)
		}
	}
}
