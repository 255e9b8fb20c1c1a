// SPDX-License-Identifier: Apache-2.0

// Package nat tries translations of addresses, and what else of the firewall needs
// real hosts, as users meet them: curl, ping and servers in namespaces on both sides
// of a router that kernel and firewall have set up from a configuration.
package nat

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/services"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bed is a router in the namespace of this process, with a host on each port.
type bed struct {
	t        *testing.T
	kernel   *kernel.Kernel
	firewall *firewall.Firewall
	daemon   *daemon // when not nil, this sets the router up instead of the two
	// inside is the host behind port dmz with two addresses, to stand for two; behind port lan is
	// another, and outside is beside the router on the network of port wan.
	inside, lan, outside host
}

const interfaces = `version: 1
interfaces:
  wan: {zone: wan, addresses: [203.0.113.1/24, "2001:db8:ff::1/64"]}
  dmz: {zone: dmz, addresses: [10.3.0.1/24, "fd00:3::1/64"]}
  lan: {zone: lan, addresses: [10.1.0.1/24, "fd00:1::1/64"]}
`

func newBed(t *testing.T) *bed {
	log := slog.New(slog.DiscardHandler)
	b := &bed{t: t, kernel: kernel.New(log), firewall: firewall.New(t.TempDir(), log)}
	b.outside = b.host("wan", "203.0.113.9/24 2001:db8:ff::9/64", "", "route add 2001:db8:f3::/48 via 2001:db8:ff::1")
	b.inside = b.host("dmz", "10.3.0.17/24 10.3.0.18/24 fd00:3::17/64 fd00:3::18/64", "10.3.0.1 fd00:3::1")
	b.lan = b.host("lan", "10.1.0.7/24 fd00:1::7/64", "10.1.0.1 fd00:1::1")
	t.Cleanup(func() {
		must(t, b.firewall.Apply(context.Background(), firewall.Desired{}))
		for _, family := range []string{"-4", "-6"} {
			if out, err := exec.Command("ip", family, "route", "flush", "proto", "static").CombinedOutput(); err != nil {
				t.Errorf("flush routes: %v %s", err, out)
			}
		}
	})
	return b
}

// apply sets the router up as minne apply does.
func (b *bed) apply(text string) {
	b.t.Helper()
	if b.daemon != nil {
		b.daemon.apply(b.t, interfaces+text)
		b.settles()
		must(b.t, netlink.ConntrackTableFlush(netlink.ConntrackTable))
		return
	}
	cfg, err := config.Parse("router.yaml", []byte(interfaces+text))
	must(b.t, err)
	must(b.t, config.Check(cfg, config.Secrets{}))
	k, err := kernel.Render(cfg)
	must(b.t, err)
	f, err := firewall.Render(cfg, services.Openings(cfg), b.t.TempDir())
	must(b.t, err)
	must(b.t, f.Broken)
	must(b.t, b.firewall.Apply(b.t.Context(), f))
	must(b.t, b.kernel.Apply(b.t.Context(), k))
	must(b.t, b.kernel.Forwarding(b.t.Context(), true))
	b.settles()
	must(b.t, netlink.ConntrackTableFlush(netlink.ConntrackTable))
}

// settles waits until the router's IPv6 addresses are its own for sure (RFC 4862, section 5.4): before that it asks for no
// neighbour, and gives up after three seconds.
func (b *bed) settles() {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		list, err := netlink.AddrList(nil, netlink.FAMILY_V6)
		must(b.t, err)
		tentative := slices.ContainsFunc(list, func(a netlink.Addr) bool { return a.Flags&unix.IFA_F_TENTATIVE != 0 })
		if !tentative {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("addresses are still tentative: %v", list)
		}
	}
}

// host is a network namespace at the far end of a port of the router.
type host struct{ ns netns.NsHandle }

// host makes a host with addresses and gateways, and more for ip -batch.
func (b *bed) host(port, addresses, gateways string, more ...string) host {
	b.t.Helper()
	far := port + "-host"
	lines := []string{"link set " + far + " up", "link set lo up"}
	for _, a := range strings.Fields(addresses) {
		if strings.Contains(a, ":") {
			a += " nodad"
		}
		lines = append(lines, "addr add "+a+" dev "+far)
	}
	for _, g := range strings.Fields(gateways) {
		lines = append(lines, "route add default via "+g)
	}
	var h host
	a := netlink.NewLinkAttrs()
	a.Name = port
	must(b.t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: far}))
	link, err := netlink.LinkByName(far)
	must(b.t, err)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	must(b.t, err)
	defer here.Close()
	h.ns, err = netns.New()
	must(b.t, err)
	must(b.t, netns.Set(here))
	b.t.Cleanup(func() {
		must(b.t, netlink.LinkDel(&netlink.Device{LinkAttrs: a}))
		h.ns.Close()
	})
	must(b.t, netlink.LinkSetNsFd(link, int(h.ns)))
	h.do(b.t, func() {
		for _, family := range []string{"ipv4", "ipv6"} { // it goes on asking for a neighbour while the machine is busy
			must(b.t, os.WriteFile("/proc/sys/net/"+family+"/neigh/"+far+"/mcast_solicit", []byte("30"), 0o644))
		}
		// A veth passes on offloads that a cable can't. GRO makes it take frames from XDP.
		for _, c := range [][2]uint32{{0x17, 0}, {0x2c, 1}} { // ETHTOOL_STXCSUM, ETHTOOL_SGRO
			ethtool(b.t, far, c[0], c[1])
		}
		c := exec.Command("ip", "-batch", "-")
		c.Stdin = strings.NewReader(strings.Join(append(lines, more...), "\n") + "\n")
		if out, err := c.CombinedOutput(); err != nil {
			b.t.Fatalf("host behind %s: %v\n%s", port, err, out)
		}
	})
	return h
}

