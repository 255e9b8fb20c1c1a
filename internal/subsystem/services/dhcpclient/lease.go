// SPDX-License-Identifier: Apache-2.0

package dhcpclient

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"minne/internal/base/ipnet"
)

// Lease is what a DHCP server gave.
type Lease struct {
	Address netip.Prefix  `json:"address"`
	Routes  []Route       `json:"routes,omitempty"`
	DNS     []netip.Addr  `json:"dns,omitempty"`
	Domain  string        `json:"domain,omitempty"`
	Server  netip.Addr    `json:"server,omitzero"`
	Seconds uint32        `json:"seconds"` // from At on; MaxUint32 is for ever (RFC 2131 3.3)
	At      time.Duration `json:"at"`      // since boot, when it was last given

	Refused []string `json:"refused_routes,omitempty"` // routes that were told and are not used, each with why
}

// Route is a route that the server told; an invalid Gateway means the link itself.
type Route struct {
	Prefix  netip.Prefix `json:"prefix"`
	Gateway netip.Addr   `json:"gateway,omitzero"`
}

// String returns the route as it is said in a log.
func (r Route) String() string {
	if !r.Gateway.IsValid() {
		return r.Prefix.String()
	}
	return r.Prefix.String() + " via " + r.Gateway.String()
}

func (l *Lease) forever() bool { return l.Seconds == math.MaxUint32 }

// left is how long the lease holds at a time since boot.
func (l *Lease) left(now time.Duration) time.Duration {
	if l.forever() {
		return math.MaxInt64
	}
	return l.At + time.Duration(l.Seconds)*time.Second - now
}

// same says whether two leases make no difference but in time.
func (l *Lease) same(o *Lease) bool {
	if l == nil || o == nil {
		return l == o
	}
	return l.Address == o.Address && slices.Equal(l.Routes, o.Routes) && slices.Equal(l.DNS, o.DNS) && slices.Equal(l.Refused, o.Refused)
}

// parse takes what the script wrote. Servers are strangers: what is no address is left out, and without an address and
// a time there is no lease.
func parse(v map[string]string) (*Lease, error) {
	address, err := netip.ParseAddr(v["ip"])
	bits, err2 := strconv.Atoi(v["mask"])
	if err != nil || err2 != nil || !address.Is4() || bits < smallestMask || bits > 32 || !unicast(address) ||
		bits < 31 && (address == netip.PrefixFrom(address, bits).Masked().Addr() || address == ipnet.Last(netip.PrefixFrom(address, bits))) {
		return nil, fmt.Errorf("the DHCP server offered an unusable address: %q/%q", v["ip"], v["mask"])
	}
	l := &Lease{Address: netip.PrefixFrom(address, bits), Domain: v["domain"]}
	l.Server, _ = netip.ParseAddr(v["serverid"])
	seconds, err := strconv.ParseUint(v["lease"], 10, 32)
	if err != nil || seconds == 0 {
		return nil, fmt.Errorf("the DHCP server offered %s without a lease time: %q", address, v["lease"])
	}
	l.Seconds = uint32(seconds)
	at, err := strconv.ParseFloat(v["at"], 64)
	if err != nil {
		return nil, fmt.Errorf("the lease has no time: %q", v["at"])
	}
	l.At = time.Duration(at * float64(time.Second))
	for _, word := range strings.Fields(v["dns"]) {
		if a, err := netip.ParseAddr(word); err == nil && unicast(a) && a != address && !slices.Contains(l.DNS, a) {
			l.DNS = append(l.DNS, a)
		}
	}
	l.Routes, l.Refused = routes(v["staticroutes"], v["router"], address)
	return l, nil
}

// smallestMask is the least length of a prefix: no network is larger than a /8. Two routes to
// halves of the Internet are how a default route is taken from whoever has it.
const smallestMask = 8

// routes are the classless routes, which stand in the place of the router when there are any
// (RFC 3442), else a default route through the first router. What can't be a route is refused.
func routes(static, routers string, own netip.Addr) (list []Route, refused []string) {
	words := strings.Fields(static)
	for i := 0; i+1 < len(words); i += 2 {
		p, err := netip.ParsePrefix(words[i])
		gateway, err2 := netip.ParseAddr(words[i+1])
		refuse := func(why string) { refused = append(refused, fmt.Sprintf("%q via %q: %s", words[i], words[i+1], why)) }
		switch {
		case err != nil || err2 != nil || !p.Addr().Is4() || !gateway.Is4():
			refuse("expected an IPv4 prefix and an IPv4 address")
			continue
		case p.Bits() > 0 && p.Bits() < smallestMask:
			refuse(fmt.Sprintf("no network is that large; expected 0.0.0.0/0, or /%d to /32", smallestMask))
			continue
		case p.Bits() > 0 && !unicast(p.Addr()):
			refuse("no host of such a network can be routed to")
			continue
		case !gateway.IsUnspecified() && (!unicast(gateway) || gateway == own):
			refuse("the gateway is no address of a neighbour")
			continue
		}
		r := Route{Prefix: p.Masked(), Gateway: gateway}
		if gateway.IsUnspecified() {
			r.Gateway = netip.Addr{}
		}
		if !slices.ContainsFunc(list, func(o Route) bool { return o.Prefix == r.Prefix }) {
			list = append(list, r)
		}
	}
	if len(list) > 0 {
		return list, refused
	}
	for _, word := range strings.Fields(routers) {
		if a, err := netip.ParseAddr(word); err == nil && unicast(a) && a != own {
			return []Route{{Prefix: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Gateway: a}}, refused
		}
	}
	return nil, refused
}

// unicast says whether an address can be a host's on a network.
func unicast(a netip.Addr) bool {
	return a.Is4() && a.As4()[0] != 0 && !a.IsLoopback() && a.As4()[0] < 224 // 224/4 is multicast, 240/4 reserved, with the broadcast address
}
