// SPDX-License-Identifier: Apache-2.0

// What the daemons know, read from their JSON. The fields taken here have the same names in FRR 8.4 and 10.3,
// or both names are looked at; a field that a version lacks stays zero.
package routing

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// BGPSummary is the state of all BGP sessions.
type BGPSummary struct {
	RouterID string            `json:"router_id"`
	ASN      uint32            `json:"asn"`
	Peers    []BGPPeerStatus   `json:"peers"`
	Tables   map[string]uint64 `json:"tables"` // destinations in the BGP table by family
	Nodes    uint64            `json:"-"`      // of the trees that hold them: more than destinations, cheap to know
}

// BGPPeerStatus is one session, with the routes of each family.
type BGPPeerStatus struct {
	Name        string               `json:"name,omitempty"` // the operator's name for the peer
	Address     string               `json:"address"`
	ASN         uint32               `json:"asn"`
	Description string               `json:"description,omitempty"`
	State       string               `json:"state"`       // Established, Active, Idle (Admin), …
	UptimeMsec  uint64               `json:"uptime_msec"` // since established, or since the session was lost
	Established uint64               `json:"times_established"`
	Dropped     uint64               `json:"times_dropped"`
	MsgReceived uint64               `json:"messages_received"`
	MsgSent     uint64               `json:"messages_sent"`
	Families    map[string]BGPCounts `json:"families"` // by "ipv4", "ipv6"
}

// BGPCounts counts routes of one family.
type BGPCounts struct {
	Received uint64 `json:"received"`
	Sent     uint64 `json:"sent"`
	Limit    uint64 `json:"limit,omitempty"` // of routes received; in the details of a session
}

var familyKeys = []struct{ family, key string }{{"ipv4", "ipv4Unicast"}, {"ipv6", "ipv6Unicast"}}

// BGPSummary reads the sessions of a table and counts what BGP has for it; vrf is "" for the main table, here and in
// all that follows. Without BGP it returns an empty summary.
func (r *Routing) BGPSummary(ctx context.Context, vrf string) (BGPSummary, error) {
	s, err := r.sessions(ctx, vrf)
	if err == nil {
		s.Tables, err = r.destinations(ctx, vrf, sortedKeys(s.Tables))
	}
	return s, err
}

// BGPSessions reads the sessions alone, which costs bgpd little however many routes it has.
func (r *Routing) BGPSessions(ctx context.Context, vrf string) ([]BGPPeerStatus, error) {
	s, err := r.sessions(ctx, vrf)
	return s.Peers, err
}

// sessions reads the sessions. Tables has the families only.
func (r *Routing) sessions(ctx context.Context, vrf string) (BGPSummary, error) {
	var raw map[string]struct {
		RouterID string `json:"routerId"`
		AS       uint32 `json:"as"`
		RIBCount uint64 `json:"ribCount"`
		Peers    map[string]struct {
			RemoteAS    uint32 `json:"remoteAs"`
			Desc        string `json:"desc"`
			State       string `json:"state"`
			UptimeMsec  uint64 `json:"peerUptimeMsec"`
			Received    uint64 `json:"pfxRcd"`
			Sent        uint64 `json:"pfxSnt"`
			MsgRcvd     uint64 `json:"msgRcvd"`
			MsgSent     uint64 `json:"msgSent"`
			Established uint64 `json:"connectionsEstablished"`
			Dropped     uint64 `json:"connectionsDropped"`
		} `json:"peers"`
	}
	s := BGPSummary{Peers: []BGPPeerStatus{}, Tables: map[string]uint64{}}
	if err := r.show(ctx, bgpd, "show bgp"+behind(vrf)+" summary json", &raw); err != nil {
		return s, err
	}
	names := r.known()
	peers := map[string]*BGPPeerStatus{}
	for _, f := range familyKeys {
		table, ok := raw[f.key]
		if !ok {
			continue
		}
		s.RouterID, s.ASN, s.Tables[f.family] = table.RouterID, table.AS, 0
		s.Nodes += table.RIBCount
		for address, p := range table.Peers {
			known := peers[address]
			if known == nil {
				known = &BGPPeerStatus{
					Name: names.peers[peerAt{vrf, address}], Address: address, ASN: p.RemoteAS, Description: p.Desc, State: p.State,
					UptimeMsec: p.UptimeMsec, Established: p.Established, Dropped: p.Dropped,
					MsgReceived: p.MsgRcvd, MsgSent: p.MsgSent, Families: map[string]BGPCounts{},
				}
				peers[address] = known
			}
			known.Families[f.family] = BGPCounts{Received: p.Received, Sent: p.Sent}
		}
	}
	for _, address := range slices.Sorted(maps.Keys(peers)) {
		s.Peers = append(s.Peers, *peers[address])
	}
	return s, nil
}