// do runs f with the calling thread inside the host's namespace.
func (h host) do(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	must(t, err)
	defer here.Close()
	must(t, netns.Set(h.ns))
	defer func() {
		if err := netns.Set(here); err != nil {
			panic(err) // the thread must not be used by others
		}
	}()
	f()
}

// run runs a command on a host, or on the router for nil, and returns what it prints.
func (b *bed) run(on *host, name string, args ...string) string {
	b.t.Helper()
	out, err := b.try(on, name, args...)
	if err != nil {
		b.t.Fatalf("%s %s: %v\n%s\n%s", name, strings.Join(args, " "), err, out, b.rules())
	}
	return out
}

// try is run for a command that may fail.
func (b *bed) try(on *host, name string, args ...string) (out string, err error) {
	b.t.Helper()
	call := func() {
		var text []byte
		text, err = exec.CommandContext(b.t.Context(), name, args...).CombinedOutput()
		out = string(text)
	}
	if on == nil {
		call()
	} else {
		on.do(b.t, call)
	}
	return out, err
}

func (b *bed) rules() string {
	text, _ := exec.Command("nft", "list", "table", "inet", "minne_policy").CombinedOutput()
	return string(text)
}

// listen opens a TCP port on a host.
func (b *bed) listen(on *host, address string) net.Listener {
	b.t.Helper()
	var l net.Listener
	on.do(b.t, func() {
		var err error
		l, err = net.Listen("tcp", address)
		must(b.t, err)
	})
	b.t.Cleanup(func() { l.Close() })
	return l
}

// web serves on a host; each page says where the question came from, and which address it was put to.
func (b *bed) web(on *host, address string) {
	b.t.Helper()
	l := b.listen(on, address)
	s := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, _, _ := net.SplitHostPort(r.RemoteAddr)
		own, _, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
		fmt.Fprintf(w, "%s to %s", peer, own)
	})}
	go func() { _ = s.Serve(l) }()
	b.t.Cleanup(func() { s.Close() })
}

// fetch asks for a page of a web server with curl, from an address of a host.
func (b *bed) fetch(on *host, from, url string, options ...string) (string, error) {
	b.t.Helper()
	args := append([]string{"--silent", "--show-error", "--max-time", "30", "--globoff", url}, options...)
	if from != "" {
		args = append(args, "--interface", from)
	}
	return b.try(on, "curl", args...)
}

// sees fetches a page and compares.
func (b *bed) sees(on *host, from, url, want string) {
	b.t.Helper()
	if got, err := b.fetch(on, from, url); err != nil || got != want {
		b.t.Errorf("%s from %s: got %q, %v; want %q\n%s", url, from, got, err, want, b.rules())
	}
}

// unanswered tries in vain.
func (b *bed) unanswered(on *host, url string, options ...string) {
	b.t.Helper()
	if got, err := b.fetch(on, "", url, append([]string{"--max-time", "1"}, options...)...); err == nil {
		b.t.Errorf("%s is answered: %s\n%s", url, got, b.rules())
	}
}

// udp opens a UDP port on a host; reads end after two seconds.
func (b *bed) udp(on *host, address string) *net.UDPConn {
	b.t.Helper()
	var c *net.UDPConn
	on.do(b.t, func() {
		a, err := net.ResolveUDPAddr("udp", address)
		must(b.t, err)
		c, err = net.ListenUDP("udp", a)
		must(b.t, err)
	})
	b.t.Cleanup(func() { c.Close() })
	return c
}

// readAll reads a connection to its end, for at most five seconds.
func readAll(c net.Conn) string {
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	text, _ := io.ReadAll(io.LimitReader(c, 1<<20))
	return string(text)
}

// flows is what conntrack has of a protocol.
func flows(t *testing.T, protocol uint8) (list []string) {
	t.Helper()
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		all, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
		must(t, err)
		for _, f := range all {
			if f.Forward.Protocol == protocol {
				list = append(list, "\n"+f.String())
			}
		}
	}
	return list
}
