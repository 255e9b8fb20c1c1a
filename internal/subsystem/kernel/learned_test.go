// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"minne/internal/model/config"
)

// What a DHCP server gives stays through applies and a link that went, is replaced
// by what it gives next, and goes with the lease or with the wish for one.
func TestLearned(t *testing.T) {
	veths(t, "wan", "lan")
	k := New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	on := config.OnOff(true)
	cfg := &config.Config{Version: 1, Interfaces: map[string]*config.Interface{
		"wan": {DHCP: &on}, "lan": {Addresses: []config.Address{host("192.0.2.1/24")}}}}
	one := func(address string) map[string][]netip.Prefix {
		return map[string][]netip.Prefix{"wan": {netip.MustParsePrefix(address)}}
	}
	leased := &Learned{Addresses: one("198.51.100.7/24"), Routes: []LearnedRoute{
		{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Interface: "wan", Gateway: netip.MustParseAddr("198.51.100.1")}}}
	if err := k.Learn(t.Context(), "wan", leased); err != nil { // as after a restart: nothing is applied yet
		t.Fatal(err)
	}
	shell(t, "ip addr add 203.0.113.9/24 dev wan") // foreign
	d := render(t, cfg)
	apply(t, k, d)
	expect(t, shell(t, "ip addr show wan"), "198.51.100.7/24")
	expect(t, shell(t, "ip route"), "default via 198.51.100.1 dev wan proto static metric 3523215360")
	if text := shell(t, "ip addr show wan"); strings.Contains(text, "203.0.113.9") {
		t.Errorf("a foreign address stayed: %s", text)
	}
	writes := k.Writes()
	apply(t, k, d)
	if k.Writes() != writes || len(planned(t, k, d)) != 0 {
		t.Errorf("%d writes of what is there; plan %q", k.Writes()-writes, planned(t, k, d))
	}

	shell(t, "ip link set wan down && ip link set wan up")
	if _, err := k.Reassert(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, shell(t, "ip route"), "default via 198.51.100.1 dev wan")

	// Another address, from a provider whose gateway is on no network of it.
	leased.Addresses = one("203.0.113.77/32")
	leased.Routes = []LearnedRoute{{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Interface: "wan", Gateway: netip.MustParseAddr("203.0.113.1")}}
	if err := k.Learn(t.Context(), "wan", leased); err != nil {
		t.Fatal(err)
	}
	expect(t, shell(t, "ip addr show wan"), "203.0.113.77/32")
	expect(t, shell(t, "ip route"), "default via 203.0.113.1 dev wan", "onlink")
	if text := shell(t, "ip addr show wan"); strings.Contains(text, "198.51.100.7") {
		t.Errorf("the former address stayed: %s", text)
	}

	// The operator wants a fixed address instead.
	cfg.Interfaces["wan"] = &config.Interface{Addresses: []config.Address{host("198.51.100.2/30")}}
	apply(t, k, render(t, cfg))
	if text := shell(t, "ip addr show wan; ip route"); strings.Contains(text, "203.0.113.") || strings.Contains(text, "default via") {
		t.Errorf("the lease stayed: %s", text)
	}

	cfg.Interfaces["wan"] = &config.Interface{DHCP: &on}
	apply(t, k, render(t, cfg))
	expect(t, shell(t, "ip addr show wan"), "203.0.113.77/32")
	if err := k.Learn(t.Context(), "wan", nil); err != nil {
		t.Fatal(err)
	}
	if text := shell(t, "ip addr show wan; ip route"); strings.Contains(text, "203.0.113.") {
		t.Errorf("an ended lease stayed: %s", text)
	}
}

// TestLearnedTakesNothing: whatever is learned, the operator's networks and routes stay his.
func TestLearnedTakesNothing(t *testing.T) {
	cfg := &config.Config{Version: 1, Interfaces: map[string]*config.Interface{
		"wan": {DHCP: new(config.OnOff)}, "lan": {Addresses: []config.Address{host("192.0.2.1/24")}}}}
	*cfg.Interfaces["wan"].DHCP = true
	cfg.Routing.Static = []config.StaticRoute{
		{Prefix: prefix("10.0.0.0/8"), Via: []config.NextHop{via("192.0.2.9")}},
		{Prefix: prefix("0.0.0.0/0"), Via: []config.NextHop{via("192.0.2.9")}, Distance: 250},
	}
	k := New(slog.New(slog.DiscardHandler))
	l := Learned{Addresses: map[string][]netip.Prefix{"wan": {netip.MustParsePrefix("198.51.100.7/24")}}}
	for _, p := range []string{"0.0.0.0/0", "192.0.2.128/25", "10.5.0.0/16", "10.0.0.0/8", "192.0.0.0/16", "100.64.0.0/10"} {
		l.Routes = append(l.Routes, LearnedRoute{Prefix: netip.MustParsePrefix(p), Interface: "wan", Gateway: netip.MustParseAddr("198.51.100.1")})
	}
	k.learned["wan"] = l
	var got []string
	for _, r := range k.withLearned(render(t, cfg)).Routes {
		if r.Metric == Metric(210) {
			got = append(got, r.Prefix.String())
		}
	}
	if strings.Join(got, " ") != "0.0.0.0/0 192.0.0.0/16 100.64.0.0/10" {
		t.Errorf("routes of the server that are used: %q", got)
	}
}
