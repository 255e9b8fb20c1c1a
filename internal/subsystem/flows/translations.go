// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"minne/internal/subsystem/fastpath/flow"
)

// Translations are the connections whose addresses or ports are changed, as show nat has them.
type Translations struct {
	Connections int            `json:"connections"` // that the router has
	Source      int            `json:"source"`      // of them with another source for who answers
	Destination int            `json:"destination"` // with another destination for who opened them
	Outside     []OutsideUse   `json:"sources"`     // the most connections first
	Forwarded   []ForwardedUse `json:"destinations"`
}

// OutsideUse is what stands in the place of the sources of connections.
type OutsideUse struct {
	Address     netip.Addr `json:"address"`
	VRF         string     `json:"vrf,omitempty"` // that it is in; "" for the main table
	Connections int        `json:"connections"`
	Hosts       int        `json:"hosts"` // that share it
}

// ForwardedUse is what was called, and where that really leads.
type ForwardedUse struct {
	Protocol    string `json:"protocol"`
	Called      End    `json:"called"`
	Target      End    `json:"target"`
	VRF         string `json:"vrf,omitempty"` // that both are in
	Connections int    `json:"connections"`
}

// Translations counts the connections that are translated, by what others see.
func (t *Table) Translations(ctx context.Context) (Translations, error) {
	z, end, err := t.begin(ctx)
	if err != nil {
		return Translations{}, err
	}
	defer end()
	a := Translations{Outside: []OutsideUse{}, Forwarded: []ForwardedUse{}}
	type outside struct {
		connections int
		hosts       map[netip.Addr]bool
	}
	sources, targets := map[place]*outside{}, map[ForwardedUse]int{}
	_, err = t.each(ctx, flow.Filter{}, func(c *Connection) {
		a.Connections++
		source, destination := c.translations()
		if source != nil {
			a.Source++
			seen := place{c.table(), source.Address}
			one := sources[seen]
			if one == nil {
				one = &outside{hosts: map[netip.Addr]bool{}}
				sources[seen] = one
			}
			one.connections++
			one.hosts[c.Opener().Address] = true
		}
		if destination != nil {
			a.Destination++
			targets[ForwardedUse{Protocol: ProtocolName(c.Key[0].Protocol), Called: *destination, Target: c.Responder(), VRF: z.vrfName(c.table())}]++
		}
	})
	if err == nil {
		err = z.failed
	}
	if err != nil {
		return a, err
	}
	for seen, one := range sources {
		a.Outside = append(a.Outside, OutsideUse{seen.address, z.vrfName(seen.table), one.connections, len(one.hosts)})
	}
	for use, n := range targets {
		use.Connections = n
		a.Forwarded = append(a.Forwarded, use)
	}
	slices.SortFunc(a.Outside, func(x, y OutsideUse) int {
		return cmp.Or(cmp.Compare(y.Connections, x.Connections), x.Address.Compare(y.Address), cmp.Compare(x.VRF, y.VRF))
	})
	slices.SortFunc(a.Forwarded, func(x, y ForwardedUse) int {
		return cmp.Or(cmp.Compare(y.Connections, x.Connections), cmp.Compare(x.Called.String(), y.Called.String()), cmp.Compare(x.Target.String(), y.Target.String()),
			cmp.Compare(x.VRF, y.VRF))
	})
	a.Outside, a.Forwarded = a.Outside[:min(len(a.Outside), MaxTop)], a.Forwarded[:min(len(a.Forwarded), MaxTop)]
	return a, nil
}
