// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// These tests send packets through a router that was given its firewall by minne
// apply: hosts behind the ports of a box.

const schoolConfig = `version: 1
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24, "2001:db8:1::1/64"]}
  wan: {zone: wan, addresses: [198.51.100.1/24, "2001:db8:2::1/64"]}
firewall:
  sets:
    web: {addresses: [192.0.2.10, "2001:db8:1::10"]}
    blocked: {prefixes: [203.0.113.0/24]}
  policies:
    - from: wan
      to: lan
      rules:
        - deny any @blocked
        - permit tcp any @web 80 name "web server"
        - permit tcp any @web 90
    - {from: lan, to: wan, rules: [deny tcp any any 25, permit any]}
    - {from: lan, to: self, rules: [permit tcp any self 22]}
nat:
  - {from: lan, to: wan, masquerade: true}
  - {from: wan, forward: {protocol: tcp, port: 8080, target: 192.0.2.10, target-port: 80}}
`

// host is a machine behind a port of a box.
type host struct {
	t     *testing.T
	netns string
}

// addHost moves the far end of a port into a namespace of its own and gives it addresses.
func (b *box) addHost(port string, addresses map[string]string) *host {
	b.t.Helper()
	h := &host{b.t, newNetns(b.t)}
	far, err := b.links.LinkByName(port + "-far")
	if err != nil {
		b.t.Fatal(err)
	}
	ns, err := netns.GetFromPath(h.netns)
	if err != nil {
		b.t.Fatal(err)
	}
	defer ns.Close()
	if err := b.links.LinkSetNsFd(far, int(ns)); err != nil {
		b.t.Fatal(err)
	}
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		b.t.Fatal(err)
	}
	defer inside.Close()
	far, err = inside.LinkByName(port + "-far")
	if err != nil {
		b.t.Fatal(err)
	}
	lo, err := inside.LinkByName("lo")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, err := range []error{inside.LinkSetUp(lo), inside.LinkSetUp(far)} {
		if err != nil {
			b.t.Fatal(err)
		}
	}
	for address, gateway := range addresses {
		a, err := netlink.ParseAddr(address)
		if err != nil {
			b.t.Fatal(err)
		}
		a.Flags = 2 // IFA_F_NODAD: usable at once
		if err := inside.AddrAdd(far, a); err != nil {
			b.t.Fatal(err)
		}
		if err := inside.RouteAdd(&netlink.Route{LinkIndex: far.Attrs().Index, Gw: net.ParseIP(gateway)}); err != nil {
			b.t.Fatal(err)
		}
	}
	return h
}

