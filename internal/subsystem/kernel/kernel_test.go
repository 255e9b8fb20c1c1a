// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/testing/testns"
)

func TestMain(m *testing.M) { testns.Main(m) }

// shell runs ip(8) or another command line and returns what it prints.
func shell(t testing.TB, line string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

// veths makes pairs NAME – NAMEp, both up, and removes them after the test.
// What Minne left in the namespace besides goes too.
func veths(t testing.TB, names ...string) {
	t.Helper()
	t.Cleanup(func() {
		shell(t, "ip route flush proto static; ip -6 route flush proto static; ip addr flush dev lo; ip addr add 127.0.0.1/8 dev lo")
	})
	for _, n := range names {
		shell(t, "ip link add "+n+" type veth peer name "+n+"p && ip link set "+n+"p up")
		t.Cleanup(func() { exec.Command("ip", "link", "del", n+"p").Run() })
	}
}

func host(s string) config.Address  { return config.Address{Prefix: netip.MustParsePrefix(s)} }
func prefix(s string) config.Prefix { return config.Prefix{Prefix: netip.MustParsePrefix(s)} }
func via(s string) config.NextHop   { return config.NextHop{Address: netip.MustParseAddr(s)} }

// campus is a small router: lan and wan, static routes of every kind.
func campus() *config.Config {
	return &config.Config{
		Version: 1,
		System:  config.System{Hostname: "border1", RouterID: netip.MustParseAddr("192.0.2.1")},
		Interfaces: map[string]*config.Interface{
			"lan": {Match: &config.Match{Name: "eth0"}, MTU: 9000, Description: "campus",
				Addresses: []config.Address{host("192.0.2.1/24"), host("2001:db8:1::1/64")}, AntiSpoof: "strict"},
			"wan": {Match: &config.Match{Name: "eth1"},
				Addresses: []config.Address{host("198.51.100.2/30"), host("2001:db8:ff::2/64")}, AntiSpoof: "loose"},
			"lo": {Addresses: []config.Address{host("192.0.2.255/32"), host("2001:db8::1/128")}},
		},
		Routing: config.Routing{
			Static: []config.StaticRoute{
				{Prefix: prefix("0.0.0.0/0"), Via: []config.NextHop{via("198.51.100.1")}, Distance: 250},
				{Prefix: prefix("::/0"), Via: []config.NextHop{via("2001:db8:ff::1")}},
				{Prefix: prefix("203.0.113.0/24"), Via: []config.NextHop{via("192.0.2.9"), via("192.0.2.10")}},
				{Prefix: prefix("2001:db8:aaaa::/48"), Via: []config.NextHop{via("2001:db8:1::9"), via("2001:db8:1::a")}},
				{Prefix: prefix("10.0.0.0/8"), Blackhole: true},
				{Prefix: prefix("2001:db8:bbbb::/48"), Via: []config.NextHop{{Interface: "lan"}}},
			},
			BGP: &config.BGP{ASN: 64500, Announce: []config.Prefix{prefix("192.0.2.0/24"), prefix("2001:db8::/32")}},
		},
	}
}

func render(t testing.TB, cfg *config.Config) Desired {
	t.Helper()
	config.Normalize(cfg)
	d, err := Render(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func apply(t testing.TB, k *Kernel, d Desired) {
	t.Helper()
	if err := k.Apply(context.Background(), d); err != nil {
		t.Fatal(err)
	}
}

func lines(changes []plan.Change) []string {
	var all []string
	for _, c := range changes {
		all = append(all, c.String())
	}
	return all
}

func planned(t testing.TB, k *Kernel, d Desired) []string {
	t.Helper()
	changes, err := k.Plan(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	return lines(changes)
}

func expectLine(t testing.TB, all []string, want string) {
	t.Helper()
	if !slices.Contains(all, want) {
		t.Errorf("no line %q in:\n%s", want, strings.Join(all, "\n"))
	}
}

func expect(t testing.TB, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// TestApplyMakesTheRouterOnce applies the campus router, looks at the kernel with ip(8) and nft(8),
// and applies it again: nothing is left to plan or to write.
func TestApplyMakesTheRouterOnce(t *testing.T) {
	veths(t, "eth0", "eth1")
	shell(t, "ip link set lo up; ip link set eth0 up; ip addr add 10.9.9.9/24 dev eth0; ip route add 10.77.0.0/16 via 10.9.9.1 proto static")
	k, d := New(slog.New(slog.DiscardHandler)), render(t, campus())
	before := planned(t, k, d)
	for _, want := range []string{
		"~ name of link eth0: eth0 → lan",
		"~ mtu on lan: 1500 → 9000",
		"+ address 192.0.2.1/24 on lan",
		"- address 10.9.9.9/24 on lan",
		"- route 10.77.0.0/16 via 10.9.9.1 distance 1",
		"+ route 0.0.0.0/0 via 198.51.100.1 distance 250",
		"+ route 203.0.113.0/24 via 192.0.2.9, via 192.0.2.10",
		"+ route 2001:db8::/32 blackhole distance 254",
	} {
		if want == "- route 10.77.0.0/16 via 10.9.9.1 distance 1" {
			want = "- route 10.77.0.0/16 via 10.9.9.1 distance 0" // ip(8) without metric: 0
		}
		expectLine(t, before, want)
	}
	if k.Writes() != 0 {
		t.Fatalf("a plan wrote %d times", k.Writes())
	}
	apply(t, k, d)
	expect(t, shell(t, "ip route show proto static"),
		"default via 198.51.100.1 dev wan metric 4194304000",
		"blackhole 10.0.0.0/8 metric 1", "blackhole 192.0.2.0/24 metric 4261412864",
		"203.0.113.0/24 metric 1 \n\tnexthop via 192.0.2.9 dev lan weight 1 \n\tnexthop via 192.0.2.10 dev lan weight 1")
	expect(t, shell(t, "ip -6 route show proto static"),
		"default via 2001:db8:ff::1 dev wan metric 1", "blackhole 2001:db8::/32 dev lo metric 4261412864",
		"2001:db8:bbbb::/48 dev lan metric 1",
		"2001:db8:aaaa::/48 metric 1", "nexthop via 2001:db8:1::9 dev lan weight 1", "nexthop via 2001:db8:1::a dev lan weight 1")
	lan := shell(t, "ip link show lan; ip addr show dev lan scope global")
	expect(t, lan, "mtu 9000", "altname eth0", "alias campus", "inet 192.0.2.1/24 brd 192.0.2.255", "inet6 2001:db8:1::1/64", "nodad")
	if strings.Contains(lan, "10.9.9.9") || strings.Contains(lan, "tentative") {
		t.Errorf("lan has an address too much or one that is not usable:\n%s", lan)
	}
	expect(t, shell(t, "ip addr show lo"), "127.0.0.1/8", "192.0.2.255/32")
	expect(t, shell(t, "nft list table inet minne_antispoof"), `iifname "lan" fib saddr . iif oif missing`, `iifname "wan" fib saddr oif missing`)
	expect(t, shell(t, "cat /proc/sys/net/ipv4/conf/lan/send_redirects /proc/sys/net/ipv6/fib_multipath_hash_policy"), "0\n1\n")

	writes := k.Writes()
	again := New(slog.New(slog.DiscardHandler))
	if left := planned(t, again, d); len(left) != 0 {
		t.Errorf("left to do after an apply:\n%s", strings.Join(left, "\n"))
	}
	apply(t, k, d)
	if k.Writes() != writes {
		t.Errorf("an unchanged apply wrote %d times", k.Writes()-writes)
	}
	forwarding(t, k, true)
	forwarding(t, k, false)

	// The next configuration drops most of it.
	next := campus()
	next.Interfaces["lan"].MTU = 0
	next.Interfaces["lan"].Description = ""
	next.Interfaces["lan"].Addresses = []config.Address{host("192.0.2.1/25")}
	next.Interfaces["lan"].AntiSpoof, next.Interfaces["wan"].AntiSpoof = "", ""
	next.Routing = config.Routing{Static: []config.StaticRoute{{Prefix: prefix("203.0.113.0/24"), Via: []config.NextHop{via("192.0.2.11")}}}}
	d = render(t, next)
	after := planned(t, k, d)
	expectLine(t, after, "~ mtu on lan: 9000 → 1500")
	expectLine(t, after, "~ route 203.0.113.0/24: via 192.0.2.9, via 192.0.2.10 → via 192.0.2.11")
	apply(t, k, d)
	if left := planned(t, k, d); len(left) != 0 {
		t.Errorf("left to do:\n%s", strings.Join(left, "\n"))
	}
	if got := shell(t, "ip route show proto static; ip -6 route show proto static; nft list tables"); got != "203.0.113.0/24 via 192.0.2.11 dev lan metric 1 \n" {
		t.Errorf("routes and tables left:\n%s", got)
	}
}

// forwarding switches it and checks that a second time writes nothing.
func forwarding(t *testing.T, k *Kernel, on bool) {
	t.Helper()
	if err := k.Forwarding(context.Background(), on); err != nil {
		t.Fatal(err)
	}
	want := "0"
	if on {
		want = "1"
	}
	for _, path := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv4/conf/lan/forwarding", "net/ipv6/conf/wan/forwarding"} {
		if got, _, err := readSysctl(path); err != nil || got != want {
			t.Errorf("%s is %q (%v), expected %s", path, got, err, want)
		}
	}
	writes := k.Writes()
	if err := k.Forwarding(context.Background(), on); err != nil || k.Writes() != writes {
		t.Errorf("unchanged forwarding: %v, %d writes", err, k.Writes()-writes)
	}
}

// TestNamesSwap gives two links each other's names.
func TestNamesSwap(t *testing.T) {
	veths(t, "a0", "b0")
	a, b := shell(t, "cat /sys/class/net/a0/address"), shell(t, "cat /sys/class/net/b0/address")
	cfg := &config.Config{Interfaces: map[string]*config.Interface{
		"a0": {Match: &config.Match{Name: "b0"}}, "b0": {Match: &config.Match{Name: "a0"}},
	}}
	config.Normalize(cfg)
	if _, err := Render(cfg); err == nil {
		t.Fatal("names that match each other never settle; expected an error")
	}
	k := New(slog.New(slog.DiscardHandler))
	// By MAC address the swap is meaningful.
	cfg = &config.Config{Interfaces: map[string]*config.Interface{
		"a0": {Match: &config.Match{MAC: mac(t, b)}}, "b0": {Match: &config.Match{MAC: mac(t, a)}},
	}}
	apply(t, k, render(t, cfg))
	if got := shell(t, "cat /sys/class/net/a0/address"); got != b {
		t.Errorf("a0 has MAC %s, expected %s", got, b)
	}
	if got := shell(t, "cat /sys/class/net/b0/address"); got != a {
		t.Errorf("b0 has MAC %s, expected %s", got, a)
	}
}

// TestMissingLink fails before the first write and says what is there; at boot the rest comes up.
func TestMissingLink(t *testing.T) {
	veths(t, "here")
	cfg := &config.Config{Interfaces: map[string]*config.Interface{
		"gone": {Match: &config.Match{MAC: config.MAC{2, 0, 0, 0, 0, 1}}, Addresses: []config.Address{host("10.1.0.1/24")}},
		"here": {Addresses: []config.Address{host("10.2.0.1/24")}},
	}, Routing: config.Routing{Static: []config.StaticRoute{
		{Prefix: prefix("10.3.0.0/24"), Via: []config.NextHop{via("10.1.0.9"), via("10.2.0.9")}},
		{Prefix: prefix("10.4.0.0/24"), Via: []config.NextHop{via("10.1.0.9")}},
	}}}
	k, d := New(slog.New(slog.DiscardHandler)), render(t, cfg)
	err := k.Apply(context.Background(), d)
	if err == nil || k.Writes() != 0 {
		t.Fatalf("error %v after %d writes, expected a missing link before the first", err, k.Writes())
	}
	expect(t, err.Error(), "interface gone: no link with MAC address 02:00:00:00:00:01; present: ", "here ")
	if err := k.ApplyPresent(context.Background(), d); err == nil {
		t.Error("a boot without the link must say so")
	}
	expect(t, shell(t, "ip addr show here"), "10.2.0.1/24")
	if got := shell(t, "ip route show proto static"); got != "10.3.0.0/24 via 10.2.0.9 dev here metric 1 \n" {
		t.Errorf("static routes: %q", got)
	}
}

// TestReassertAfterLinkDown: the kernel drops IPv4 routes of a link that goes down, without a word.
func TestReassertAfterLinkDown(t *testing.T) {
	veths(t, "eth0", "eth1")
	cfg := campus()
	cfg.Interfaces["lan"].AntiSpoof, cfg.Interfaces["wan"].AntiSpoof = "", ""
	k, d := New(slog.New(slog.DiscardHandler)), render(t, cfg)
	apply(t, k, d)
	want := shell(t, "ip route show proto static; ip -6 route show proto static")
	shell(t, "ip link set lan down; ip link set wan down; ip link set lan up; ip link set wan up")
	if got := shell(t, "ip route show proto static; ip -6 route show proto static"); got == want {
		t.Fatal("the kernel kept the routes: this test tests nothing")
	}
	if _, err := k.Reassert(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := shell(t, "ip route show proto static; ip -6 route show proto static"); got != want {
		t.Errorf("after Reassert:\n%s\nexpected:\n%s", got, want)
	}
	writes := k.Writes()
	if _, err := k.Reassert(context.Background()); err != nil || k.Writes() != writes {
		t.Errorf("Reassert with nothing to do: %v, %d writes", err, k.Writes()-writes)
	}
}

func mac(t testing.TB, text string) (m config.MAC) {
	t.Helper()
	hw, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	copy(m[:], hw)
	return m
}

// TestOnLinkGateway routes by a gateway that no network of its interface contains,
// as providers of single addresses want it.
func TestOnLinkGateway(t *testing.T) {
	veths(t, "eth0")
	cfg := &config.Config{Version: 1, Interfaces: map[string]*config.Interface{
		"wan": {Match: &config.Match{Name: "eth0"}, Addresses: []config.Address{host("198.51.100.77/32"), host("2001:db8:77::1/128")}},
	}}
	cfg.Routing.Static = []config.StaticRoute{
		{Prefix: prefix("0.0.0.0/0"), Via: []config.NextHop{{Address: netip.MustParseAddr("203.0.113.1"), Interface: "wan"}}},
		{Prefix: prefix("::/0"), Via: []config.NextHop{{Address: netip.MustParseAddr("2001:db8:ffff::1"), Interface: "wan"}}},
	}
	k, d := New(slog.New(slog.DiscardHandler)), render(t, cfg)
	expectLine(t, planned(t, k, d), "+ route 0.0.0.0/0 via 203.0.113.1%wan")
	apply(t, k, d)
	expect(t, shell(t, "ip route show proto static"), "default via 203.0.113.1 dev wan metric 1 onlink")
	expect(t, shell(t, "ip -6 route show proto static"), "default via 2001:db8:ffff::1 dev wan metric 1 onlink")
	if left := planned(t, k, d); len(left) != 0 {
		t.Errorf("left to do after an apply:\n%s", strings.Join(left, "\n"))
	}
}
