// SPDX-License-Identifier: Apache-2.0

// What ospfd and ospf6d know, in the same words for both.
package routing

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// OSPFNeighbor is one neighbour, of version 2 or 3.
type OSPFNeighbor struct {
	Version   int    `json:"version"`
	RouterID  string `json:"router_id"`
	Address   string `json:"address,omitempty"` // OSPFv2 only
	Interface string `json:"interface"`
	State     string `json:"state"`          // Full, 2-Way, Init, …: the words of RFC 2328 for both versions
	Role      string `json:"role,omitempty"` // DR, BDR, DROther; "" on a point-to-point link
	Priority  int    `json:"priority"`
}

// OSPFNeighbors reads the neighbours of both versions.
func (r *Routing) OSPFNeighbors(ctx context.Context, vrf string) ([]OSPFNeighbor, error) {
	v2, err := r.ospf2Neighbors(ctx, vrf)
	if err != nil {
		return nil, err
	}
	v3, err := r.ospf3Neighbors(ctx, vrf)
	return append(v2, v3...), err
}

// stateWord returns a neighbour's state as RFC 2328 calls it; ospf6d has words of its own.
func stateWord(s string) string {
	if w, ok := map[string]string{"Twoway": "2-Way", "ExChange": "Exchange"}[s]; ok {
		return w
	}
	return s
}

// roleWord returns a neighbour's role on a network of several routers, "" where there is none.
func roleWord(s string) string {
	if w, ok := map[string]string{"Backup": "BDR", "-": "", "PointToPoint": "", "PtMultipoint": ""}[s]; ok {
		return w
	}
	return s
}

// showOSPF asks ospfd for JSON. What is of a VRF stands below its name there.
func (r *Routing) showOSPF(ctx context.Context, vrf, what string, v any) error {
	command := "show ip ospf" + behind(vrf) + " " + what + " json"
	if vrf == "" {
		return r.show(ctx, ospfd, command, v)
	}
	var tables map[string]json.RawMessage
	if err := r.show(ctx, ospfd, command, &tables); err != nil || tables[vrf] == nil {
		return err
	}
	if err := json.Unmarshal(tables[vrf], v); err != nil {
		return fmt.Errorf("%s: answer to %q: %w", ospfd, command, err)
	}
	return nil
}

func (r *Routing) ospf2Neighbors(ctx context.Context, vrf string) ([]OSPFNeighbor, error) {
	var raw struct {
		Neighbors map[string][]struct {
			State    string `json:"nbrState"`
			OldState string `json:"state"` // FRR 8
			Priority int    `json:"nbrPriority"`
			OldPrio  int    `json:"priority"` // FRR 8
			Address  string `json:"ifaceAddress"`
			OldAddr  string `json:"address"` // FRR 8
			Iface    string `json:"ifaceName"`
		} `json:"neighbors"`
	}
	out := []OSPFNeighbor{}
	if err := r.showOSPF(ctx, vrf, "neighbor", &raw); err != nil {
		return out, err
	}
	for _, id := range slices.Sorted(maps.Keys(raw.Neighbors)) {
		for _, n := range raw.Neighbors[id] {
			full := n.State
			full = cmp.Or(full, n.OldState)
			state, role, _ := strings.Cut(full, "/")
			iface, own, _ := strings.Cut(n.Iface, ":")
			address := n.Address
			if address == "" || address == own {
				address = n.OldAddr
			}
			out = append(out, OSPFNeighbor{
				Version: 2, RouterID: id, Address: address, Interface: iface,
				State: stateWord(state), Role: roleWord(role), Priority: max(n.Priority, n.OldPrio),
			})
		}
	}
	return out, nil
}

func (r *Routing) ospf3Neighbors(ctx context.Context, vrf string) ([]OSPFNeighbor, error) {
	var raw struct {
		Neighbors []struct {
			ID       string `json:"neighborId"`
			Priority int    `json:"priority"`
			State    string `json:"state"`
			Role     string `json:"ifState"`
			Iface    string `json:"interfaceName"`
		} `json:"neighbors"`
	}
	out := []OSPFNeighbor{}
	if err := r.show(ctx, ospf6d, "show ipv6 ospf6"+behind(vrf)+" neighbor json", &raw); err != nil {
		return out, err
	}
	for _, n := range raw.Neighbors {
		out = append(out, OSPFNeighbor{
			Version: 3, RouterID: n.ID, Interface: n.Iface, State: stateWord(n.State), Role: roleWord(n.Role), Priority: n.Priority,
		})
	}
	return out, nil
}

