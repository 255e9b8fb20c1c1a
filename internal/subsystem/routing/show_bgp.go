// SPDX-License-Identifier: Apache-2.0

// BGP's tables: what a peer has told, what it was told, and all paths to a prefix.
package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// MaxPeerRoutes bounds what is asked of bgpd at once: it writes its whole answer into memory, some 300 bytes
// a route, and serves no session meanwhile.
const MaxPeerRoutes = 50_000

// The directions of BGPPeerRoutes.
const (
	Received   = "received"
	Advertised = "advertised"
)

// BGPRoutes are routes that a peer has told, as far as our policy took them, or was told.
type BGPRoutes struct {
	Peer      string     `json:"peer"` // the operator's name
	Address   string     `json:"address"`
	Direction string     `json:"direction"`
	Total     int        `json:"total"` // before the limit of the question
	Routes    []BGPRoute `json:"routes"`
}

// BGPRoute is one route of a table of BGP's.
type BGPRoute struct {
	Prefix     string `json:"prefix"`
	NextHop    string `json:"next_hop,omitempty"`
	Path       string `json:"as_path"` // AS numbers, the nearest first
	Origin     string `json:"origin,omitempty"`
	Preference uint32 `json:"local_preference,omitempty"`
	MED        uint32 `json:"med"`
	Best       bool   `json:"best"` // in use, among all that peers offer
}

// bgpRoute is a route as bgpd writes it, in either direction.
type bgpRoute struct {
	NextHop    string `json:"nextHop"`
	NextHop6   string `json:"nextHopGlobal"`
	Path       string `json:"path"`
	Origin     string `json:"origin"`
	Origin8    string `json:"bgpOriginCode"` // FRR 8, advertised routes
	Preference uint32 `json:"locPrf"`
	MED        uint32 `json:"metric"`
	Best       bool   `json:"bestpath"`
	NextHops   []struct {
		IP   string `json:"ip"`
		Used bool   `json:"used"`
	} `json:"nexthops"`
}

func (b bgpRoute) route(prefix string) BGPRoute {
	r := BGPRoute{Prefix: prefix, NextHop: b.NextHop + b.NextHop6, Path: b.Path, Origin: originWord(b.Origin + b.Origin8),
		Preference: b.Preference, MED: b.MED, Best: b.Best}
	for _, h := range b.NextHops {
		if h.Used || r.NextHop == "" {
			r.NextHop = h.IP
		}
	}
	return r
}

// originWord returns the origin of a route (RFC 4271 5.1.1) in one spelling.
func originWord(s string) string {
	switch s {
	case "i", "IGP":
		return "igp"
	case "e", "EGP":
		return "egp"
	}
	return strings.ReplaceAll(s, "?", "incomplete")
}

// BGPPeerRoutes reads the routes that a peer has told and that policy took, or that it was told; limit 0 is all.
func (r *Routing) BGPPeerRoutes(ctx context.Context, vrf, peer, direction string, limit int) (BGPRoutes, error) {
	out := BGPRoutes{Direction: direction, Routes: []BGPRoute{}}
	var err error
	if out.Address, err = r.BGPPeer(ctx, vrf, peer); err != nil {
		return out, err
	}
	out.Peer = r.known().peers[peerAt{vrf, out.Address}]
	counts, err := r.BGPNeighbors(ctx, vrf)
	if err != nil {
		return out, err
	}
	for _, n := range counts {
		if n.Address != out.Address {
			continue
		}
		for _, f := range familyKeys {
			c, ok := n.Families[f.family]
			if !ok {
				continue
			}
			if many := map[string]uint64{Received: c.Received, Advertised: c.Sent}[direction]; many > MaxPeerRoutes {
				return out, fmt.Errorf("%s: %d %s routes are too many to list (limit %d), because bgpd would block meanwhile; show one instead: minne show bgp PREFIX",
					r.called(vrf, out.Address), many, f.family, MaxPeerRoutes)
			}
			routes, err := r.peerRoutes(ctx, vrf, out.Address, f.family, direction)
			if err != nil {
				return out, err
			}
			out.Routes = append(out.Routes, routes...)
		}
	}
	out.Total = len(out.Routes)
	if limit > 0 && limit < out.Total {
		out.Routes = out.Routes[:limit]
	}
	return out, nil
}

func (r *Routing) peerRoutes(ctx context.Context, vrf, address, family, direction string) ([]BGPRoute, error) {
	command := "show bgp" + behind(vrf) + " " + family + " unicast neighbors " + address
	var out []BGPRoute
	if direction == Advertised {
		var raw struct {
			Routes map[string]bgpRoute `json:"advertisedRoutes"`
		}
		if err := r.show(ctx, bgpd, command+" advertised-routes json", &raw); err != nil {
			return nil, err
		}
		for prefix, route := range raw.Routes {
			one := route.route(prefix)
			one.Best = true // what is told is in use
			out = append(out, one)
		}
	} else {
		var raw struct {
			Routes map[string][]bgpRoute `json:"routes"`
		}
		if err := r.show(ctx, bgpd, command+" routes json", &raw); err != nil {
			return nil, err
		}
		for prefix, routes := range raw.Routes {
			for _, route := range routes {
				out = append(out, route.route(prefix))
			}
		}
	}
	slices.SortFunc(out, func(a, b BGPRoute) int { return comparePrefixes(a.Prefix, b.Prefix) })
	return out, nil
}

