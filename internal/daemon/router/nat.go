// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"net/url"

	"minne/internal/subsystem/firewall"
	"minne/internal/subsystem/flows"
)

// NATView answers show nat.
type NATView struct {
	On      bool                    `json:"on"` // there is a policy
	Problem string                  `json:"problem,omitempty"`
	Rules   []firewall.ObservedRule `json:"rules"` // counts are of connections that began
	Now     flows.Translations      `json:"now"`
}

// viewNAT answers with the rules that translate and the connections that are translated.
func viewNAT(ctx context.Context, d *Daemon, _ url.Values) (any, error) {
	o, err := d.firewallCounts(ctx)
	if err != nil {
		return nil, err
	}
	d.zero.fromFirewall(&o)
	now, err := d.parts.flows.Translations(ctx)
	return NATView{On: o.On, Problem: o.Problem, Rules: o.NAT, Now: now}, err
}
