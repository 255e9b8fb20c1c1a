// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"

	"minne/internal/daemon/show"
)

// NAT is show nat: the rules that translate and the connections that are translated.
var NAT = View[Nothing, show.NATView]{
	Text: Text{Path: "nat", Short: "Show NAT rules and translated connections",
		Long: `Show the rules that translate addresses with what they have counted, then the connections
that are translated now: the addresses that others see with the hosts behind each, and
what is called with where it leads. The connections themselves: minne show flows.`},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (show.NATView, error) {
		o, err := d.firewallCounts(ctx)
		if err != nil {
			return show.NATView{}, err
		}
		d.zero.fromFirewall(&o)
		now, err := d.parts.flows.Translations(ctx)
		return show.NATView{On: o.On, Problem: o.Problem, Rules: o.NAT, Now: now}, err
	},
	Print: only[Nothing](show.NAT),
}
