// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"minne/internal/subsystem/routing"
)

// BGPNeighborsView answers show bgp neighbors.
type BGPNeighborsView struct {
	Peers []routing.BGPNeighbor `json:"peers"`
}

// BGPNeighbors prints the sessions in detail, a paragraph each.
func BGPNeighbors(w io.Writer, v BGPNeighborsView) error {
	for i, p := range v.Peers {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s  %s, AS %d", orDash(p.Name), p.Address, p.ASN)
		if p.Text != "" {
			fmt.Fprintf(w, "  (%s)", p.Text)
		}
		fmt.Fprintln(w)
		t := table{head: []string{"", "~"}}
		state := p.State
		if p.UptimeMsec > 0 && p.State == "Established" {
			state += " for " + since(time.Duration(p.UptimeMsec)*time.Millisecond)
		}
		t.row("  State:", state)
		if p.Local != "" {
			t.row("  Own address:", p.Local)
		}
		if p.RouterID != "" && p.RouterID != "0.0.0.0" {
			t.row("  Router id:", p.RouterID)
		}
		if p.HoldMsec > 0 {
			t.row("  Hold time:", (time.Duration(p.HoldMsec) * time.Millisecond).String())
		}
		if p.BFD != "" {
			t.row("  BFD:", p.BFD)
		}
		if p.LastReset != "" {
			t.row("  Last reset:", p.LastReset)
		}
		for _, family := range slices.Sorted(maps.Keys(p.Families)) {
			c := p.Families[family]
			limit := ""
			if c.Limit > 0 {
				limit = fmt.Sprintf(" of at most %s", count(c.Limit))
			}
			t.row("  "+family+":", fmt.Sprintf("%s routes accepted%s, %s advertised", count(c.Received), limit, count(c.Sent)))
		}
		if err := t.rowsOnly(w); err != nil {
			return err
		}
	}
	return nil
}

// BGPRoutes prints the routes of one peer in one direction.
func BGPRoutes(w io.Writer, v routing.BGPRoutes) error {
	what := "accepted from"
	if v.Direction == routing.Advertised {
		what = "advertised to"
	}
	fmt.Fprintf(w, "%s routes %s %s (%s)\n", count(v.Total), what, orDash(v.Peer), v.Address)
	t := table{head: []string{" ", "Prefix", "Next hop", ">Pref", ">MED", "~AS path"}}
	for _, r := range v.Routes {
		t.row(bestMark(r.Best), r.Prefix, orDash(r.NextHop), preference(r), fmt.Sprint(r.MED), asPath(r))
	}
	if err := t.write(w); err != nil {
		return err
	}
	return more(w, v.Total-len(v.Routes), "--limit 0 for all, or minne show bgp PREFIX")
}

// BGPPaths prints all paths to a prefix, the best first.
func BGPPaths(w io.Writer, v routing.BGPPaths) error {
	if len(v.Paths) == 0 {
		_, err := fmt.Fprintln(w, "no path in BGP")
		return err
	}
	fmt.Fprintf(w, "%s, %s paths, > is the best\n", v.Prefix, count(len(v.Paths)))
	t := table{head: []string{" ", "Peer", "Next hop", ">Pref", ">MED", "Origin", "~AS path", "~Remarks"}}
	for _, p := range v.Paths {
		peer := cmp.Or(p.Peer, p.Address)
		if peer == "" {
			peer = "announced here"
		}
		var remarks string
		for _, s := range []struct {
			is   bool
			text string
		}{{p.Best && p.Why != "", "best by: " + p.Why}, {p.Multipath && !p.Best, "also used"}, {!p.Valid, "next hop can't be reached"},
			{p.Communities != "", "communities " + p.Communities}} {
			if s.is && remarks != "" {
				remarks += "; "
			}
			if s.is {
				remarks += s.text
			}
		}
		t.row(bestMark(p.Best), peer, orDash(p.NextHop), preference(p.BGPRoute), fmt.Sprint(p.MED), orDash(p.Origin), asPath(p.BGPRoute), orDash(remarks))
	}
	return t.write(w)
}

func bestMark(best bool) string {
	if best {
		return ">"
	}
	return " "
}

func preference(r routing.BGPRoute) string {
	if r.Preference == 0 {
		return "-"
	}
	return fmt.Sprint(r.Preference)
}

// asPath is the path, or a word for the empty one.
func asPath(r routing.BGPRoute) string {
	if r.Path == "" || r.Path == "Local" {
		return "own"
	}
	return r.Path
}
