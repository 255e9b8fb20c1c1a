// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// What operators ask of BGP and OSPF, and what they let begin anew, by the command line.
func TestRoutingViewsAndVerbs(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.start()
	b.want(1, "no BGP peers", "clear", "bgp", "all")
	b.want(1, "OSPF is not running", "clear", "ospf")
	b.want(0, "applied", "apply", b.file("routing.yaml", `version: 1
system: {router-id: 192.0.2.1}
interfaces:
  lan: {addresses: [192.0.2.1/24, "2001:db8::1/64"]}
  wan: {addresses: [198.51.100.1/24]}
routing:
  static: [{prefix: 203.0.113.0/24, via: [192.0.2.9]}]
  bgp:
    asn: 64500
    announce: [192.0.2.0/24]
    peers:
      isp: {address: 198.51.100.2, asn: 64496, description: fibre, import: {max-prefixes: {ipv4: 10, restart-after: 15m}}}
  ospf: {areas: {0: {interfaces: {lan: {network: point-to-point, cost: 7}}}}}
  ospf3: {areas: {0: {interfaces: {lan: {}}}}}
`))
	b.want(0, "isp   198.51.100.2  64496", "show", "bgp")
	b.want(0, "ipv4: 1 destinations", "show", "bgp", "summary")
	b.want(0, "0 routes accepted of at most 10, 0 advertised", "show", "bgp", "neighbors", "isp")
	b.want(0, "0 routes advertised to isp (198.51.100.2)", "show", "bgp", "neighbors", "isp", "advertised")
	b.want(1, `no BGP peer "ips": expected one of isp, or its address`, "show", "bgp", "neighbors", "ips")
	b.want(2, "expected received or advertised", "show", "bgp", "neighbors", "isp", "sent")
	b.want(0, "announced here", "show", "bgp", "192.0.2.0/24")
	b.want(0, "no path in BGP", "show", "bgp", "203.0.113.1")
	b.want(2, `minne show bgp has no command "peers"`, "show", "bgp", "peers")
	eventually(t, "OSPF runs on lan", func() bool {
		return strings.Contains(b.want(0, "", "show", "ospf", "interface").out, "OSPFv2\nInterface") &&
			strings.Contains(b.want(0, "", "show", "ospf6", "interface").out, "lan")
	})
	b.want(0, "192.0.2.1/24", "show", "ospf", "interface")
	eventually(t, "a router LSA", func() bool {
		return strings.Contains(b.want(0, "", "show", "ospf", "database", "--limit", "1").out, "router  192.0.2.1")
	})
	b.want(0, "Neighbor ID", "show", "ospf", "neighbor")

	b.want(0, "S  203.0.113.0/24", "show", "ip", "route", "static")
	if a := b.want(0, "C  192.0.2.0/24", "show", "ip", "route", "connected"); strings.Contains(a.out, "203.0.113.0") {
		t.Errorf("a static route is connected:\n%s", a.out)
	}
	b.want(0, "no route", "show", "ip", "route", "bgp")
	b.want(0, "C  2001:db8::/64", "show", "ipv6", "route", "connected")
	b.want(2, "expected a prefix before longer-prefixes", "show", "ip", "route", "bgp", "longer-prefixes")

	b.want(0, "cleared: isp (198.51.100.2)\n", "clear", "bgp", "isp", "soft")
	b.want(0, "cleared: isp (198.51.100.2)\n", "clear", "bgp", "all")
	b.want(0, "cleared: OSPFv2\ncleared: OSPFv3\n", "clear", "ospf")
	b.want(2, "expected soft or nothing", "clear", "bgp", "isp", "hard")

	for list, view := range map[string][]string{"peers": {"bgp", "neighbors"}, "routes": {"bgp", "neighbors", "isp", "received"}, "paths": {"bgp", "192.0.2.0/24"},
		"neighbors": {"ospf", "neighbor"}, "interfaces": {"ospf", "interface"}, "entries": {"ospf6", "database"}} {
		var answer map[string]any
		text := b.want(0, "", append(append([]string{"show"}, view...), "--json")...).out
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Errorf("%q: %v", view, err)
		}
		if _, ok := answer[list].([]any); !ok {
			t.Errorf("%q has no list %s:\n%s", view, list, text)
		}
	}
}