// OSPFInterface is an interface on which OSPF runs, of version 2 or 3.
type OSPFInterface struct {
	Version   int    `json:"version"`
	Name      string `json:"name"`
	Address   string `json:"address,omitempty"` // OSPFv2 only
	Area      string `json:"area"`
	Network   string `json:"network"` // broadcast, point-to-point, loopback
	State     string `json:"state"`   // DR, BDR, DROther, Point-To-Point, Waiting, Loopback, Down
	Cost      int    `json:"cost"`
	Priority  int    `json:"priority"`
	HelloMsec int    `json:"hello_msec"`
	DeadSec   int    `json:"dead_seconds"`
	Passive   bool   `json:"passive,omitempty"`
	Neighbors int    `json:"neighbors"`
	Adjacent  int    `json:"adjacent"` // of them, with a full adjacency
}

// OSPFInterfaces reads the interfaces of both versions.
func (r *Routing) OSPFInterfaces(ctx context.Context, vrf string) ([]OSPFInterface, error) {
	v2, err := r.ospf2Interfaces(ctx, vrf)
	if err != nil {
		return nil, err
	}
	v3, err := r.ospf3Interfaces(ctx, vrf)
	return append(v2, v3...), err
}

func (r *Routing) ospf2Interfaces(ctx context.Context, vrf string) ([]OSPFInterface, error) {
	var raw struct {
		Interfaces map[string]struct {
			Enabled   bool   `json:"ospfEnabled"`
			Address   string `json:"ipAddress"`
			Bits      int    `json:"ipAddressPrefixlen"`
			Area      string `json:"area"`
			Network   string `json:"networkType"`
			State     string `json:"state"`
			Cost      int    `json:"cost"`
			Priority  int    `json:"priority"`
			HelloMsec int    `json:"timerMsecs"`
			DeadSec   int    `json:"timerDeadSecs"`
			Passive   bool   `json:"timerPassiveIface"`
			Neighbors int    `json:"nbrCount"`
			Adjacent  int    `json:"nbrAdjacentCount"`
		} `json:"interfaces"`
	}
	out := []OSPFInterface{}
	if err := r.showOSPF(ctx, vrf, "interface", &raw); err != nil {
		return out, err
	}
	for _, name := range slices.Sorted(maps.Keys(raw.Interfaces)) {
		i := raw.Interfaces[name]
		if !i.Enabled {
			continue
		}
		area, _, _ := strings.Cut(i.Area, " ") // "0.0.0.5 [NSSA]"
		out = append(out, OSPFInterface{Version: 2, Name: name, Address: fmt.Sprintf("%s/%d", i.Address, i.Bits), Area: area, Network: networkWord(i.Network),
			State: ifStateWord(i.State), Cost: i.Cost, Priority: i.Priority, HelloMsec: i.HelloMsec, DeadSec: i.DeadSec, Passive: i.Passive,
			Neighbors: i.Neighbors, Adjacent: i.Adjacent})
	}
	return out, nil
}

