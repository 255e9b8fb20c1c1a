// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"minne/internal/subsystem/routing"
)

// BGPSummary prints the sessions, a row for each family that a peer speaks.
func BGPSummary(w io.Writer, s routing.BGPSummary) error {
	fmt.Fprintf(w, "BGP router identifier %s, local AS number %d\n", s.RouterID, s.ASN)
	for _, family := range slices.Sorted(maps.Keys(s.Tables)) {
		fmt.Fprintf(w, "%s: %s destinations in the BGP table\n", family, count(s.Tables[family]))
	}
	fmt.Fprintln(w)
	t := table{head: []string{"Peer", "Neighbor", ">AS", "State", "Up/Down", "Family", ">PfxRcd", ">PfxSnt", ">MsgRcvd", ">MsgSent"}}
	for _, p := range s.Peers {
		up := "never"
		if p.UptimeMsec > 0 {
			up = since(time.Duration(p.UptimeMsec) * time.Millisecond)
		}
		peer := []string{orDash(p.Name), p.Address, fmt.Sprint(p.ASN), p.State, up}
		rest := []string{count(p.MsgReceived), count(p.MsgSent)}
		for _, family := range slices.Sorted(maps.Keys(p.Families)) {
			c := p.Families[family]
			t.row(slices.Concat(peer, []string{family, count(c.Received), count(c.Sent)}, rest)...)
			peer, rest = make([]string, len(peer)), make([]string, len(rest))
		}
		if len(p.Families) == 0 {
			t.row(slices.Concat(peer, []string{"-", "-", "-"}, rest)...)
		}
	}
	return t.write(w)
}

// RouteCandidates prints what the routing protocols offer for a prefix: the
// route in use is marked *, and > where it is installed in the kernel.
func RouteCandidates(w io.Writer, routes []routing.Route) error {
	for _, r := range routes {
		mark := " "
		if r.Selected {
			mark = "*"
		}
		if r.Installed {
			mark += ">"
		} else {
			mark += " "
		}
		var via []string
		for _, h := range r.NextHops {
			via = append(via, candidateHop(h))
		}
		if _, err := fmt.Fprintf(w, "%s %s [%d/%d] by %s, %s, %s\n", mark, r.Prefix, r.Distance, r.Metric, r.Protocol, strings.Join(via, ", "), r.Uptime); err != nil {
			return err
		}
	}
	return nil
}

func candidateHop(h routing.RouteNextHop) string {
	switch {
	case h.Blackhole:
		return "blackhole"
	case h.Address == "":
		return "directly connected, " + h.Interface
	case h.Interface == "":
		return "via " + h.Address
	}
	return "via " + h.Address + ", " + h.Interface
}
