// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// DHCPv6Server answers the hosts of one interface that ask by DHCPv6.
type DHCPv6Server struct {
	Pool   AddressRange              `yaml:"pool" json:"pool,omitzero" doc:"First and last address of the pool, without the network: the last 64 bits, which hosts get in each prefix that router-advertisements announces on the interface. A lease lasts as long as the lifetime there. Absent: hosts get no addresses by DHCPv6, only DNS servers (stateless DHCPv6)." example:"::1000-::1fff"`
	SLAAC  *OnOff                    `yaml:"slaac" json:"slaac,omitempty" doc:"Hosts form addresses of their own as well (SLAAC). Off: only addresses of the pool; phones with Android then have no IPv6." default:"on" enum:"on,off"`
	DNS    []netip.Addr              `yaml:"dns" json:"dns,omitempty" doc:"DNS servers option, in router advertisements as well. Absent: this router if it serves DNS on the interface, else services.dns.upstream." ordered:"true" example:"2001:db8::53"`
	Search []string                  `yaml:"search" json:"search,omitempty" doc:"DNS search list option (RFC 3646), in router advertisements as well." example:"corp.example" ordered:"true"`
	Static map[string]*StaticLeaseV6 `yaml:"static" json:"static,omitempty" doc:"Static leases (reservations) by host name. They need a pool."`
}

// StaticLeaseV6 ties the last 64 bits of IPv6 addresses to a host.
type StaticLeaseV6 struct {
	MAC     MAC        `yaml:"mac" json:"mac,omitzero" doc:"The host's MAC address. Either this or duid."`
	DUID    string     `yaml:"duid" json:"duid,omitempty" doc:"The host's DHCP unique identifier (RFC 8415, section 11), bytes in hexadecimal. Either this or mac." example:"00:03:00:01:52:54:00:12:34:56"`
	Address netip.Addr `yaml:"address" json:"address" doc:"The last 64 bits of the host's address." required:"true" example:"::20"`
}

// inNetwork says whether an address is the last 64 bits of a host's address.
func inNetwork(a netip.Addr) bool {
	b := a.As16()
	return a.Is6() && !a.Is4In6() && a.Zone() == "" && [8]byte(b[:8]) == [8]byte{} && !a.IsUnspecified()
}

const suffixForm = "the last 64 bits of an address, as ::1000"

func (d *DHCPv6Server) check(c *checker, path string) {
	name := path[strings.LastIndex(path, ".")+1:]
	if c.cfg.Interfaces[name] == nil || !c.serves(path, name, "DHCPv6 server") {
		return
	}
	if c.cfg.Services.RouterAdvertisements[name] == nil {
		c.refuse(path, fmt.Sprintf("hosts of %s ask by DHCPv6 only when router advertisements tell them to", name), fmt.Sprintf("%[1]s under services.router-advertisements as well", name), "")
		return
	}
	own := map[netip.Addr]bool{}
	for _, a := range c.cfg.Interfaces[name].Addresses {
		if a.Addr().Is6() {
			own[suffixOf(a.Addr())] = true
		}
	}
	if c.cfg.Interfaces[name].Delegated != nil {
		own[netip.IPv6Unspecified().Next()] = true
	}
	pooled := d.Pool.First.IsValid()
	if pooled {
		switch {
		case !inNetwork(d.Pool.First) || !inNetwork(d.Pool.Last):
			c.refuse(path+".pool", fmt.Sprintf("%s is not a range of the last 64 bits of addresses", d.Pool), "a range without the network, as ::1000-::1fff", "")
		default:
			for _, a := range slices.SortedFunc(maps.Keys(own), netip.Addr.Compare) {
				if d.Pool.Contains(a) {
					c.refuse(path+".pool", fmt.Sprintf("the pool contains the router's own address %s", a), "a range without it", "")
				}
			}
		}
	} else if c.cfg.Chosen(path+".slaac") && !d.SLAAC.On() {
		c.refuse(path+".slaac", "without a pool and without SLAAC hosts have no addresses", "a pool, or slaac: on", "")
	}
	for i, a := range d.DNS {
		if !a.Is6() || a.Is4In6() {
			c.refuse(indexPath(path+".dns", i), "DHCPv6 can announce IPv6 addresses only", "an IPv6 address", "")
		}
	}
	c.searchList(path+".search", d.Search)
	addresses := map[netip.Addr]string{}
	for _, host := range sortedKeys(d.Static) {
		at := joinPath(path+".static", host)
		c.hostLabel(at, host)
		s := d.Static[host]
		if s == nil {
			continue
		}
		switch {
		case !pooled:
			c.refuse(at, "a static lease without a pool", "pool: FIRST-LAST under "+path, "")
		case (s.MAC == MAC{}) == (s.DUID == ""):
			c.refuse(at, "a static lease names its host by mac or duid", "one of the two", "")
		}
		if s.DUID != "" && !duid(s.DUID) {
			c.refuse(at+".duid", fmt.Sprintf("%q is not a DUID", abridge(s.DUID)), "3 to 130 bytes in hexadecimal, as 00:03:00:01:52:54:00:12:34:56", "")
		}
		if !s.Address.IsValid() {
			continue
		}
		switch {
		case !inNetwork(s.Address):
			c.refuse(at+".address", fmt.Sprintf("%s is not the last 64 bits of an address", s.Address), suffixForm, "")
		case own[s.Address]:
			c.refuse(at+".address", fmt.Sprintf("%s is the router's own address", s.Address), "another address", "")
		case addresses[s.Address] != "":
			c.refuse(at+".address", fmt.Sprintf("%s has this address already", addresses[s.Address]), "each address once", "")
		}
		addresses[s.Address] = host
	}
}

// suffixOf is the last 64 bits of an address.
func suffixOf(a netip.Addr) netip.Addr {
	b := a.As16()
	clear(b[:8])
	return netip.AddrFrom16(b)
}

// duid says whether a text is a DUID: a type of two bytes and at most 128 more (RFC 8415, section 11.1).
func duid(text string) bool {
	words := strings.Split(text, ":")
	for _, w := range words {
		if b, err := hex.DecodeString(w); err != nil || len(b) != 1 {
			return false
		}
	}
	return len(words) >= 3 && len(words) <= 130
}