// inside runs f in the host's namespace.
func (h *host) inside(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := netns.GetFromPath(h.netns)
		if err == nil {
			err = netns.Set(ns)
			ns.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// serve answers TCP connections with the address that they come from.
func (h *host) serve(address string) {
	h.t.Helper()
	err := h.inside(func() error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		h.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(c, c.RemoteAddr().(*net.TCPAddr).IP)
				c.Close()
			}
		}()
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// echo answers TCP connections with what they say.
func (h *host) echo(address string) {
	h.t.Helper()
	err := h.inside(func() error {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		h.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(c, c) }()
			}
		}()
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// connection is an open connection to an echo.
type connection struct {
	t *testing.T
	net.Conn
}

func (h *host) connect(address string) connection {
	h.t.Helper()
	var c net.Conn
	err := h.inside(func() (err error) {
		c, err = net.DialTimeout("tcp", address, 5*time.Second)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { c.Close() })
	return connection{h.t, c}
}

// wantEcho says something and wants it back, or silence.
func (c connection) wantEcho(want bool) {
	c.t.Helper()
	wait := 5 * time.Second
	if !want {
		wait = time.Second
	}
	_ = c.SetDeadline(time.Now().Add(wait))
	_, err := c.Write([]byte("x"))
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if (err == nil) != want {
		c.t.Errorf("%s to %s: %v, want an echo: %t", c.LocalAddr(), c.RemoteAddr(), err, want)
	}
}

// reach connects and returns what the server said, "refused" or "silence".
func (h *host) reach(address string) (said string) {
	h.t.Helper()
	err := h.inside(func() error {
		c, err := net.DialTimeout("tcp", address, 700*time.Millisecond)
		if err != nil {
			said = "refused"
			if t, ok := err.(net.Error); ok && t.Timeout() {
				said = "silence"
			}
			return nil
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		text, err := io.ReadAll(c)
		said = string(text)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return said
}

func (h *host) wantReach(address, want string) {
	h.t.Helper()
	if got := h.reach(address); got != want {
		h.t.Errorf("connecting to %s: %s, want %s", address, got, want)
	}
}

// nft asks about the box's namespace.
func (b *box) nft(args ...string) string {
	b.t.Helper()
	out, err := exec.Command("nsenter", append([]string{"--net=" + b.netns, "nft"}, args...)...).CombinedOutput()
	if err != nil {
		b.t.Fatalf("nft %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// A host may not have more connections than its zone allows, and others are not hurt.
func TestSourceLimits(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1"})
	for _, h := range []*host{lan, wan} {
		h.echo(":90")
		h.serve(":80")
	}
	b.want(0, "applied", "apply", b.file("limits.yaml", `version: 1
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24]}
  wan: {zone: wan, addresses: [198.51.100.1/24]}
firewall: {policies: [{from: any, to: any, default: permit}]}
limits: [{from: lan, open-connections: 3}, {from: wan, new-connections: 1/d, burst: 2}]
`))
	for range 3 {
		lan.connect("198.51.100.9:90").wantEcho(true)
	}
	lan.wantReach("198.51.100.9:80", "silence")
	wan.wantReach("192.0.2.10:80", "198.51.100.9")
	wan.wantReach("192.0.2.10:80", "198.51.100.9")
	wan.wantReach("192.0.2.10:80", "silence")
	b.want(0, "open connections of each host", "show", "firewall")
}

func TestFirewall(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	lan := b.addHost("lan", map[string]string{"192.0.2.10/24": "192.0.2.1", "2001:db8:1::10/64": "2001:db8:1::1"})
	wan := b.addHost("wan", map[string]string{"198.51.100.9/24": "198.51.100.1", "2001:db8:2::9/64": "2001:db8:2::1"})
	for _, port := range []string{"80", "443"} {
		lan.serve(":" + port)
		wan.serve(":" + port)
	}
	wan.serve(":25")
	wan.echo(":90")
	lan.echo(":90")

	open := b.file("open.yaml", strings.NewReplacer("zone: lan, ", "", "zone: wan, ", "").Replace(schoolConfig[:strings.Index(schoolConfig, "firewall:")]))
	school := b.file("school.yaml", schoolConfig)
	b.want(0, "applied", "apply", open)
	wan.wantReach("192.0.2.10:443", "198.51.100.9")
	eventually(t, "IPv6 through the router", func() bool { return wan.reach("[2001:db8:1::10]:443") == "2001:db8:2::9" })
	b.nft("add", "table", "inet", "another")

	b.want(0, "firewall of 2 zones with 6 rules", "apply", "--dry-run", school)
	wan.wantReach("192.0.2.10:443", "198.51.100.9")
	b.want(0, "applied", "apply", school)
	for _, c := range []struct {
		from          *host
		address, want string
	}{
		{wan, "192.0.2.10:80", "198.51.100.9"},
		{wan, "[2001:db8:1::10]:80", "2001:db8:2::9"},
		{wan, "192.0.2.10:443", "silence"},
		{wan, "[2001:db8:1::10]:443", "silence"},
		{wan, "198.51.100.1:22", "silence"},
		{wan, "198.51.100.1:8080", "198.51.100.9"}, // forwarded
		{lan, "198.51.100.9:443", "198.51.100.1"},  // masqueraded
		{lan, "[2001:db8:2::9]:443", "2001:db8:1::10"},
		{lan, "198.51.100.9:25", "silence"},
		{lan, "192.0.2.1:22", "refused"}, // permitted, and nobody listens
		{lan, "192.0.2.1:23", "silence"},
	} {
		c.from.wantReach(c.address, c.want)
	}

	before := b.status().KernelWrites
	b.want(0, "nothing to change", "apply", school)
	if now := b.status().KernelWrites; now != before {
		t.Errorf("applying the same again wrote %d times", now-before)
	}
	b.want(0, "Firewall: ", "show", "fast-path")

	if out := b.want(0, "web server", "show", "firewall").out; !strings.Contains(out, "wan to lan") {
		t.Errorf("show firewall:\n%s", out)
	}
	blocked, other := wan.connect("192.0.2.10:90"), lan.connect("198.51.100.9:90")
	blocked.wantEcho(true)
	other.wantEcho(true)
	b.want(0, "1 added", "set", "add", "blocked", "198.51.100.9", "--timeout", "1h")
	blocked.wantEcho(false)
	other.wantEcho(true)
	wan.wantReach("192.0.2.10:80", "silence")
	b.want(0, "0 added", "set", "add", "blocked", "203.0.113.7")
	b.want(1, "did you mean blocked?", "set", "add", "blockd", "203.0.113.7")
	b.want(1, "comes from the configuration", "set", "del", "blocked", "203.0.113.0/24")
	b.want(1, "holds single addresses", "set", "add", "web", "10.0.0.0/8")

	b.nft("flush", "ruleset") // leaves the rules, and what set add put in
	b.nft("add", "table", "inet", "another")
	b.want(0, "nothing to change", "apply", school)
	wan.wantReach("192.0.2.10:80", "silence") // still blocked
	b.want(0, "59m", "set", "list", "blocked")
	b.want(0, "1 deleted", "set", "del", "blocked", "198.51.100.9")
	wan.wantReach("192.0.2.10:80", "198.51.100.9")

	b.want(0, "+ permit tcp any @web 443", "apply", "--dry-run", b.file("more.yaml", strings.Replace(schoolConfig, "@web 80 ", "@web 443 ", 1)))
	b.want(0, "applied", "apply", b.file("closed.yaml", strings.Replace(schoolConfig, "deny tcp any any 25", "deny tcp any any 90", 1)))
	other.wantEcho(false)
	b.want(0, "everything that is routed passes", "apply", open)
	wan.wantReach("192.0.2.10:443", "198.51.100.9")
	if tables := b.nft("list", "tables"); strings.Contains(tables, "minne_policy") || !strings.Contains(tables, "another") {
		t.Errorf("tables left: %s", tables)
	}
}
