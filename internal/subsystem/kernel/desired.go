// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// Desired is what the kernel shall be like: a plain value made from the configuration alone.
type Desired struct {
	Hostname      string              // "" leaves the host's name alone
	MultipathSeed uint32              // net.ipv4.fib_multipath_hash_seed: the fast path hashes with the same
	Interfaces    []DesiredInterface  // parents first
	Subscribers   []DesiredSubscriber // by name
	Routes        []DesiredRoute      // static routes, and what holds announced and translated prefixes, by prefix and metric
	Proxies       []DesiredProxy      // addresses of others that are answered for, by interface and address
	CPUs          *DesiredCPUs        // nil: as the system has it
	Sysctls       []Sysctl            // in the order of writing; forwarding is not among them
	AntiSpoof     string              // nftables text of table inet minne_antispoof; "" when no interface asks for it
}

// DesiredInterface is one configured interface.
type DesiredInterface struct {
	Name        string
	Match       config.Match // the zero Match finds the link by Name
	Kind        config.Kind
	Made        *config.Interface // what the kind makes the link from; nil for a port and the loopback
	Description string
	Addresses   []netip.Prefix // with host bits
	MTU         int            // 0: the driver's
	Down        bool
	Table       uint32        // of the VRF that it is in; 0 for the main table
	Learns      bool          // addresses of providers
	Distance    int           // of the routes that a provider gives; 0 when none is asked
	Ethernet    []portSetting // of the hardware
	Shape       DesiredShape
	Tree        *DesiredTree // nil: it does not lead to subscribers
}

// DesiredRoute is a static route. Blackhole, Unreachable and Hops exclude each other.
type DesiredRoute struct {
	Prefix      netip.Prefix
	Table       uint32 // of a VRF; 0 is the main table
	Metric      uint32
	Blackhole   bool
	Unreachable bool
	Hops        []DesiredHop
}

// table is where the route is.
func (r DesiredRoute) table() uint32 { return cmp.Or(r.Table, rib.TableMain) }

// DesiredHop is a next hop by names: Interface is "" when no configured network contains Gateway.
type DesiredHop struct {
	Gateway   netip.Addr
	Interface string
	OnLink    bool // the operator says that Gateway is there, though no network of Interface contains it
}

// announceDistance is the administrative distance of the blackholes that hold announced prefixes:
// every other source of a route to the same prefix wins.
const announceDistance = 254

// Metric is the kernel metric of a route with an administrative distance. FRR reads the distance of
// a kernel route from the top byte of its metric and installs its own routes at metric 20, so a
// distance under 20 must stay under that and a higher one goes to the top byte.
func Metric(distance int) uint32 {
	if distance < 20 {
		return uint32(distance)
	}
	return uint32(distance) << 24
}

// Render makes the Desired of a checked configuration.
func Render(cfg *config.Config) (Desired, error) {
	d := Desired{Hostname: cfg.System.Hostname, MultipathSeed: multipathSeed(cfg), CPUs: renderCPUs(cfg)}
	var err error
	if d.Interfaces, err = renderInterfaces(cfg); err != nil {
		return Desired{}, err
	}
	d.Subscribers = renderSubscribers(cfg)
	plantTrees(cfg, d.Interfaces)
	if d.Routes, err = renderRoutes(cfg, d.Interfaces); err != nil {
		return Desired{}, err
	}
	d.Proxies = renderProxies(cfg)
	memory, err := memoryBytes()
	if err != nil {
		return Desired{}, err
	}
	d.Sysctls = renderSysctls(cfg, d.MultipathSeed, memory)
	d.AntiSpoof = renderAntiSpoof(cfg.Interfaces)
	return d, nil
}

// multipathSeed differs between routers, so that two in a row don't split traffic alike, and stays
// the same over restarts and under another name, so that flows keep their paths. It comes from the
// router id, or without one from the lowest of the router's own addresses. Never 0, which means random
// to the kernel.
func multipathSeed(cfg *config.Config) uint32 {
	own := cfg.System.RouterID
	if !own.IsValid() {
		for _, i := range cfg.Interfaces {
			for _, a := range i.Addresses {
				shared := a.Addr().IsLoopback() || a.Addr().IsLinkLocalUnicast() // others have it too
				if !shared && (!own.IsValid() || a.Addr().Less(own)) {
					own = a.Addr()
				}
			}
		}
	}
	h := fnv.New32a()
	fmt.Fprint(h, own)
	return max(h.Sum32(), 1)
}