// known returns what was applied last; never to be written to.
func (r *Routing) known() Desired {
	if d := r.told.Load(); d != nil {
		return *d
	}
	return Desired{}
}

// BGPNeighbor is one session in detail.
type BGPNeighbor struct {
	Name       string               `json:"name,omitempty"`
	Address    string               `json:"address"`
	ASN        uint32               `json:"asn"`
	Text       string               `json:"description,omitempty"`
	Local      string               `json:"local_address,omitempty"`
	RouterID   string               `json:"router_id,omitempty"` // the peer's
	State      string               `json:"state"`
	UptimeMsec uint64               `json:"uptime_msec"`
	HoldMsec   uint64               `json:"hold_time_msec"`
	LastReset  string               `json:"last_reset,omitempty"`
	BFD        string               `json:"bfd,omitempty"` // Up, Down, …; empty without BFD
	Families   map[string]BGPCounts `json:"families"`
}

// neighbors reads what bgpd tells of its sessions, by address.
func (r *Routing) neighbors(ctx context.Context, vrf string) (map[string]json.RawMessage, error) {
	var raw map[string]json.RawMessage
	err := r.show(ctx, bgpd, "show bgp"+behind(vrf)+" neighbors json", &raw)
	maps.DeleteFunc(raw, func(key string, _ json.RawMessage) bool { // there are keys beside the peers
		_, err := netip.ParseAddr(key)
		return err != nil
	})
	return raw, err
}

// BGPNeighbors reads the sessions in detail.
func (r *Routing) BGPNeighbors(ctx context.Context, vrf string) ([]BGPNeighbor, error) {
	out := []BGPNeighbor{}
	raw, err := r.neighbors(ctx, vrf)
	if err != nil {
		return out, err
	}
	names := r.known()
	for _, address := range slices.Sorted(maps.Keys(raw)) {
		var n struct {
			RemoteAS   uint32 `json:"remoteAs"`
			Text       string `json:"nbrDesc"`
			Local      string `json:"hostLocal"`
			RouterID   string `json:"remoteRouterId"`
			State      string `json:"bgpState"`
			UptimeMsec uint64 `json:"bgpTimerUpMsec"`
			HoldMsec   uint64 `json:"bgpTimerHoldTimeMsecs"`
			LastReset  string `json:"lastResetDueTo"`
			BFD        struct {
				Status string `json:"status"`
			} `json:"peerBfdInfo"`
			Families map[string]struct {
				Accepted uint64 `json:"acceptedPrefixCounter"`
				Sent     uint64 `json:"sentPrefixCounter"`
				Limit    uint64 `json:"prefixAllowedMax"`
			} `json:"addressFamilyInfo"`
		}
		if err := json.Unmarshal(raw[address], &n); err != nil {
			return out, fmt.Errorf("bgpd: show bgp neighbors: %w", err)
		}
		b := BGPNeighbor{
			Name: names.peers[peerAt{vrf, address}], Address: address, ASN: n.RemoteAS, Text: n.Text, Local: n.Local, RouterID: n.RouterID, State: n.State, UptimeMsec: n.UptimeMsec,
			HoldMsec: n.HoldMsec, LastReset: n.LastReset, BFD: n.BFD.Status, Families: map[string]BGPCounts{},
		}
		for _, f := range familyKeys {
			if c, ok := n.Families[f.key]; ok {
				b.Families[f.family] = BGPCounts{Received: c.Accepted, Sent: c.Sent, Limit: c.Limit}
			}
		}
		out = append(out, b)
	}
	return out, nil
}

