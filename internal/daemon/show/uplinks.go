// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"minne/internal/subsystem/uplinks"
)

// UplinksView answers show uplinks.
type UplinksView struct {
	Uplinks []uplinks.Observed `json:"uplinks"`
}

// Uplinks prints the uplinks, and below them their checks.
func Uplinks(w io.Writer, v UplinksView) error {
	if len(v.Uplinks) == 0 {
		_, err := fmt.Fprintln(w, "no uplinks: the configuration has no section uplinks")
		return err
	}
	t := table{head: []string{"Uplink", ">Priority", "!State", "Since", ">IPv4 routes", ">IPv6 routes", "Gateways", "Use", "~Reason"}}
	checks := table{head: []string{"Uplink", "Check", "!State", ">Loss", ">Delay"}}
	for _, u := range v.Uplinks {
		routes := [2]string{"-", "-"}
		if u.Routes != nil {
			routes = [2]string{fmt.Sprint(u.Routes[0]), fmt.Sprint(u.Routes[1])}
		}
		use := "routes"
		switch {
		case u.Passed:
			use = "passed over"
		case u.Backup:
			use = "routes, backup"
		}
		ago := "-"
		if !u.Since.IsZero() {
			ago = since(time.Since(u.Since))
		}
		t.row(u.Name, fmt.Sprint(u.Priority), u.State, ago, routes[0], routes[1], orDash(joined(u.Gateways)), use, orDash(u.Reason))
		for _, peer := range slices.Sorted(maps.Keys(u.BFD)) {
			checks.row(u.Name, "BFD "+peer, map[bool]string{true: "up", false: "down"}[u.BFD[peer]], "-", "-")
		}
		for _, p := range u.Targets {
			state := "down"
			if p.Answers {
				state = "up"
			}
			delay := "-"
			if p.Delay > 0 {
				delay = fmt.Sprintf("%.1f ms", p.Delay.Seconds()*1000)
			}
			checks.row(u.Name, "ping "+p.Address.String(), state, fmt.Sprintf("%d %%", p.Loss), delay)
		}
	}
	if err := t.write(w); err != nil || len(checks.rows) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return checks.write(w)
}

// PolicyRoutingView answers show policy-routing.
type PolicyRoutingView struct {
	Rules []uplinks.ObservedRule `json:"rules"`
}

// PolicyRouting prints the rules of policy routing in their order.
func PolicyRouting(w io.Writer, v PolicyRoutingView) error {
	if len(v.Rules) == 0 {
		_, err := fmt.Fprintln(w, "no policy routing: the configuration has no section routing.policy")
		return err
	}
	t := table{head: []string{">Rule", "~Selects", "Uplink", "!State", ">IPv4", ">IPv6", "~Reason"}}
	for _, r := range v.Rules {
		t.row(fmt.Sprint(r.Number), r.Selects, r.Uplink, r.State, fmt.Sprint(r.Kernel[0]), fmt.Sprint(r.Kernel[1]), orDash(r.Reason))
	}
	return t.write(w)
}

func joined[T fmt.Stringer](list []T) string {
	var words []string
	for _, v := range list {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}