// renderInterfaces orders parents before what sits on them, and members before what they belong to, else by name.
func renderInterfaces(cfg *config.Config) ([]DesiredInterface, error) {
	var list []DesiredInterface
	placed, masters := map[string]bool{}, cfg.Masters()
	var place func(name string, path []string) error
	place = func(name string, path []string) error {
		if placed[name] {
			return nil
		}
		if slices.Contains(path, name) {
			return fmt.Errorf("interfaces.%s: %s is its own parent", path[0], path[0])
		}
		c := cfg.Interfaces[name]
		kind := cfg.Kind(name)
		for _, p := range append(kind.Members, kind.Parents...) {
			if _, ok := cfg.Interfaces[p.Name]; !ok {
				return fmt.Errorf("interfaces.%s.%s.%s: no interface %q", name, kind.Name, p.Key, p.Name)
			}
			if err := place(p.Name, append(path, name)); err != nil {
				return err
			}
		}
		if m := c.Match; m != nil && m.Name != "" && m.Name != name {
			if _, ok := cfg.Interfaces[m.Name]; ok {
				return fmt.Errorf("interfaces.%s.match.name: %s is the name of another interface, so the link could not be found again once renamed; match by mac or path",
					name, m.Name)
			}
		}
		placed[name] = true
		i := renderInterface(name, c, kind, cfg.MTU(name))
		if m := masters[name]; m.Kind.Bundles {
			i.MTU = cfg.Interfaces[m.Name].MTU
		}
		if v := cfg.Interfaces[masters[name].Name]; v != nil && v.VRF != nil {
			i.Table = uint32(v.VRF.Table)
		}
		list = append(list, i)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Interfaces)) {
		if err := place(name, nil); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func renderInterface(name string, c *config.Interface, kind config.Kind, mtu int) DesiredInterface {
	i := DesiredInterface{Name: name, Kind: kind, Description: c.Description, MTU: mtu, Down: c.Disabled, Ethernet: portSettings(c.Ethernet), Shape: renderShape(c.Shape)}
	if c.DHCP.On() || c.DHCPv6 != nil {
		i.Distance = c.DHCPDistance
	}
	i.Learns = i.Distance != 0 || c.Delegated != nil
	if c.Match != nil {
		i.Match = *c.Match
	}
	if kind.Name != "" && !kind.Brought {
		i.Made = c
	}
	for _, a := range c.Addresses {
		i.Addresses = append(i.Addresses, a.Prefix)
	}
	return i
}

type routeKey struct {
	table  uint32
	prefix netip.Prefix
	metric uint32
}

// renderRoutes merges entries of one prefix and distance into one route with several hops.
func renderRoutes(cfg *config.Config, interfaces []DesiredInterface) ([]DesiredRoute, error) {
	routes := map[routeKey]*DesiredRoute{}
	in := func(table uint32, p netip.Prefix, distance int) *DesiredRoute {
		k := routeKey{table, p, Metric(distance)}
		if routes[k] == nil {
			routes[k] = &DesiredRoute{Prefix: p, Table: table, Metric: k.metric}
		}
		return routes[k]
	}
	at := func(p netip.Prefix, distance int) *DesiredRoute { return in(0, p, distance) }
	tableOf := func(name string) uint32 {
		if v := cfg.Interfaces[name]; v != nil && v.VRF != nil {
			return uint32(v.VRF.Table)
		}
		return 0
	}
	for i, s := range cfg.Routing.Static {
		r := in(tableOf(s.VRF), s.Prefix.Prefix, s.Distance)
		if s.Blackhole {
			r.Blackhole = true
		}
		for _, via := range s.Via {
			hop, err := renderHop(s.Prefix.Prefix, via, tableOf(s.VRF), interfaces)
			if err != nil {
				return nil, fmt.Errorf("routing.static[%d]: %w", i, err)
			}
			if !slices.Contains(r.Hops, hop) {
				r.Hops = append(r.Hops, hop)
			}
		}
		if r.Blackhole == (len(r.Hops) > 0) {
			return nil, fmt.Errorf("routing.static[%d]: the route to %s has next hops and is a blackhole: expected one of them", i, s.Prefix)
		}
	}
	for _, t := range config.TunnelRoutes(cfg) {
		r := in(tableOf(t.VRF), t.Prefix, 1)
		r.Hops = append(r.Hops, DesiredHop{Interface: t.Interface})
	}
	inVRFs := cfg.VRFs()
	for _, name := range slices.Sorted(maps.Keys(cfg.Interfaces)) {
		if i := cfg.Interfaces[name]; i.PPPoE != nil && i.PPPoE.DefaultRoute.On() && !i.Disabled {
			r := in(tableOf(inVRFs[name]), netip.PrefixFrom(netip.IPv4Unspecified(), 0), i.DHCPDistance)
			if !r.Blackhole {
				r.Hops = append(r.Hops, DesiredHop{Interface: name})
			}
		}
	}
	for _, protocols := range cfg.Protocols() {
		if protocols.BGP == nil {
			continue
		}
		for _, p := range protocols.BGP.Announce {
			if r := in(tableOf(protocols.VRF), p.Prefix, announceDistance); len(r.Hops) == 0 {
				r.Blackhole = true
			}
		}
	}
	for _, t := range config.Translations(cfg) {
		if t.Own != "" && t.Outside.IsSingleIP() {
			continue // the router has the address itself
		}
		if r := at(t.Outside, announceDistance); len(r.Hops) == 0 {
			r.Blackhole, r.Hops = holdTranslated(t)
		}
	}
	list := renderVRFs(cfg)
	for _, r := range routes {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b DesiredRoute) int {
		return cmp.Or(a.Prefix.Addr().Compare(b.Prefix.Addr()), a.Prefix.Bits()-b.Prefix.Bits(), cmp.Compare(a.Metric, b.Metric), cmp.Compare(a.Table, b.Table))
	})
	return list, nil
}

