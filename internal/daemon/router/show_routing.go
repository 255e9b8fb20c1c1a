// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"slices"

	"minne/internal/base/ipnet"
	"minne/internal/daemon/show"
	"minne/internal/model/config"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/routing"
)

// The views of routing protocols. Their answers are routing's own types, lists with their names around them.

// VRFQuestion asks for what is in one table.
type VRFQuestion struct {
	VRF string `json:"vrf" names:"vrf" doc:"'name' of the VRF; without it, the main table"`
}

// inTable reads what is in a table, of a VRF that exists.
func inTable[A any](vrf string, read func(vrf string) (A, error)) (none A, err error) {
	if vrf != "" {
		if _, err := kernel.VRFTable(vrf); err != nil {
			return none, err
		}
	}
	return read(vrf)
}

// BGPSummary is show bgp summary.
var BGPSummary = View[VRFQuestion, routing.BGPSummary]{
	Text: Text{Path: "bgp/summary", Args: "[vrf NAME]", Short: "Show BGP sessions with their state and prefixes", Begins: true},
	Read: func(ctx context.Context, d *Daemon, q VRFQuestion) (routing.BGPSummary, error) {
		return inTable(q.VRF, func(vrf string) (routing.BGPSummary, error) { return d.parts.routing.BGPSummary(ctx, vrf) })
	},
	Print: only[VRFQuestion](show.BGPSummary),
}

// PeerQuestion asks for BGP sessions.
type PeerQuestion struct {
	VRF  string `json:"vrf" names:"vrf" doc:"'name' of the VRF; without it, the main table"`
	Peer string `json:"peer" names:"peer" doc:"'name' or address of the only peer to show"`
}

// BGPNeighbors is show bgp neighbors.
var BGPNeighbors = View[PeerQuestion, show.BGPNeighborsView]{
	Text: Text{Path: "bgp/neighbors", Args: "[vrf NAME] [PEER [received | advertised]]", Short: "Show BGP sessions in detail, and the routes of a peer",
		Long: fmt.Sprintf(`Show the BGP sessions in detail, or that with a peer, named as in the configuration or by its address.

With received: the routes from the peer that the import policy accepted; those that it refused are not kept. With
advertised: the routes that the peer gets. The command refuses a peer with more than %d routes of a family, because
bgpd would stop meanwhile.`, routing.MaxPeerRoutes),
		Aliases: []string{"neighbor", "neighbours"}},
	Read:  readBGPNeighbors,
	Print: only[PeerQuestion](show.BGPNeighbors),
}

func readBGPNeighbors(ctx context.Context, d *Daemon, q PeerQuestion) (v show.BGPNeighborsView, err error) {
	v.Peers, err = inTable(q.VRF, func(vrf string) ([]routing.BGPNeighbor, error) { return d.parts.routing.BGPNeighbors(ctx, vrf) })
	if err != nil || q.Peer == "" {
		return v, err
	}
	address, err := d.parts.routing.BGPPeer(ctx, q.VRF, q.Peer)
	v.Peers = slices.DeleteFunc(v.Peers, func(n routing.BGPNeighbor) bool { return n.Address != address })
	return v, err
}

// PeerRoutesQuestion asks for the routes of a BGP peer.
type PeerRoutesQuestion struct {
	VRF       string `json:"vrf" names:"vrf" doc:"'name' of the VRF; without it, the main table"`
	Peer      string `json:"peer" names:"peer" doc:"'name' or address of the peer"`
	Direction string `json:"direction" values:"received,advertised" doc:"routes that the peer sends (received) or gets (advertised)"`
	Limit     int    `json:"limit" flag:"limit" default:"1000" doc:"'number' of routes at most; 0 for all"`
}

// BGPRoutes is show bgp neighbors NAME received.
var BGPRoutes = View[PeerRoutesQuestion, routing.BGPRoutes]{
	Text: Text{Path: "bgp/neighbors/{peer}/{direction}", Short: "Show the routes of a BGP peer"},
	Read: func(ctx context.Context, d *Daemon, q PeerRoutesQuestion) (routing.BGPRoutes, error) {
		return inTable(q.VRF, func(vrf string) (routing.BGPRoutes, error) {
			return d.parts.routing.BGPPeerRoutes(ctx, vrf, q.Peer, q.Direction, q.Limit)
		})
	},
	Print: only[PeerRoutesQuestion](show.BGPRoutes),
}

// PathsQuestion asks for all paths to a prefix.
type PathsQuestion struct {
	VRF    string `json:"vrf" names:"vrf" doc:"'name' of the VRF; without it, the main table"`
	Prefix string `json:"prefix" doc:"'prefix', or an address in it"`
}

// Words reads the words behind show bgp.
func (q *PathsQuestion) Words(words []string) error {
	q.Prefix = words[0]
	if isDestination(q.Prefix) {
		return nil
	}
	if right := config.WithoutZeros(q.Prefix); right != "" {
		return leadingZero(q.Prefix, right)
	}
	return ErrNoWord
}

