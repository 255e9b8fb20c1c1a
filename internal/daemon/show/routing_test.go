// SPDX-License-Identifier: Apache-2.0

package show

import (
	"io"

	"minne/internal/subsystem/routing"
)

// routingSamples are the views of routing protocols, for TestScreens.
var routingSamples = map[string]func(io.Writer) error{
	"bgp-neighbors": func(w io.Writer) error {
		return BGPNeighbors(w, BGPNeighborsView{Peers: []routing.BGPNeighbor{
			{Name: "isp-a", Address: "198.51.100.1", ASN: 64496, Text: "fibre", Local: "198.51.100.2", RouterID: "198.51.100.1", State: "Established",
				UptimeMsec: 93_784_000, HoldMsec: 90_000, BFD: "Up", Families: map[string]routing.BGPCounts{"ipv4": {Received: 901_899, Sent: 2, Limit: 1_200_000}}},
			{Name: "isp-b", Address: "2001:db8:b::1", ASN: 4_200_000_001, State: "Active", LastReset: "Waiting for peer OPEN", Families: map[string]routing.BGPCounts{"ipv6": {}}}}})
	},
	"bgp-routes": func(w io.Writer) error {
		return BGPRoutes(w, routing.BGPRoutes{Peer: "isp-a", Address: "198.51.100.1", Direction: routing.Received, Total: 901_899, Routes: []routing.BGPRoute{
			{Prefix: "1.0.0.0/24", NextHop: "198.51.100.1", Path: "64496 13335", Preference: 200, Best: true},
			{Prefix: "2001:db8:1234:5678::/64", NextHop: "2001:db8:a:b:c:d:e:f", Path: "64496 4200000001 4200000002 4200000003 4200000004 4200000005", MED: 100, Preference: 100}}})
	},
	"bgp-paths": func(w io.Writer) error {
		return BGPPaths(w, routing.BGPPaths{Prefix: "1.0.0.0/24", Paths: []routing.BGPPath{
			{BGPRoute: routing.BGPRoute{NextHop: "198.51.100.1", Path: "64496 13335", Origin: "igp", Preference: 200, Best: true}, Peer: "isp-a", Valid: true, Why: "Local Pref", Communities: "64496:100"},
			{BGPRoute: routing.BGPRoute{NextHop: "203.0.113.1", Path: "64497 3356 13335", Origin: "igp", Preference: 100}, Peer: "isp-b"}}})
	},
	"ospf-neighbors": func(w io.Writer) error {
		return OSPFNeighbors(w, OSPFView{Neighbors: []routing.OSPFNeighbor{
			{Version: 2, RouterID: "192.0.2.7", Address: "192.0.2.7", Interface: "core", State: "Full", Role: "DR", Priority: 1},
			{Version: 2, RouterID: "192.0.2.8", Address: "192.0.2.8", Interface: "core", State: "2-Way", Role: "DROther", Priority: 1},
			{Version: 3, RouterID: "192.0.2.7", Interface: "core", State: "Full", Role: "BDR", Priority: 1}}})
	},
	"ospf-interfaces": func(w io.Writer) error {
		return OSPFInterfaces(w, OSPFInterfacesView{Interfaces: []routing.OSPFInterface{
			{Version: 2, Name: "core", Address: "192.0.2.1/24", Area: "0.0.0.0", Network: "broadcast", State: "BDR", Cost: 10, HelloMsec: 10_000, DeadSec: 40, Neighbors: 2, Adjacent: 1},
			{Version: 2, Name: "lan", Address: "198.51.100.1/24", Area: "0.0.0.0", Network: "broadcast", State: "DR", Cost: 10, DeadSec: 40, Passive: true}}})
	},
	"ospf-database": func(w io.Writer) error {
		return OSPFDatabase(w, OSPFDatabaseView{Total: 3, Entries: []routing.OSPFLSA{
			{Version: 2, Scope: "0.0.0.0", Type: "router", ID: "192.0.2.1", Router: "192.0.2.1", AgeSec: 17, Sequence: "80000003", Content: "2 links"},
			{Version: 3, Scope: "link core", Type: "intra-area-prefix", ID: "0.0.0.4", Router: "192.0.2.7", AgeSec: 1234, Sequence: "80000001", Content: "2001:db8:1234:5678::/64"}}})
	},
	"bgp-summary": func(w io.Writer) error {
		return BGPSummary(w, routing.BGPSummary{RouterID: "192.0.2.1", ASN: 64500, Tables: map[string]uint64{"ipv4": 901_899, "ipv6": 160_147}, Peers: []routing.BGPPeerStatus{
			{Name: "isp-a", Address: "198.51.100.1", ASN: 64496, State: "Established", UptimeMsec: 93_784_000, MsgReceived: 123_456, MsgSent: 1234, Families: map[string]routing.BGPCounts{"ipv4": {Received: 901_899, Sent: 2}}},
			{Name: "isp-b", Address: "2001:db8:b::1", ASN: 64497, State: "Idle (PfxCt)", Families: map[string]routing.BGPCounts{"ipv6": {}}}}})
	},
}
