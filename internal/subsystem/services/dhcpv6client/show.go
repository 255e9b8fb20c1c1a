// SPDX-License-Identifier: Apache-2.0

package dhcpv6client

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"minne/internal/subsystem/services/service"
)

// Observed is the prefixes of a router.
type Observed struct {
	Prefixes []Prefix `json:"prefixes"`
}

// Prefix is one that a provider delegates.
type Prefix struct {
	Interface string       `json:"interface"` // towards the provider
	Prefix    netip.Prefix `json:"prefix"`
	Used      bool         `json:"used"`      // inside interfaces have networks of it
	Preferred string       `json:"preferred"` // time left for new connections: "0s" for a prefix that the provider takes away
	Valid     string       `json:"valid"`     // time left
	Networks  []Network    `json:"networks"`
}

// Network is a part of a prefix on an inside interface.
type Network struct {
	Interface string       `json:"interface"`
	Address   netip.Prefix `json:"address"` // the router's
}

// Observe says which prefixes there are.
func (c *Client) Observe(context.Context) (o Observed, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.Prefixes = []Prefix{}
	now := c.clock()
	for _, name := range slices.Sorted(maps.Keys(c.desired.Interfaces)) {
		h := c.heard[name]
		g := c.given[name]
		for _, p := range h.prefixes {
			if p.end <= now {
				continue
			}
			one := Prefix{Interface: name, Prefix: p.prefix, Preferred: left(p.preferred, now), Valid: left(p.end, now), Networks: []Network{}}
			if one.Used = g != nil && g.Prefix == p.prefix; one.Used {
				for _, i := range c.desired.Interfaces[name] {
					for _, a := range g.Addresses[i.Name] {
						one.Networks = append(one.Networks, Network{i.Name, a})
					}
				}
			}
			o.Prefixes = append(o.Prefixes, one)
		}
	}
	return o, nil
}

func left(end, now time.Duration) string {
	if end == forever {
		return "forever"
	}
	return max(end-now, 0).Round(time.Second).String()
}

func table(o Observed) service.Table {
	t := service.Table{Head: []string{"INTERFACE", "PREFIX", "!STATE", ">PREFERRED", ">VALID", "~NETWORKS"}, Empty: "No provider delegates a prefix."}
	for _, p := range o.Prefixes {
		state := "used"
		if !p.Used {
			state = "not used"
		}
		var networks []string
		for _, n := range p.Networks {
			networks = append(networks, n.Interface+" "+n.Address.String())
		}
		t.Rows = append(t.Rows, []string{p.Interface, p.Prefix.String(), state, p.Preferred, p.Valid, strings.Join(networks, ", ")})
	}
	return t
}
