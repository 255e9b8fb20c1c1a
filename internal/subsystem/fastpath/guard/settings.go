// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"

	"minne/internal/model/config"
)

// Settings is what the guard should do.
type Settings struct {
	On      bool            `json:"on"`
	Budgets [Classes]Budget `json:"budgets"`
	Ports   int             `json:"ports"`           // interfaces that share them
	Peers   []Peer          `json:"peers,omitempty"` // in the order of their addresses
}

// Peer is a station that the configuration names.
type Peer struct {
	Address   netip.Addr `json:"address"`             // without zone
	Interface string     `json:"interface,omitempty"` // of a link-local address
	BGP       bool       `json:"bgp,omitempty"`       // else a next hop
}

// Render is what a configuration asks of the guard, on a machine with so many CPUs.
func Render(cfg *config.Config, cpus int) Settings {
	g := &cfg.FastPath.Guard
	s := Settings{On: g.Mode.On(), Ports: max(1, len(cfg.Interfaces)), Peers: peers(cfg)}
	for c := range classes {
		s.Budgets[c] = classes[c].asked(g, classes[c].ordinary(cfg, max(1, cpus)))
	}
	return s
}

// tunnelled is the budget of a class by which packets of configured tunnels come, for each processor: a tunnel may be
// most of a router's traffic, and the kernel opens it on the processor that it comes in by.
var tunnelled = Budget{40_000, 30_000}

// ordinary is a class's budget where the configuration does not say otherwise.
func (c *class) ordinary(cfg *config.Config, cpus int) Budget {
	b := c.budget
	if c.perCPU {
		b.PerSecond *= cpus
	}
	if c.relayed && len(cfg.Services.DHCPRelay) > 0 {
		b.PerSource = b.PerSecond
	}
	for _, i := range cfg.Interfaces {
		if c.tunnels != nil && c.tunnels(i) {
			return Budget{tunnelled.PerSecond * cpus, tunnelled.PerSource * cpus}
		}
	}
	return b
}

// asked is a class's budget: what the configuration says, else the ordinary one.
func (c *class) asked(g *config.Guard, b Budget) Budget {
	if c.limit == nil {
		return b
	}
	l := c.limit(g)
	if l == nil {
		return b
	}
	if l.PerSecond != nil {
		b.PerSecond = *l.PerSecond
	}
	if l.PerSource != nil {
		b.PerSource = *l.PerSource
	}
	return b
}

// peers are the stations of the configuration whose word the router needs: BGP peers and next hops.
func peers(cfg *config.Config) []Peer {
	named := map[Peer]bool{} // the key without BGP; whether it is a BGP peer
	add := func(a netip.Addr, link string, bgp bool) {
		if a = a.Unmap(); !a.IsValid() {
			return
		}
		if link == "" {
			link = a.Zone()
		}
		if !a.IsLinkLocalUnicast() || a.Is4() {
			link = ""
		}
		key := Peer{Address: a.WithZone(""), Interface: link}
		named[key] = named[key] || bgp
	}
	for _, r := range cfg.Routing.Static {
		for _, via := range r.Via {
			add(via.Address, via.Interface, false)
		}
	}
	for _, protocols := range cfg.Protocols() {
		if protocols.BGP == nil {
			continue
		}
		for _, p := range protocols.BGP.Peers {
			if p != nil && !p.Disabled {
				add(p.Address, p.Interface, true)
			}
		}
	}
	all := slices.Collect(maps.Keys(named))
	for i := range all {
		all[i].BGP = named[all[i]]
	}
	slices.SortFunc(all, func(a, b Peer) int {
		if n := a.Address.Compare(b.Address); n != 0 {
			return n
		}
		return compare(a.Interface, b.Interface)
	})
	return all
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Flags of a peer (enum guard_peer_flags).
const (
	peerBGP     = 1
	peerGateway = 2
)

// Key is the peer's key in the map guard_peers (struct guard_peer); ifindex is that of its interface, 0
// for an address that is not link-local.
func (p Peer) Key(ifindex int) [20]byte {
	var key [20]byte
	a := p.Address.As16()
	copy(key[:], a[:])
	binary.NativeEndian.PutUint32(key[16:], uint32(ifindex))
	return key
}

// Value is what stands there.
func (p Peer) Value() uint32 {
	if p.BGP {
		return peerBGP | peerGateway
	}
	return peerGateway
}