// comparePrefixes orders prefixes as numbers; what is none comes first.
func comparePrefixes(a, b string) int {
	p, err1 := netip.ParsePrefix(a)
	q, err2 := netip.ParsePrefix(b)
	if err1 != nil || err2 != nil || p.Addr() == q.Addr() && p.Bits() == q.Bits() {
		return strings.Compare(a, b)
	}
	if c := p.Addr().Compare(q.Addr()); c != 0 {
		return c
	}
	return p.Bits() - q.Bits()
}

// BGPPaths are all paths that BGP knows to a prefix.
type BGPPaths struct {
	Prefix string    `json:"prefix,omitempty"` // the longest that contains what was asked for; "" when there is none
	Paths  []BGPPath `json:"paths"`
}

// BGPPath is one of them.
type BGPPath struct {
	BGPRoute
	Peer        string `json:"peer,omitempty"` // the operator's name
	Address     string `json:"address,omitempty"`
	Why         string `json:"why_best,omitempty"` // what made it the best
	Valid       bool   `json:"valid"`              // its next hop can be reached
	Multipath   bool   `json:"multipath,omitempty"`
	Communities string `json:"communities,omitempty"`
	Since       int64  `json:"since,omitempty"` // seconds since 1970
}

// BGPPaths reads the paths to a prefix, or to that which an address takes.
func (r *Routing) BGPPaths(ctx context.Context, vrf string, prefix netip.Prefix) (BGPPaths, error) {
	out := BGPPaths{Paths: []BGPPath{}}
	family, what := "ipv4", prefix.Masked().String()
	if prefix.Addr().Is6() {
		family = "ipv6"
	}
	if prefix.IsSingleIP() {
		what = prefix.Addr().String()
	}
	var raw struct {
		Prefix string `json:"prefix"`
		Paths  []struct {
			bgpRoute
			ASPath struct {
				Text string `json:"string"`
			} `json:"aspath"`
			Valid     bool `json:"valid"`
			Multipath bool `json:"multipath"`
			Best      struct {
				Overall bool   `json:"overall"`
				Why     string `json:"selectionReason"`
			} `json:"bestpath"`
			Peer struct {
				Address string `json:"peerId"`
			} `json:"peer"`
			Community struct {
				Text string `json:"string"`
			} `json:"community"`
			Updated struct {
				Epoch int64 `json:"epoch"`
			} `json:"lastUpdate"`
		} `json:"paths"`
	}
	if err := r.show(ctx, bgpd, "show bgp"+behind(vrf)+" "+family+" unicast "+what+" json", &raw); err != nil {
		return out, err
	}
	out.Prefix = raw.Prefix
	names := r.known()
	for _, p := range raw.Paths {
		path := BGPPath{BGPRoute: p.route(raw.Prefix), Peer: names.peers[peerAt{vrf, p.Peer.Address}], Address: p.Peer.Address, Why: p.Best.Why, Valid: p.Valid,
			Multipath: p.Multipath, Communities: p.Community.Text, Since: p.Updated.Epoch}
		path.Path, path.Best = p.ASPath.Text, p.Best.Overall
		if _, err := netip.ParseAddr(path.Address); err != nil || path.Address == "0.0.0.0" || path.Address == "::" {
			path.Peer, path.Address, path.Path = "", "", "" // announced here
		}
		out.Paths = append(out.Paths, path)
	}
	slices.SortStableFunc(out.Paths, func(a, b BGPPath) int {
		switch {
		case a.Best == b.Best:
			return 0
		case a.Best:
			return -1
		}
		return 1
	})
	return out, nil
}

// destinations counts the prefixes of each family that BGP has paths to. bgpd walks its table for it.
func (r *Routing) destinations(ctx context.Context, vrf string, families []string) (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, f := range familyKeys {
		if !slices.Contains(families, f.family) {
			continue
		}
		var raw map[string]json.RawMessage
		if err := r.show(ctx, bgpd, "show bgp"+behind(vrf)+" "+f.family+" unicast statistics json", &raw); err != nil {
			return nil, err
		}
		n, err := totalPrefixes(raw[f.key])
		if err != nil {
			return nil, err
		}
		out[f.family] = n
	}
	return out, nil
}

// totalPrefixes reads what bgpd says of the table of one family. FRR 10 has numbers beside the families.
func totalPrefixes(family json.RawMessage) (sum uint64, err error) {
	var tables []struct {
		Prefixes uint64 `json:"totalPrefixes"`
	}
	if family == nil {
		return 0, nil
	}
	if err := json.Unmarshal(family, &tables); err != nil {
		return 0, fmt.Errorf("bgpd: statistics of a table: %w", err)
	}
	for _, t := range tables {
		sum += t.Prefixes
	}
	return sum, nil
}
