// SPDX-License-Identifier: Apache-2.0

package dhcpv6client

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// heard is what a provider's routers and servers said. Providers are strangers: what is no address is left out.
type heard struct {
	routers   []router
	networks  []lasting // for addresses of our own making (SLAAC)
	addresses []lasting // of DHCPv6
	prefixes  []lasting // delegated
	servers   []server
}

type router struct {
	address netip.Addr
	end     time.Duration // since boot
}

// lasting is an address or a network and how long it may be used.
type lasting struct {
	prefix    netip.Prefix
	preferred time.Duration // since boot
	end       time.Duration
}

type server struct {
	address netip.Addr
	end     time.Duration
}

const forever = time.Duration(math.MaxInt64)

// at is when the script wrote, since boot.
func at(v map[string]string) time.Duration {
	seconds, err := strconv.ParseFloat(v["at"], 64)
	if err != nil {
		return 0 // long ago: nothing holds
	}
	return time.Duration(seconds * float64(time.Second))
}

// after is a lifetime in seconds behind a time; 2³²−1 is for ever (RFC 8415, section 7.7).
func after(from time.Duration, seconds string) time.Duration {
	n, err := strconv.ParseUint(seconds, 10, 32)
	switch {
	case err != nil:
		return 0
	case n == math.MaxUint32:
		return forever
	}
	return from + time.Duration(n)*time.Second
}

// most bounds how many of each kind are read of one message.
const most = 16

// advertised takes router advertisements in: nd1_ is the router that is preferred.
func (h *heard) advertised(v map[string]string) {
	written := at(v)
	for n := 1; n <= most; n++ {
		nd := fmt.Sprintf("nd%d_", n)
		from, err := netip.ParseAddr(v[nd+"from"])
		if err != nil || !from.Is6() || !from.IsLinkLocalUnicast() {
			continue
		}
		age := time.Duration(0)
		if now, err := strconv.ParseInt(v[nd+"now"], 10, 64); err == nil {
			if acquired, err := strconv.ParseInt(v[nd+"acquired"], 10, 64); err == nil && acquired < now {
				age = time.Duration(now-acquired) * time.Second
			}
		}
		since := written - age
		if end := after(since, v[nd+"lifetime"]); end > since {
			h.routers = append(h.routers, router{from.WithZone(""), end})
		}
		for k := 1; k <= most; k++ {
			info := fmt.Sprintf("%sprefix_information%d_", nd, k)
			p, ok := network(v[info+"prefix"], v[info+"length"])
			if ok && strings.Contains(v[info+"flags"], "A") {
				h.networks = append(h.networks, lasting{p, after(since, v[info+"pltime"]), after(since, v[info+"vltime"])})
			}
			rdnss := fmt.Sprintf("%srdnss%d_", nd, k)
			h.serve(v[rdnss+"servers"], after(since, v[rdnss+"lifetime"]))
		}
	}
}

// leased takes a lease of DHCPv6 in.
func (h *heard) leased(v map[string]string) {
	written, last := at(v), time.Duration(0)
	for k := 1; k <= most; k++ {
		name := fmt.Sprintf("new_dhcp6_ia_na1_ia_addr%d", k)
		if p, ok := network(v[name], "128"); ok {
			a := lasting{p, after(written, v[name+"_pltime"]), after(written, v[name+"_vltime"])}
			h.addresses, last = append(h.addresses, a), max(last, a.end)
		}
		name = fmt.Sprintf("new_dhcp6_ia_pd1_prefix%d", k)
		if p, ok := network(v[name], v[name+"_length"]); ok && p.Bits() >= shortest && p.Bits() <= 64 {
			d := lasting{p, after(written, v[name+"_pltime"]), after(written, v[name+"_vltime"])}
			h.prefixes, last = append(h.prefixes, d), max(last, d.end)
		}
	}
	if last == 0 {
		last = forever // only servers were asked for
	}
	h.serve(v["new_dhcp6_name_servers"], last)
}

// shortest is the largest network that a provider may delegate: none gives more to one line.
const shortest = 20

func (h *heard) serve(list string, end time.Duration) {
	for _, word := range strings.Fields(list) {
		a, err := netip.ParseAddr(word)
		if err == nil && a.Is6() && !a.Is4In6() && a.IsGlobalUnicast() && len(h.servers) < most {
			h.servers = append(h.servers, server{a, end})
		}
	}
}

// network reads a network of unicast addresses.
func network(address, length string) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(address)
	bits, err2 := strconv.Atoi(length)
	if err != nil || err2 != nil || !a.Is6() || a.Is4In6() || a.Zone() != "" || bits < 1 || bits > 128 || !a.IsGlobalUnicast() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, bits).Masked(), true
}

// dns are the servers that may be asked now, each once.
func (h *heard) dns(now time.Duration) (list []netip.Addr) {
	for _, s := range h.servers {
		if s.end > now && !slices.Contains(list, s.address) {
			list = append(list, s.address)
		}
	}
	return list
}

// delegated is the prefix to use: of several, the one that is preferred for longest. A provider that renumbers takes
// the preference from the former one (RFC 9096).
func (h *heard) delegated(now time.Duration) (best lasting, ok bool) {
	for _, p := range h.prefixes {
		if p.end > now && (!ok || p.preferred > best.preferred) {
			best, ok = p, true
		}
	}
	return best, ok
}

// ends are the times since boot at which something ends.
func (h *heard) ends() (list []time.Duration) {
	for _, r := range h.routers {
		list = append(list, r.end)
	}
	for _, s := range h.servers {
		list = append(list, s.end)
	}
	for _, all := range [][]lasting{h.networks, h.addresses, h.prefixes} {
		for _, l := range all {
			list = append(list, l.end, l.preferred)
		}
	}
	return slices.DeleteFunc(list, func(d time.Duration) bool { return d == forever })
}

// subnet is a /64 of a prefix by its number.
func subnet(p netip.Prefix, number int) (netip.Prefix, bool) {
	if p.Bits() > 64 || p.Bits() < 64 && number >= 1<<(64-p.Bits()) || p.Bits() == 64 && number > 0 {
		return netip.Prefix{}, false
	}
	b := p.Addr().As16()
	for i := 7; number > 0; i-- {
		b[i] |= byte(number)
		number >>= 8
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), 64), true
}

// join is the address in a network that has the interface identifier of another address: their last 64 bits.
func join(network netip.Prefix, with netip.Addr) netip.Addr {
	b, id := network.Addr().As16(), with.As16()
	copy(b[8:], id[8:])
	return netip.AddrFrom16(b)
}

// linkLocal is the link-local address of an interface.
func linkLocal(name string) (netip.Addr, bool) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return netip.Addr{}, false
	}
	list, err := link.Addrs()
	if err != nil {
		return netip.Addr{}, false
	}
	for _, one := range list {
		if p, err := netip.ParsePrefix(one.String()); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
			return p.Addr(), true
		}
	}
	return netip.Addr{}, false
}
