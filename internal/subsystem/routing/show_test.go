// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
)

// What the daemons know is told in one vocabulary, with the operator's names.
func TestViews(t *testing.T) {
	l := newLab(t)
	l.upstreams("")
	l.insideNetwork()
	secrets := passwords{"isp-a": "s3cret", "ospf": "s3cret"}
	l.bird("i", inside("s3cret", ""))
	l.apply(campus(false), secrets)
	l.eventually("both ISPs and the inside", func() string {
		return l.via("-4", "1.2.0.0/16", "to-a")() + contains(l.ask(bgpd, "show bgp ipv4 unicast 1.2.0.0/16"), "64501", "64502") +
			contains(l.ask(bgpd, "show bgp ipv6 unicast 2a01:1::/32"), "64501", "64502") + contains(l.routes("-4"), "10.9.0.0/24 nhid")
	})
	ctx := context.Background()
	must := func(v any, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v", v)
	}
	check := func(what, text string, words ...string) {
		t.Helper()
		if s := contains(text, words...); s != "" {
			t.Errorf("%s: %s", what, s)
		}
	}
	// 0/0, 1.2/16, 4.4/16 and our 9.9/16; ::/0, 2a01:1::/32 and our 2a00:9::/32. bgpd's ribCount is 6 and 4: nodes of its trees.
	s, err := l.router.BGPSummary(ctx, "")
	check("summary", must(s.Tables, err), "map[ipv4:4 ipv6:3]")
	check("neighbors", must(l.router.BGPNeighbors(ctx, "")), "Name:isp-a Address:192.0.2.2 ASN:64501 Text:fibre / north Local:192.0.2.1 RouterID:192.0.2.2 State:Established",
		"HoldMsec:9000")

	received, err := l.router.BGPPeerRoutes(ctx, "", "isp-a", Received, 2)
	check("received", must(received, err), "Total:5", "{Prefix:0.0.0.0/0 NextHop:192.0.2.2 Path:64501 Origin:igp Preference:200 MED:0 Best:true} {Prefix:1.2.0.0/16")
	if len(received.Routes) != 2 {
		t.Errorf("limit 2: %d routes", len(received.Routes))
	}
	check("received, by address", must(l.router.BGPPeerRoutes(ctx, "", "198.51.100.2", Received, 0)), "Peer:isp-b", "Prefix:1.2.0.0/16 NextHop:198.51.100.2 Path:64502 Origin:igp Preference:100 MED:0 Best:false")
	check("advertised", must(l.router.BGPPeerRoutes(ctx, "", "isp-b", Advertised, 0)), "Total:2 Routes:[{Prefix:9.9.0.0/16", "{Prefix:2a00:9::/32")
	if _, err := l.router.BGPPeerRoutes(ctx, "", "isp-c", Received, 0); err == nil {
		t.Error("a peer that does not exist has routes")
	}
	paths, err := l.router.BGPPaths(ctx, "", prefix("1.2.3.4/32").Prefix)
	check("paths", must(paths, err), "Prefix:1.2.0.0/16 Paths:[{BGPRoute:{Prefix:1.2.0.0/16 NextHop:192.0.2.2 Path:64501 Origin:igp Preference:200 MED:0 Best:true} Peer:isp-a Address:192.0.2.2 Why:Local Pref Valid:true", "Path:64502", "Peer:isp-b")
	check("own path", must(l.router.BGPPaths(ctx, "", prefix("2a00:9::/32").Prefix)), "Path: Origin:igp", "Peer: Address: ")
	if p, err := l.router.BGPPaths(ctx, "", prefix("77.0.0.0/8").Prefix); err != nil || len(p.Paths) != 0 {
		t.Errorf("paths to nowhere: %+v %v", p, err)
	}

	check("OSPF interfaces", must(l.router.OSPFInterfaces(ctx, "")), "{Version:2 Name:to-i Address:10.0.0.1/30 Area:0.0.0.0 Network:point-to-point State:Point-To-Point Cost:15 Priority:1 HelloMsec:1000 DeadSec:4 Passive:false Neighbors:1 Adjacent:1}",
		"{Version:3 Name:to-i Address: Area:0.0.0.0 Network:point-to-point State:Point-To-Point Cost:15 Priority:1 HelloMsec:1000 DeadSec:4 Passive:false Neighbors:1 Adjacent:1}", "Area:0.0.0.5 Network:broadcast")
	check("OSPF database", must(l.router.OSPFDatabase(ctx, "")), "{Version:2 Scope:0.0.0.0 Type:router ID:10.0.0.2 Router:10.0.0.2 ", "Content:3 links", "Type:external ID:192.0.2.0 Router:192.0.2.1", "Scope:0.0.0.5 Type:nssa-external",
		"{Version:3 Scope:0.0.0.0 Type:intra-area-prefix ", "Scope:link to-i Type:link ")
}

// Both versions of OSPF use the words of RFC 2328.
func TestOSPFWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{stateWord("Twoway"), "2-Way"}, {stateWord("ExChange"), "Exchange"}, {stateWord("2-Way"), "2-Way"}, {stateWord("Full"), "Full"},
		{roleWord("Backup"), "BDR"}, {roleWord("BDR"), "BDR"}, {roleWord("DROther"), "DROther"}, {roleWord("-"), ""}, {roleWord("PointToPoint"), ""},
		{ifStateWord("Backup"), "BDR"}, {ifStateWord("PointToPoint"), "Point-To-Point"}, {networkWord("POINTOPOINT"), "point-to-point"}, {networkWord("BROADCAST"), "broadcast"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// FRR 10 has numbers beside the families in its statistics.
func TestTotalPrefixes(t *testing.T) {
	for text, want := range map[string]uint64{
		`{"ipv4Unicast":[{"instance":"VRF default","totalPrefixes":4}]}`:                                                                4,
		`{"ipv4Unicast":[{"totalPrefixes":4},{"totalPrefixes":3}],"bgpBestPathCalls":12,"bgpNodeOnQueue":0,"bgpNodeDeferredOnQueue":0}`: 7,
		`{"ipv4Unicast":[]}`:                           0,
		`{"warning":"Default BGP instance not found"}`: 0,
	} {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &raw); err != nil {
			t.Fatal(err)
		}
		if n, err := totalPrefixes(raw["ipv4Unicast"]); err != nil || n != want {
			t.Errorf("%s: %d, %v; expected %d", text, n, err, want)
		}
	}
}