// renderHop finds the interface of a gateway among the configured networks of a table, 0 for the main one: the longest prefix
// that contains it.
func renderHop(dst netip.Prefix, via config.NextHop, table uint32, interfaces []DesiredInterface) (DesiredHop, error) {
	hop := DesiredHop{Gateway: via.Address, Interface: via.Interface}
	if !hop.Gateway.IsValid() {
		return hop, nil
	}
	if hop.Interface != "" {
		hop.OnLink = !hop.Gateway.IsLinkLocalUnicast() && !connects(interfaces, hop.Interface, hop.Gateway)
		return hop, nil
	}
	if dst.Addr().Is6() && hop.Gateway.Is4() {
		return DesiredHop{}, fmt.Errorf("the IPv6 route %s has the IPv4 next hop %s: expected an IPv6 one", dst, hop.Gateway)
	}
	best := -1
	for _, i := range interfaces {
		for _, a := range i.Addresses {
			if i.Table == table && a.Bits() > best && a.Contains(hop.Gateway) {
				best, hop.Interface = a.Bits(), i.Name
			}
		}
	}
	return hop, nil
}

// connects says whether a network of the named interface contains gateway.
func connects(interfaces []DesiredInterface, name string, gateway netip.Addr) bool {
	return slices.ContainsFunc(interfaces, func(i DesiredInterface) bool {
		return i.Name == name && slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Contains(gateway) })
	})
}

// words says what a route leads to, as an operator writes it.
func (r DesiredRoute) words() string {
	if r.Blackhole {
		return "blackhole"
	}
	if r.Unreachable {
		return "unreachable"
	}
	return hopWords(r.Hops)
}

func hopWords(hops []DesiredHop) string {
	text := ""
	for i, h := range hops {
		if i > 0 {
			text += ", "
		}
		switch {
		case h.Gateway.IsValid() && (h.Gateway.IsLinkLocalUnicast() || h.OnLink):
			text += "via " + h.Gateway.String() + "%" + h.Interface
		case h.Gateway.IsValid():
			text += "via " + h.Gateway.String()
		default:
			text += "on " + h.Interface
		}
	}
	return text
}

// rib returns the route as the kernel takes it, with interfaces by index. Hops on
// interfaces that index does not know, or that can't take routes now, are left
// out: a route with hops and none left waits.
func (r DesiredRoute) rib(index func(name string) (int, bool)) (route rib.Route, waits bool) {
	route = rib.Route{Prefix: r.Prefix, Table: r.table(), Metric: r.Metric, Type: rib.Unicast, Protocol: protocolStatic}
	if r.Blackhole {
		route.Type = rib.Blackhole
		return route, false
	}
	if r.Unreachable {
		route.Type = rib.Unreachable
		return route, false
	}
	for _, h := range r.Hops {
		hop := rib.Hop{Gateway: h.Gateway, Weight: 1}
		if h.OnLink {
			hop.Flags = rib.HopOnLink
		}
		if h.Interface != "" {
			i, ok := index(h.Interface)
			if !ok {
				continue
			}
			hop.Interface = i
		}
		route.Hops = append(route.Hops, hop)
	}
	return route, len(route.Hops) == 0
}
