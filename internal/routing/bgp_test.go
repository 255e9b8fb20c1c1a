// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"testing"

	"minne/internal/config"
)

func TestBGPSession(t *testing.T) {
	l := newLab(t)
	l.namespace("a")
	l.link("r", "a", "192.0.2.1/24 2001:db8:1::1/64", "192.0.2.2/24 2001:db8:1::2/64")
	cfg := &config.Config{System: config.System{RouterID: addr("192.0.2.1")}}
	cfg.Routing.BGP = &config.BGP{ASN: 64500, Announce: []config.Prefix{prefix("9.9.0.0/16"), prefix("2a00:9::/32")},
		Peers: map[string]*config.BGPPeer{
			"isp-a": {Address: addr("192.0.2.2"), ASN: 64501, Families: []config.Family{"ipv4", "ipv6"}, Password: "isp-a"},
		}}
	bird := l.bird("a", `
router id 192.0.2.2;
protocol device {}
protocol static s4 { ipv4; route 1.2.0.0/16 blackhole; route 10.1.0.0/16 blackhole; }
protocol static s6 { ipv6; route 2a01:1::/32 blackhole; route 2001:db8:5::/48 blackhole; }
protocol bgp r { local 192.0.2.2 as 64501; neighbor 192.0.2.1 as 64500; password "s3cret";
  ipv4 { import all; export all; }; ipv6 { import all; export all; }; }
`)
	l.apply(cfg, passwords{"isp-a": "s3cret"})
	l.eventually("routes from the peer", func() string { return contains(l.routes("-4"), "1.2.0.0/16", "proto bgp") })
	l.eventually("routes from the peer", func() string { return contains(l.routes("-6"), "2a01:1::/32") })
	l.eventually("own routes at the peer", func() string {
		return contains(bird("show", "route"), "9.9.0.0/16", "2a00:9::/32")
	})
	if s := lacks(l.routes("-4")+l.routes("-6"), "10.1.0.0", "2001:db8:5::"); s != "" {
		t.Error(s)
	}
}
