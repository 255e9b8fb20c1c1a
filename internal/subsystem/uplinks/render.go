// SPDX-License-Identifier: Apache-2.0

package uplinks

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"minne/internal/model/config"
)

// Desired is what the configuration says of uplinks.
type Desired struct {
	Lines  []Line       // the preferred ones first
	BFD    bool         // a peer on one of them has BFD
	Policy []PolicyRule // in their order
}

// Line is one uplink.
type Line struct {
	Name     string
	Priority int
	Gateways []netip.Addr // that the configuration knows, the better ones first
	Peers    []netip.Addr // BGP peers on it
	BFD      []netip.Addr // those of them with BFD
	Routed   bool         // packets need no gateway
	Health   *Health
}

// Health is how a line is checked.
type Health struct {
	Ping          []netip.Addr
	Interval      time.Duration
	Fail, Recover int
	Loss          int           // percent; 0 for any
	Delay         time.Duration // 0 for any
}

// Render makes the Desired of a checked configuration.
func Render(cfg *config.Config) (d Desired) {
	for name, u := range cfg.Uplinks {
		l := Line{Name: name, Priority: u.Priority, Gateways: cfg.UplinkGateways(name), Routed: !cfg.UplinkNeedsGateway(name)}
		for _, p := range cfg.UplinkPeers(name) {
			l.Peers = append(l.Peers, p.Address)
			if p.BFD.On() {
				l.BFD, d.BFD = append(l.BFD, p.Address), true
			}
		}
		if h := u.Health; h != nil {
			l.Health = &Health{h.Ping, h.Interval.Std(), h.Fail, h.Recover, h.Loss, h.Delay.Std()}
		}
		d.Lines = append(d.Lines, l)
	}
	d.Policy = renderPolicy(cfg)
	slices.SortFunc(d.Lines, func(a, b Line) int { return cmp.Or(a.Priority-b.Priority, cmp.Compare(a.Name, b.Name)) })
	return d
}