func (r *Routing) ospf3Interfaces(ctx context.Context, vrf string) ([]OSPFInterface, error) {
	var raw map[string]struct {
		Attached bool   `json:"attachedToArea"`
		Type     string `json:"type"`
		Operates string `json:"operatingAsType"`
		Area     string `json:"areaId"`
		State    string `json:"ospf6InterfaceState"`
		Cost     int    `json:"cost"`
		Priority int    `json:"priority"`
		Hello    int    `json:"timerIntervalsConfigHello"`
		Dead     int    `json:"timerIntervalsConfigDead"`
	}
	out := []OSPFInterface{}
	if err := r.show(ctx, ospf6d, "show ipv6 ospf6"+behind(vrf)+" interface json", &raw); err != nil {
		return out, err
	}
	neighbors, err := r.ospf3Neighbors(ctx, vrf)
	if err != nil {
		return out, err
	}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		i := raw[name]
		if !i.Attached {
			continue
		}
		if i.Operates != "" {
			i.Type = i.Operates
		}
		one := OSPFInterface{Version: 3, Name: name, Area: i.Area, Network: networkWord(i.Type), State: ifStateWord(i.State),
			Cost: i.Cost, Priority: i.Priority, HelloMsec: 1000 * i.Hello, DeadSec: i.Dead}
		for _, n := range neighbors {
			if n.Interface == name {
				one.Neighbors++
				if n.State == "Full" {
					one.Adjacent++
				}
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// networkWord returns the type of a network as the configuration calls it.
func networkWord(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "pointopoint", "point-to-point")
}

// ifStateWord returns an interface's state as RFC 2328 calls it.
func ifStateWord(s string) string {
	if w, ok := map[string]string{"Backup": "BDR", "PointToPoint": "Point-To-Point"}[s]; ok {
		return w
	}
	return s
}

// OSPFLSA is one entry of the link-state database, of version 2 or 3.
type OSPFLSA struct {
	Version  int    `json:"version"`
	Scope    string `json:"scope"` // an area, "link NAME", or "AS"
	Type     string `json:"type"`  // router, network, summary, external, …
	ID       string `json:"id"`
	Router   string `json:"router"` // who told it
	AgeSec   int    `json:"age_seconds"`
	Sequence string `json:"sequence"`          // hexadecimal
	Content  string `json:"content,omitempty"` // a prefix, a neighbour, or how many links
}

// OSPFDatabase reads the database of both versions.
func (r *Routing) OSPFDatabase(ctx context.Context, vrf string) ([]OSPFLSA, error) {
	v2, err := r.ospf2Database(ctx, vrf)
	if err != nil {
		return nil, err
	}
	v3, err := r.ospf3Database(ctx, vrf)
	return append(v2, v3...), err
}

// lsas2 are the kinds of ospfd's database: the key in its answer, and the word of RFC 2328.
var lsas2 = []struct{ key, word string }{
	{"routerLinkStates", "router"}, {"networkLinkStates", "network"}, {"summaryLinkStates", "summary"}, {"asbrSummaryLinkStates", "asbr-summary"},
	{"nssaExternalLinkStates", "nssa-external"}, {"asExternalLinkStates", "external"},
}

type lsa2 struct {
	ID       string `json:"lsId"`
	Router   string `json:"advertisedRouter"`
	Age      int    `json:"lsaAge"`
	Sequence string `json:"sequenceNumber"`
	Links    int    `json:"numOfRouterLinks"`
	Summary  string `json:"summaryAddress"`
	External string `json:"route"`
}

func (r *Routing) ospf2Database(ctx context.Context, vrf string) ([]OSPFLSA, error) {
	out := []OSPFLSA{}
	var raw map[string]json.RawMessage
	if err := r.showOSPF(ctx, vrf, "database", &raw); err != nil {
		return out, err
	}
	scopes := map[string]map[string]json.RawMessage{}
	if areas, ok := raw["areas"]; ok {
		if err := json.Unmarshal(areas, &scopes); err != nil {
			return out, fmt.Errorf("ospfd: show ip ospf database: %w", err)
		}
	}
	scopes["AS"] = raw
	for _, scope := range slices.Sorted(maps.Keys(scopes)) {
		for _, kind := range lsas2 {
			text, ok := scopes[scope][kind.key]
			if !ok {
				continue
			}
			var entries []lsa2
			if err := json.Unmarshal(text, &entries); err != nil {
				return out, fmt.Errorf("ospfd: show ip ospf database: %w", err)
			}
			for _, e := range entries {
				content := e.Summary + e.External
				if kind.word == "router" {
					content = fmt.Sprintf("%d links", e.Links)
				}
				out = append(out, OSPFLSA{Version: 2, Scope: scope, Type: kind.word, ID: e.ID, Router: e.Router, AgeSec: e.Age, Sequence: e.Sequence, Content: content})
			}
		}
	}
	return out, nil
}

// lsaWords3 are the words of RFC 5340 for ospf6d's abbreviations.
var lsaWords3 = map[string]string{"Rtr": "router", "Net": "network", "IAP": "inter-area-prefix", "IAR": "inter-area-router", "ASE": "external",
	"Grp": "group", "NSSA": "nssa-external", "Lnk": "link", "INP": "intra-area-prefix", "GR": "grace"}

func (r *Routing) ospf3Database(ctx context.Context, vrf string) ([]OSPFLSA, error) {
	type scope struct {
		Area      string `json:"areaId"`
		Interface string `json:"interface"`
		LSAs      []struct {
			Type     string `json:"type"`
			ID       string `json:"lsId"`
			Router   string `json:"advRouter"`
			Age      int    `json:"age"`
			Sequence uint32 `json:"seqNum"`
			Payload  string `json:"payload"`
		} `json:"lsa"`
	}
	var raw struct {
		Areas []scope `json:"areaScopedLinkStateDb"`
		Links []scope `json:"interfaceScopedLinkStateDb"`
		AS    []scope `json:"asScopedLinkStateDb"`
	}
	out := []OSPFLSA{}
	if err := r.show(ctx, ospf6d, "show ipv6 ospf6"+behind(vrf)+" database json", &raw); err != nil {
		return out, err
	}
	for _, s := range slices.Concat(raw.Areas, raw.Links, raw.AS) {
		name := "AS"
		switch {
		case s.Interface != "":
			name = "link " + s.Interface
		case s.Area != "":
			name = s.Area
		}
		for _, e := range s.LSAs {
			kind, ok := lsaWords3[e.Type]
			if !ok {
				kind = e.Type
			}
			out = append(out, OSPFLSA{Version: 3, Scope: name, Type: kind, ID: e.ID, Router: e.Router, AgeSec: e.Age,
				Sequence: strconv.FormatUint(uint64(e.Sequence), 16), Content: e.Payload})
		}
	}
	return out, nil
}
