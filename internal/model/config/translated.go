// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
)

// Outside addresses of translations are nobody's: no interface has them. Where
// they lie in a network that the router is on, its neighbours there ask who has
// them (ARP, neighbour discovery), and the router has to answer. Elsewhere they
// are routed to the router, and what nobody uses must not be sent back and forth
// between it and its neighbour.

// MostAnswered is how many addresses of one translation the router answers for on
// a network it is on.
const MostAnswered = 256

// Translated is a network outside whose addresses a translation gives to hosts.
type Translated struct {
	Path       string // of the network in the file
	Outside    netip.Prefix
	OneToOne   bool
	On         string // the interface whose network it lies in; "" when it is routed to the router
	TooMany    bool   // more than MostAnswered, or the whole network of the interface: not answered for
	Own        string // the interface that has an address in it; "" for none
	OwnAddress netip.Addr
}

// Translations returns the outside networks of pools and of one-to-one translations, for each
// interface that they lie beside.
func Translations(cfg *Config) (list []Translated) {
	for i, n := range cfg.NAT {
		path := fmt.Sprintf("nat[%d]", i)
		for k, p := range n.Pool {
			list = append(list, cfg.translated(n, Translated{Path: fmt.Sprintf("%s.pool[%d]", path, k), Outside: p.Prefix})...)
		}
		if n.OneToOne != nil {
			list = append(list, cfg.translated(n, Translated{Path: path + ".one-to-one.outside", Outside: n.OneToOne.Outside.Prefix, OneToOne: true})...)
		}
	}
	return list
}

// translated is one network, once for each interface that it lies beside, or once
// when there is none.
func (cfg *Config) translated(n NAT, t Translated) (list []Translated) {
	for _, name := range sortedKeys(cfg.Interfaces) {
		i := cfg.Interfaces[name]
		if i.Zone == "" {
			continue
		}
		for _, a := range i.Addresses {
			if t.Outside.Contains(a.Addr()) {
				t.Own, t.OwnAddress = name, a.Addr()
			}
		}
		if !slices.Contains(n.To, i.Zone) && !slices.Contains(n.To, "any") {
			continue
		}
		for _, a := range i.Addresses {
			if net := a.Masked(); net.Bits() < a.Addr().BitLen() && net.Overlaps(t.Outside) {
				t := t
				t.On, t.TooMany = name, t.Outside.Bits() <= net.Bits() || t.Outside.Addr().BitLen()-t.Outside.Bits() > 8
				list = append(list, t)
				break
			}
		}
	}
	if len(list) == 0 {
		return []Translated{t}
	}
	return list
}
