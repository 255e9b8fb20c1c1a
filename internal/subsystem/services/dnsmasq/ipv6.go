// SPDX-License-Identifier: Apache-2.0

package dnsmasq

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"minne/internal/model/config"
)

func (w *text) advertisements() {
	all := w.cfg.Services.RouterAdvertisements
	if len(all) == 0 {
		return
	}
	w.line("enable-ra")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		if !r.DefaultRouter.On() {
			w.line("ra-param=%s,0,0", name) // sent at dnsmasq's own interval, for no time at all
		}
		w.networks(name, r)
		if d := w.cfg.Services.DHCPv6[name]; d != nil {
			w.serverV6(name, d)
		} else {
			w.serversV6(name, nil)
		}
	}
}

// networks are the networks of an interface that hosts are told.
func (w *text) networks(name string, r *config.RouterAdvertisement) {
	for _, p := range r.Prefixes {
		w.fact("router advertisements on %s: %s", name, p)
	}
	d := w.cfg.Interfaces[name].Delegated
	if d != nil {
		w.fact("router advertisements on %s: network %d of the prefix of %s", name, d.Subnet, d.From)
	}
	if d != nil || w.allAdvertised(name, r) {
		// dnsmasq follows the addresses, and takes the use of a prefix that is gone away from the hosts at once (RFC 9096).
		w.network(name, netip.IPv6Unspecified(), ",constructor:"+name, r)
		return
	}
	for _, p := range r.Prefixes {
		w.network(name, p.Addr(), "", r)
	}
}

// allAdvertised says whether hosts are told all IPv6 networks of an interface. Of networks by name dnsmasq forgets to tell
// by itself after their interface was gone for a while: it only answers hosts that ask.
func (w *text) allAdvertised(name string, r *config.RouterAdvertisement) bool {
	return !slices.ContainsFunc(w.cfg.Interfaces[name].Addresses, func(a config.Address) bool {
		return a.Addr().Is6() && !slices.ContainsFunc(r.Prefixes, func(p config.Prefix) bool { return p.Prefix == a.Masked() })
	})
}

// tagV6 marks what belongs to an interface's IPv6.
func tagV6(name string) string { return "ra-" + name }

// network is a /64 that is announced, and what its hosts may ask by DHCPv6; an unspecified one with follow is that of the
// interface's addresses.
func (w *text) network(name string, network netip.Addr, follow string, r *config.RouterAdvertisement) {
	d, mode, addresses := w.cfg.Services.DHCPv6[name], "ra-only,", network.String()
	switch {
	case d == nil:
	case !d.Pool.First.IsValid():
		mode = "ra-stateless,"
	default:
		addresses = within(network, d.Pool.First).String() + "," + within(network, d.Pool.Last).String()
		if mode = "slaac,"; !d.SLAAC.On() {
			mode = ""
		}
	}
	w.line("dhcp-range=set:%s,%s%s,%s64,%d", tagV6(name), addresses, follow, mode, r.Lifetime.Seconds())
}

// within is the address of a network that has the last 64 bits of another one.
func within(network, last netip.Addr) netip.Addr {
	b, l := network.As16(), last.As16()
	copy(b[8:], l[8:])
	return netip.AddrFrom16(b)
}

// serverV6 is the options and the static leases of an interface.
func (w *text) serverV6(name string, d *config.DHCPv6Server) {
	w.serversV6(name, d.DNS)
	if len(d.Search) > 0 {
		w.line("dhcp-option=tag:%s,option6:domain-search,%s", tagV6(name), strings.Join(d.Search, ","))
	}
	if api := w.cfg.PortalAPI(name); api != "" { // RFC 8910, section 2.2
		w.line("dhcp-option=tag:%s,option6:103,%s", tagV6(name), api)
	}
	for _, host := range slices.Sorted(maps.Keys(d.Static)) {
		s := d.Static[host]
		who := "id:" + s.DUID
		if s.DUID == "" {
			who = s.MAC.String()
		}
		w.line("dhcp-host=%s,[%s],%s", who, s.Address, host)
	}
	if d.Pool.First.IsValid() {
		w.fact("DHCPv6 on %s: %s", name, d.Pool)
	} else {
		w.fact("DHCPv6 on %s: DNS servers", name)
	}
}

// serversV6 tells hosts DNS servers, in router advertisements as well. Those that serve DNS there tell themselves.
func (w *text) serversV6(name string, list []netip.Addr) {
	dns := w.cfg.Services.DNS
	if len(list) == 0 {
		if dns == nil || slices.Contains(dns.Interfaces, name) {
			return
		}
		for _, a := range dns.Upstream {
			if a.Is6() && !a.IsLoopback() {
				list = append(list, a)
			}
		}
	}
	option := "dhcp-option=tag:" + tagV6(name) + ",option6:dns-server"
	for _, a := range list {
		option += ",[" + a.String() + "]"
	}
	w.line("%s", option) // without any: dnsmasq would tell itself, who does not answer there
}
