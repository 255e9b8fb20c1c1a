// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"

	"minne/internal/subsystem/routing"
)

// BabelView answers show babel neighbor.
type BabelView struct {
	Neighbors []routing.BabelNeighbor `json:"neighbors"`
}

// BabelRoutesView answers show babel route.
type BabelRoutesView struct {
	Routes []routing.BabelRoute `json:"routes"`
}

// BabelNeighbors prints the neighbours.
func BabelNeighbors(w io.Writer, v BabelView) error {
	t := table{head: []string{"Neighbor", "Interface", ">Reach", ">Receive cost", ">Send cost"}}
	for _, n := range v.Neighbors {
		t.row(n.Address, n.Interface, n.Reach, babelCost(n.RxCost), babelCost(n.TxCost))
	}
	return t.write(w)
}

// BabelRoutes prints the routes.
func BabelRoutes(w io.Writer, v BabelRoutesView) error {
	t := table{head: []string{"Prefix", ">Metric", "!State", "Next hop", "Interface", "Neighbor", "Router"}}
	for _, r := range v.Routes {
		t.row(r.Prefix, babelCost(r.Metric), orDash(r.State), orDash(r.NextHop), orDash(r.Interface), orDash(r.Neighbor), orDash(r.Router))
	}
	return t.write(w)
}

// babelCost writes a cost or metric; 65535 is infinite (RFC 8966 section 3.5.2).
func babelCost(n int) string {
	if n == 65535 {
		return "unreachable"
	}
	return fmt.Sprint(n)
}
