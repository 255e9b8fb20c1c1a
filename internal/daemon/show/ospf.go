// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"

	"minne/internal/subsystem/routing"
)

// OSPFView answers show ospf neighbor and show ospf6 neighbor.
type OSPFView struct {
	Neighbors []routing.OSPFNeighbor `json:"neighbors"`
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

// versions prints a part for each OSPF version that has something to print, under a heading when there are both.
func versions[T any](w io.Writer, all []T, version func(T) int, print func([]T) error) error {
	parts := [][]T{
		slices.DeleteFunc(slices.Clone(all), func(one T) bool { return version(one) != 2 }),
		slices.DeleteFunc(slices.Clone(all), func(one T) bool { return version(one) != 3 }),
	}
	both := len(parts[0]) > 0 && len(parts[1]) > 0
	for i, part := range parts {
		if len(part) == 0 && (i > 0 || len(all) > 0) {
			continue
		}
		if both {
			if i > 0 {
				fmt.Fprintln(w)
			}
			fmt.Fprintf(w, "OSPFv%d\n", i+2)
		}
		if err := print(part); err != nil {
			return err
		}
	}
	return nil
}

// OSPFNeighbors prints the neighbours, each version apart.
func OSPFNeighbors(w io.Writer, v OSPFView) error {
	return versions(w, v.Neighbors, func(n routing.OSPFNeighbor) int { return n.Version }, func(part []routing.OSPFNeighbor) error {
		t := table{head: []string{"Neighbor ID", ">Pri", "!State", "Role", "Address", "Interface"}}
		for _, n := range part {
			t.row(n.RouterID, fmt.Sprint(n.Priority), n.State, orDash(n.Role), orDash(n.Address), n.Interface)
		}
		return t.write(w)
	})
}

// OSPFInterfaces prints where OSPF runs, each version apart.
func OSPFInterfaces(w io.Writer, v OSPFInterfacesView) error {
	return versions(w, v.Interfaces, func(i routing.OSPFInterface) int { return i.Version }, func(part []routing.OSPFInterface) error {
		t := table{head: []string{"Interface", "Area", "Network", "State", ">Cost", ">Hello", ">Dead", ">Nbrs", "Address"}}
		for _, i := range part {
			hello := fmt.Sprintf("%g s", float64(i.HelloMsec)/1000)
			if i.Passive {
				hello = "passive"
			}
			t.row(i.Name, i.Area, i.Network, i.State, fmt.Sprint(i.Cost), hello, fmt.Sprintf("%d s", i.DeadSec),
				fmt.Sprintf("%d/%d", i.Adjacent, i.Neighbors), orDash(i.Address))
		}
		return t.write(w)
	})
}

// OSPFDatabase prints the link-state database, each version apart.
func OSPFDatabase(w io.Writer, v OSPFDatabaseView) error {
	err := versions(w, v.Entries, func(l routing.OSPFLSA) int { return l.Version }, func(part []routing.OSPFLSA) error {
		t := table{head: []string{"Scope", "Type", "Link ID", "ADV Router", ">Age", "Seq#", "Content"}}
		for _, l := range part {
			t.row(l.Scope, l.Type, l.ID, l.Router, fmt.Sprint(l.AgeSec), l.Sequence, orDash(l.Content))
		}
		return t.write(w)
	})
	if err == nil {
		err = more(w, v.Total-len(v.Entries), "--limit 0 for all")
	}
	return err
}

// more says that a limit has left something out.
func more(w io.Writer, n int, how string) error {
	if n <= 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "… and %s more: %s\n", count(n), how)
	return err
}
