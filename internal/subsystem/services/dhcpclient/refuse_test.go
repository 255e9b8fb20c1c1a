// SPDX-License-Identifier: Apache-2.0

package dhcpclient

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"minne/internal/model/config"
	"minne/internal/subsystem/services/program"
)

// hostile is a router with a LAN, a route to more of it, a fallback route, and a WAN by DHCP.
func hostile() *config.Config {
	on := config.OnOff(true)
	address := func(s string) []config.Address { return []config.Address{{Prefix: netip.MustParsePrefix(s)}} }
	route := func(p, via string, distance int) config.StaticRoute {
		r := config.StaticRoute{Prefix: config.Prefix{Prefix: netip.MustParsePrefix(p)}, Distance: distance, Blackhole: via == ""}
		if via != "" {
			r.Via = []config.NextHop{{Address: netip.MustParseAddr(via)}}
		}
		return r
	}
	cfg := &config.Config{Version: 1, Interfaces: map[string]*config.Interface{
		"wan": {DHCP: &on}, "lan": {Addresses: address("192.168.1.1/24")}, "lan6": {Addresses: address("fd00::1/64")},
	}}
	cfg.Routing.Static = []config.StaticRoute{
		route("10.0.0.0/8", "192.168.1.9", 0), route("172.16.0.0/12", "", 0), route("203.0.113.0/24", "192.168.1.9", 250),
	}
	cfg.Routing.BGP = &config.BGP{Announce: []config.Prefix{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}}
	return config.Normalize(cfg)
}

// TestRoutesOfAHostileServer: it gets the default route, as every server does, and nothing that is
// the operator's (option 121 is how hosts of a LAN are taken over from the WAN).
func TestRoutesOfAHostileServer(t *testing.T) {
	for told, want := range map[string]string{
		"0.0.0.0/0 198.51.100.1":                             "[0.0.0.0/0 via 198.51.100.1]",
		"192.168.1.50/32 198.51.100.1":                       "[] refused: it leads to a part of the network 192.168.1.0/24 of another interface, lan",
		"192.168.1.0/24 198.51.100.1":                        "[] refused: of another interface, lan",
		"192.168.0.0/16 198.51.100.1":                        "[192.168.0.0/16 via 198.51.100.1]",
		"10.5.0.0/16 198.51.100.1 0.0.0.0/0 198.51.100.1":    "[0.0.0.0/0 via 198.51.100.1] refused: it leads to a part of the static route 10.0.0.0/8",
		"10.0.0.0/8 198.51.100.1":                            "[] refused: the static route 10.0.0.0/8",
		"172.20.0.0/16 0.0.0.0":                              "[] refused: the static route 172.16.0.0/12",
		"203.0.113.0/24 198.51.100.1":                        "[203.0.113.0/24 via 198.51.100.1]", // the operator's is for when there is no other
		"192.0.2.128/25 198.51.100.1":                        "[] refused: the announced prefix 192.0.2.0/24",
		"100.64.7.0/24 192.168.1.9":                          "[] refused: the gateway is not on the leased network 198.51.100.0/24",
		"203.0.113.1/32 0.0.0.0 0.0.0.0/0 203.0.113.1":       "[203.0.113.1/32 0.0.0.0/0 via 203.0.113.1]",
		"0.0.0.0/0 203.0.113.1 203.0.113.1/32 0.0.0.0":       "[203.0.113.1/32 0.0.0.0/0 via 203.0.113.1]",
		"0.0.0.0/1 198.51.100.1 128.0.0.0/1 198.51.100.1":    "[0.0.0.0/0 via 198.51.100.1] refused: no network is that large",
		"100.64.0.0/10 127.0.0.1 100.64.0.0/10 198.51.100.7": "[0.0.0.0/0 via 198.51.100.1] refused: no address of a neighbour",
		"224.0.0.0/4 198.51.100.1 127.0.0.0/8 198.51.100.1":  "[0.0.0.0/0 via 198.51.100.1] refused: no host of such a network",
		"100.80.0.0/24 198.51.100.1":                         "[] refused: it leads to a part of the network 100.80.0.0/16 leased on wan2",
	} {
		lease, err := parse(program.Values(written + "router=198.51.100.1\nstaticroutes=" + told + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		elsewhere := []Network{{netip.MustParsePrefix("100.80.0.0/16"), "the network 100.80.0.0/16 leased on wan2"}}
		renderLeasing(hostile(), "wan", nil).sift(lease, elsewhere)
		routes, why, refused := strings.Cut(want, " refused: ")
		if got := fmt.Sprint(lease.Routes); got != routes || refused != (len(lease.Refused) > 0) || !strings.Contains(strings.Join(lease.Refused, "; "), why) {
			t.Errorf("%s:\n%s refused: %q\nwant %s", told, got, lease.Refused, want)
		}
	}
}

// TestAnOperatorsDefaultRoute is not undermined by longer prefixes.
func TestAnOperatorsDefaultRoute(t *testing.T) {
	cfg := hostile()
	cfg.Routing.Static = []config.StaticRoute{{Prefix: config.Prefix{Prefix: netip.MustParsePrefix("0.0.0.0/0")}, Via: []config.NextHop{{Address: netip.MustParseAddr("192.168.1.9")}}}}
	lease, err := parse(program.Values(written + "staticroutes=100.64.0.0/10 198.51.100.1 0.0.0.0/0 198.51.100.1\n"))
	if err != nil {
		t.Fatal(err)
	}
	renderLeasing(cfg, "wan", nil).sift(lease, nil)
	if fmt.Sprint(lease.Routes) != "[0.0.0.0/0 via 198.51.100.1]" || len(lease.Refused) != 1 {
		t.Errorf("%v, refused %q", lease.Routes, lease.Refused)
	}
}

func TestLeasesRefused(t *testing.T) {
	l := renderLeasing(hostile(), "wan", nil)
	for address, want := range map[string]string{
		"198.51.100.7/24":  "",
		"192.168.1.77/24":  "of another interface, lan",
		"192.168.1.200/25": "of another interface, lan",
		"192.168.77.7/16":  "of another interface, lan",
		"10.7.7.7/24":      "is a part of the static route 10.0.0.0/8, which leads elsewhere",
		"172.16.5.7/24":    "", // behind another router at home: what is not routed anywhere is free
		"203.0.113.7/24":   "",
	} {
		if got := l.refuses(netip.MustParsePrefix(address)); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
