// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"minne/internal/subsystem/firewall"
)

// SetView answers set list.
type SetView struct {
	Elements []firewall.SetElement `json:"elements"`
}

// Firewall prints the rules in the order in which packets meet them, zone pair
// by zone pair, with what each has counted. Services of the router that counted
// nothing are left out unless all is asked for.
func Firewall(w io.Writer, o firewall.Observed, all bool) error {
	switch {
	case !o.On:
		_, err := fmt.Fprintln(w, "Firewall: off, everything that is routed passes (no interface has a zone)")
		return err
	case o.Problem != "":
		fmt.Fprintln(w, "Firewall: "+o.Problem)
	default:
		fmt.Fprintf(w, "Firewall: on, %s packets dropped by default\n", count(int(o.Default.Packets)))
	}
	zones := table{head: []string{"Zone", "~Interfaces"}}
	for _, z := range o.Zones {
		zones.row(z.Name, strings.Join(z.Interfaces, " "))
	}
	rules := map[int]firewall.ObservedRule{}
	for _, r := range o.Rules {
		rules[r.ID] = r
	}
	fmt.Fprintln(w)
	if err := zones.write(w); err != nil {
		return err
	}
	for _, p := range o.Pairs {
		state := ""
		if p.Stateless {
			state = ", stateless"
		}
		fmt.Fprintf(w, "\n%s to %s%s\n", p.From, p.To, state)
		t := table{head: []string{">No.", ">Packets", ">Bytes", "~Rule"}}
		for _, id := range p.Rules {
			ruleRow(&t, rules[id])
		}
		t.row("", count(int(p.Unmatched.Packets)), bytes(p.Unmatched.Bytes), "else "+p.Default)
		if err := t.write(w); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		title string
		rows  []firewall.ObservedRule
	}{{"Services of the router", services(o.Rules, all)}, {"Translations (new connections)", o.NAT}, {"Dropped beyond limits", o.Limits}} {
		if len(part.rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", part.title)
		t := table{head: []string{">No.", ">Packets", ">Bytes", "~Rule"}}
		for _, r := range part.rows {
			ruleRow(&t, r)
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	if len(o.Sets) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	sets := table{head: []string{"Set", "Holds", ">Configured", ">Live"}}
	for _, s := range o.Sets {
		sets.row("@"+s.Name, s.Holds, count(s.Configured), count(s.Live))
	}
	return sets.write(w)
}

func ruleRow(t *table, r firewall.ObservedRule) {
	t.row(strconv.Itoa(r.ID), count(int(r.Packets)), bytes(r.Bytes), r.Text)
}

// services are the rules that the router's own services bring.
func services(list []firewall.ObservedRule, all bool) (found []firewall.ObservedRule) {
	for _, r := range list {
		if r.Policy == "services" && (all || r.Packets > 0) {
			found = append(found, r)
		}
	}
	return found
}

// SetElements prints the elements of a set.
func SetElements(w io.Writer, v SetView, now time.Time) error {
	t := table{head: []string{"Element", "From", "Left"}}
	for _, e := range v.Elements {
		from, left := "configuration", ""
		if e.Live {
			from = "minne set"
		}
		if e.Expires != nil {
			left = e.Expires.Sub(now).Round(time.Second).String()
		}
		t.row(e.Element, from, left)
	}
	return t.write(w)
}