// Route is one route that zebra knows: one line of "show ip route" per next hop.
type Route struct {
	Prefix    string         `json:"prefix"`
	Protocol  string         `json:"protocol"` // bgp, ospf, kernel, connected, …
	Selected  bool           `json:"selected"`
	Installed bool           `json:"installed"`
	Distance  uint32         `json:"distance"`
	Metric    uint32         `json:"metric"`
	Tag       uint32         `json:"tag,omitempty"`
	Uptime    string         `json:"uptime"`
	NextHops  []RouteNextHop `json:"next_hops"`
}

// RouteNextHop is one of a route's next hops.
type RouteNextHop struct {
	Address   string `json:"address,omitempty"`
	Interface string `json:"interface,omitempty"`
	Active    bool   `json:"active"`
	Blackhole bool   `json:"blackhole,omitempty"`
}

// Route reads the routes to a prefix, or those that an address takes; with longer also all
// prefixes inside it.
func (r *Routing) Route(ctx context.Context, vrf string, prefix netip.Prefix, longer bool) ([]Route, error) {
	if !prefix.IsValid() {
		return nil, fmt.Errorf("show route: expected an address or a prefix")
	}
	family, what := "ip", prefix.Masked().String()
	if prefix.Addr().Is6() {
		family = "ipv6"
	}
	switch {
	case longer:
		what += " longer-prefixes"
	case prefix.IsSingleIP():
		what = prefix.Addr().String()
	}
	var raw map[string][]struct {
		Protocol  string `json:"protocol"`
		Selected  bool   `json:"selected"`
		Installed bool   `json:"installed"`
		Distance  uint32 `json:"distance"`
		Metric    uint32 `json:"metric"`
		Tag       uint32 `json:"tag"`
		Uptime    string `json:"uptime"`
		NextHops  []struct {
			IP          string `json:"ip"`
			Interface   string `json:"interfaceName"`
			Active      bool   `json:"active"`
			Unreachable bool   `json:"unreachable"`
		} `json:"nexthops"`
	}
	out := []Route{}
	if err := r.show(ctx, zebra, "show "+family+" route"+behind(vrf)+" "+what+" json", &raw); err != nil {
		return out, err
	}
	for _, p := range slices.Sorted(maps.Keys(raw)) {
		for _, e := range raw[p] {
			route := Route{Prefix: p, Protocol: e.Protocol, Selected: e.Selected, Installed: e.Installed,
				Distance: e.Distance, Metric: e.Metric, Tag: e.Tag, Uptime: e.Uptime, NextHops: []RouteNextHop{}}
			for _, n := range e.NextHops {
				route.NextHops = append(route.NextHops, RouteNextHop{n.IP, n.Interface, n.Active, n.Unreachable})
			}
			out = append(out, route)
		}
	}
	return out, nil
}

// show asks a daemon for JSON. A daemon that does not run knows nothing: v stays as it is.
func (r *Routing) show(ctx context.Context, daemon, command string, v any) error {
	text, err := r.answer(ctx, daemon, command)
	if err != nil || text == "" {
		return err
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		return fmt.Errorf("%s: answer to %q: %w", daemon, command, err)
	}
	return nil
}

// answer returns a daemon's answer to a show command, "" when the daemon does not run or has nothing.
func (r *Routing) answer(ctx context.Context, daemon, command string) (string, error) {
	p, err := r.host.find(daemon)
	if err != nil || p == nil {
		return "", err
	}
	p.Close()
	c, err := dialVTY(ctx, daemon, r.host.socket(daemon))
	if err != nil {
		return "", err
	}
	defer c.close()
	text, err := c.command(ctx, command)
	if err != nil {
		return "", err
	}
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "%") {
		return "", nil // "% BGP instance not found": nothing there
	}
	return text, nil
}
