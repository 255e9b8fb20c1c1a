// SPDX-License-Identifier: Apache-2.0

// What babeld knows. It answers in text only.
package routing

import (
	"context"
	"strconv"
	"strings"
)

// BabelNeighbor is a router that is heard on an interface. Costs are those of RFC 8966 section 3.4.3.
type BabelNeighbor struct {
	Address   string `json:"address"` // link-local
	Interface string `json:"interface"`
	Reach     string `json:"reach"`  // which of the last 16 hellos came, a bit each in hexadecimal, the newest first
	RxCost    int    `json:"rxcost"` // of what comes from it; 65535: unreachable
	TxCost    int    `json:"txcost"` // of what goes to it, as it says
}

// BabelRoute is a route that Babel knows.
type BabelRoute struct {
	Prefix    string `json:"prefix"`
	Metric    int    `json:"metric"`           // 65535: unreachable
	Router    string `json:"router,omitempty"` // id of the router that redistributes it
	Interface string `json:"interface,omitempty"`
	Neighbor  string `json:"neighbor,omitempty"`
	NextHop   string `json:"next_hop,omitempty"` // where it is not the neighbour's link-local address
	State     string `json:"state"`              // installed: in use; feasible: may be used; exported: this router redistributes it; "": not usable
}

// BabelNeighbors reads the neighbours.
func (r *Routing) BabelNeighbors(ctx context.Context) ([]BabelNeighbor, error) {
	text, err := r.answer(ctx, babeld, "show babel neighbor")
	return babelNeighbors(text), err
}

func babelNeighbors(text string) []BabelNeighbor {
	out := []BabelNeighbor{}
	for line := range strings.Lines(text) {
		v, _ := pairs(line)
		if v["Neighbour"] != "" {
			out = append(out, BabelNeighbor{Address: v["Neighbour"], Interface: v["dev"], Reach: v["reach"], RxCost: number16(v["rxcost"]), TxCost: number16(v["txcost"])})
		}
	}
	return out
}

// BabelRoutes reads the routes.
func (r *Routing) BabelRoutes(ctx context.Context) ([]BabelRoute, error) {
	text, err := r.answer(ctx, babeld, "show babel route")
	return babelRoutes(text), err
}

func babelRoutes(text string) []BabelRoute {
	out := []BabelRoute{}
	for line := range strings.Lines(text) {
		v, state := pairs("prefix " + line)
		prefix := v["prefix"]
		if !strings.Contains(prefix, "/") || v["metric"] == "" {
			continue
		}
		hop := v["nexthop"]
		if hop == v["neigh"] {
			hop = ""
		}
		out = append(out, BabelRoute{Prefix: prefix, Metric: number16(v["metric"]), Router: v["id"], Interface: v["via"], Neighbor: v["neigh"], NextHop: hop, State: state})
	}
	return out
}

// pairs reads a line of names and values by turns, with a word in parentheses at its end.
func pairs(line string) (values map[string]string, state string) {
	values = map[string]string{}
	words := strings.Fields(line)
	if n := len(words); n > 0 && strings.HasPrefix(words[n-1], "(") {
		state, words = strings.Trim(words[n-1], "()"), words[:n-1]
	}
	for i := 0; i+1 < len(words); i += 2 {
		values[words[i]] = words[i+1]
	}
	return values, state
}

func number16(word string) int {
	n, _ := strconv.ParseUint(word, 10, 16)
	return int(n)
}
