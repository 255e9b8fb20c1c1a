// SPDX-License-Identifier: Apache-2.0

package router

import (
	"cmp"
	"fmt"

	"minne/internal/daemon/show"
	"minne/internal/model/packet"
	"minne/internal/model/policy"
)

// ask evaluates a packet that comes in by one interface and leaves by another, "" for the router. nil
// when there is no firewall.
func (g *offloader) ask(in, out string, s packet.Summary) *show.Firewalled {
	g.mu.Lock()
	p := g.policy
	g.mu.Unlock()
	if p == nil {
		return nil
	}
	v := policy.Evaluate(g.filter.WithLive(p), policy.Packet{
		In: in, Out: out, Source: s.Source, Destination: s.Destination, Protocol: s.Protocol,
		SourcePort: s.SrcPort, DestPort: s.DstPort, ICMPType: s.ICMPType, HopLimit: s.TTL,
	}, policy.New)
	f := &show.Firewalled{From: zoneName(p, in), To: zoneName(p, out), Action: v.Action.String(), By: "the default", Log: v.Log, State: v.Pair == nil || !v.Pair.Stateless}
	switch {
	case v.Rule != nil && v.Rule.ID > len(p.Rules):
		f.By = "what the router's own services need"
	case v.Rule != nil:
		f.Rule, f.Limit = v.Rule.ID, v.Rule.Limit != nil
		f.By = fmt.Sprintf("rule %d (%s)", v.Rule.ID, cmp.Or(v.Rule.Name, v.Rule.Text))
	case v.Pair == nil:
		f.By = "an interface without a zone"
	}
	return f
}

// zoneName is the zone of an interface in an operator's words.
func zoneName(p *policy.Policy, iface string) string {
	if iface == "" {
		return policy.SelfName
	}
	if z, ok := p.ZoneOf(iface); ok {
		return p.Zones[z].Name
	}
	return "no zone"
}