// BGPPaths is show bgp PREFIX.
var BGPPaths = View[PathsQuestion, routing.BGPPaths]{
	Text: Text{Path: "bgp/{prefix}", Args: "[vrf NAME] [PREFIX | ADDRESS]", Short: "Show BGP: sessions, or all paths to a prefix",
		Long: `Show all paths that BGP knows to a prefix, the best first and why it is the best. An address shows the prefix that
packets to it take. Without one: the sessions, as minne show bgp summary. Without vrf: what is in the main table.`},
	Read: func(ctx context.Context, d *Daemon, q PathsQuestion) (routing.BGPPaths, error) {
		prefix, err := ipnet.Parse(q.Prefix)
		if err != nil {
			return routing.BGPPaths{}, err
		}
		return inTable(q.VRF, func(vrf string) (routing.BGPPaths, error) { return d.parts.routing.BGPPaths(ctx, vrf, prefix.Masked()) })
	},
	Print: only[PathsQuestion](show.BGPPaths),
}

// BabelNeighbors shows the neighbours of Babel.
var BabelNeighbors = View[Nothing, show.BabelView]{
	Text: Text{Path: "babel/neighbor", Short: "Show the neighbours of Babel, and what links to them cost", Aliases: []string{"neighbors"}},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (v show.BabelView, err error) {
		v.Neighbors, err = d.parts.routing.BabelNeighbors(ctx)
		return v, err
	},
	Print: only[Nothing](show.BabelNeighbors),
}

// BabelRoutes shows the routes of Babel.
var BabelRoutes = View[Nothing, show.BabelRoutesView]{
	Text: Text{Path: "babel/route", Short: "Show the routes that Babel knows", Aliases: []string{"routes"}},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (v show.BabelRoutesView, err error) {
		v.Routes, err = d.parts.routing.BabelRoutes(ctx)
		return v, err
	},
	Print: only[Nothing](show.BabelRoutes),
}

// OSPFNeighbors shows the neighbours of one version of OSPF, of both for 0.
func OSPFNeighbors(word string, version int) View[VRFQuestion, show.OSPFView] {
	return View[VRFQuestion, show.OSPFView]{
		Text: Text{Path: word + "/neighbor", Args: "[vrf NAME]", Short: "Show the neighbours of " + ospfName(version), Aliases: []string{"neighbors"}},
		Read: func(ctx context.Context, d *Daemon, q VRFQuestion) (show.OSPFView, error) {
			all, err := inTable(q.VRF, func(vrf string) ([]routing.OSPFNeighbor, error) { return d.parts.routing.OSPFNeighbors(ctx, vrf) })
			return show.OSPFView{Neighbors: ofVersion(all, version, func(n routing.OSPFNeighbor) int { return n.Version })}, err
		},
		Print: only[VRFQuestion](show.OSPFNeighbors),
	}
}

// OSPFInterfaces shows where OSPF runs.
func OSPFInterfaces(word string, version int) View[VRFQuestion, show.OSPFInterfacesView] {
	return View[VRFQuestion, show.OSPFInterfacesView]{
		Text: Text{Path: word + "/interface", Args: "[vrf NAME]", Short: "Show the interfaces of " + ospfName(version) + ": costs, timers, neighbours", Aliases: []string{"interfaces"}},
		Read: func(ctx context.Context, d *Daemon, q VRFQuestion) (show.OSPFInterfacesView, error) {
			all, err := inTable(q.VRF, func(vrf string) ([]routing.OSPFInterface, error) { return d.parts.routing.OSPFInterfaces(ctx, vrf) })
			return show.OSPFInterfacesView{Interfaces: ofVersion(all, version, func(i routing.OSPFInterface) int { return i.Version })}, err
		},
		Print: only[VRFQuestion](show.OSPFInterfaces),
	}
}

// DatabaseQuestion asks for the link-state database.
type DatabaseQuestion struct {
	VRF   string `json:"vrf" names:"vrf" doc:"'name' of the VRF; without it, the main table"`
	Limit int    `json:"limit" flag:"limit" default:"1000" doc:"'number' of entries at most; 0 for all"`
}

// OSPFDatabase shows the link-state database.
func OSPFDatabase(word string, version int) View[DatabaseQuestion, show.OSPFDatabaseView] {
	return View[DatabaseQuestion, show.OSPFDatabaseView]{
		Text: Text{Path: word + "/database", Args: "[vrf NAME]", Short: "Show the link-state database of " + ospfName(version)},
		Read: func(ctx context.Context, d *Daemon, q DatabaseQuestion) (show.OSPFDatabaseView, error) {
			all, err := inTable(q.VRF, func(vrf string) ([]routing.OSPFLSA, error) { return d.parts.routing.OSPFDatabase(ctx, vrf) })
			all = ofVersion(all, version, func(l routing.OSPFLSA) int { return l.Version })
			return show.OSPFDatabaseView{Entries: limited(all, q.Limit), Total: len(all)}, err
		},
		Print: only[DatabaseQuestion](show.OSPFDatabase),
	}
}

// ospfName names a version, or both.
func ospfName(version int) string {
	if version == 0 {
		return "OSPFv2 and OSPFv3"
	}
	return fmt.Sprintf("OSPFv%d", version)
}

// ofVersion keeps what is of an OSPF version, all for 0.
func ofVersion[T any](all []T, want int, version func(T) int) []T {
	kept := []T{}
	for _, one := range all {
		if want == 0 || want == version(one) {
			kept = append(kept, one)
		}
	}
	return kept
}
