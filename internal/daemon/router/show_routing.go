// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"minne/internal/subsystem/routing"
)

// The views of routing protocols. Their answers are routing's own types, lists with their names around them.

// OSPFView answers show ospf neighbor and show ospf6 neighbor.
type OSPFView struct {
	Neighbors []routing.OSPFNeighbor `json:"neighbors"`
}

// BGPNeighborsView answers show bgp neighbors.
type BGPNeighborsView struct {
	Peers []routing.BGPNeighbor `json:"peers"`
}

// OSPFInterfacesView answers show ospf interface and show ospf6 interface.
type OSPFInterfacesView struct {
	Interfaces []routing.OSPFInterface `json:"interfaces"`
}

// OSPFDatabaseView answers show ospf database and show ospf6 database.
type OSPFDatabaseView struct {
	Entries []routing.OSPFLSA `json:"entries"`
	Total   int               `json:"total"` // before the limit of the question
}

func viewBGP(ctx context.Context, d *Daemon, _ url.Values) (any, error) {
	return d.parts.routing.BGPSummary(ctx)
}

// viewBGPNeighbors answers with the sessions, or with that of the peer that the query names.
func viewBGPNeighbors(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	all, err := d.parts.routing.BGPNeighbors(ctx)
	peer := query.Get("peer")
	if err != nil || peer == "" {
		return BGPNeighborsView{all}, err
	}
	address, err := d.parts.routing.BGPPeer(ctx, peer)
	for _, n := range all {
		if n.Address == address {
			return BGPNeighborsView{[]routing.BGPNeighbor{n}}, nil
		}
	}
	return BGPNeighborsView{[]routing.BGPNeighbor{}}, err
}

// viewBGPRoutes answers with the routes of a peer. The query: peer, direction, limit.
func viewBGPRoutes(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	direction := query.Get("direction")
	if direction != routing.Received && direction != routing.Advertised {
		return nil, fmt.Errorf("direction %q: expected %s or %s", direction, routing.Received, routing.Advertised)
	}
	return d.parts.routing.BGPPeerRoutes(ctx, query.Get("peer"), direction, limitOf(query))
}

// viewBGPPaths answers with all paths to the prefix, or the address, that the query names.
func viewBGPPaths(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	prefix, err := parseDestination(query.Get("prefix"))
	if err != nil {
		return nil, err
	}
	return d.parts.routing.BGPPaths(ctx, prefix)
}

func viewOSPF(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	all, err := d.parts.routing.OSPFNeighbors(ctx)
	return OSPFView{ofVersion(all, query, func(n routing.OSPFNeighbor) int { return n.Version })}, err
}

func viewOSPFInterfaces(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	all, err := d.parts.routing.OSPFInterfaces(ctx)
	return OSPFInterfacesView{ofVersion(all, query, func(i routing.OSPFInterface) int { return i.Version })}, err
}

func viewOSPFDatabase(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	all, err := d.parts.routing.OSPFDatabase(ctx)
	v := OSPFDatabaseView{Entries: ofVersion(all, query, func(l routing.OSPFLSA) int { return l.Version })}
	v.Total = len(v.Entries)
	if limit := limitOf(query); limit > 0 && limit < v.Total {
		v.Entries = v.Entries[:limit]
	}
	return v, err
}

// ofVersion keeps what is of the OSPF version that the query names, all without one.
func ofVersion[T any](all []T, query url.Values, version func(T) int) []T {
	kept := []T{}
	for _, one := range all {
		if want := query.Get("version"); want == "" || want == strconv.Itoa(version(one)) {
			kept = append(kept, one)
		}
	}
	return kept
}

// limitOf returns the limit of a question, 0 for none.
func limitOf(query url.Values) int {
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 0 {
		return 0
	}
	return limit
}
