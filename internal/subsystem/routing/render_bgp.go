// SPDX-License-Identifier: Apache-2.0

// BGP for FRR's bgpd.
//
// Each peer and family has one route map in and one out, named <peer>-in4, <peer>-out4, <peer>-in6, <peer>-out6, in a VRF
// <vrf>:<peer>-in4 and so on.
// The one in drops, in this order, paths with bogon AS numbers, bogon prefixes and (unless taken) the default route, then takes
// what is left or what the accept list names. A default route that is taken gets bgpDefaultTag.
package routing

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"minne/internal/model/config"
)

const (
	frrKeepalive   = 60  // seconds, FRR's default
	frrHold        = 180 // seconds, FRR's default
	frrRestartTime = 120 // seconds, FRR's default
	// ribStaleTime is how long zebra keeps the routes of a bgpd that has died, in seconds: a slow box needs minutes
	// to take full tables again (FRR's default is 500).
	ribStaleTime = 900
	connectRetry = 10 // seconds between attempts to connect (FRR's default of 120 makes a repaired link wait)
	maxMD5Key    = 80 // bytes, TCP_MD5SIG_MAXKEYLEN
	bogonASN     = "bogon-asn"
)

// bgpFamily is one address family as FRR and this package name it.
type bgpFamily struct {
	v6     bool
	digit  string // "4" or "6", the end of names
	word   string // "ip" or "ipv6" of match commands
	header string
	any    netip.Prefix
}

var bgpFamilies = []bgpFamily{
	{false, "4", "ip", "address-family ipv4 unicast", netip.MustParsePrefix("0.0.0.0/0")},
	{true, "6", "ipv6", "address-family ipv6 unicast", netip.MustParsePrefix("::/0")},
}

// bgpPeer is a peer with what follows from the rest of the configuration.
type bgpPeer struct {
	*config.BGPPeer
	name     string
	vrf      string // "" in the main table
	addr     string // as FRR prints it
	external bool
	bogons   bool // refuse bogons
	password string
}

func renderBGP(l *lines, in config.Protocols, secrets Secrets, names map[peerAt]string) error {
	b := in.BGP
	if b.ASN == 0 {
		return fmt.Errorf("asn: expected the router's AS number")
	}
	peers, err := bgpPeers(in, secrets, names)
	if err != nil {
		return err
	}
	if l.first("delay-timer") {
		l.add("bgp route-map delay-timer 1")
	}
	l.add("router bgp %d%s", uint32(b.ASN), behind(in.VRF))
	renderBGPGlobals(l, in.RouterID, b)
	for _, p := range peers {
		renderSession(l, p)
	}
	for _, f := range bgpFamilies {
		renderFamily(l, f, b, peers)
	}
	l.add("exit")
	renderBGPPolicy(l, in.VRF, b, peers)
	return nil
}

func bgpPeers(in config.Protocols, secrets Secrets, names map[peerAt]string) ([]bgpPeer, error) {
	var peers []bgpPeer
	b := in.BGP
	for _, name := range sortedKeys(b.Peers) {
		path := "peers." + name
		c := b.Peers[name]
		if !c.Address.IsValid() {
			return nil, fmt.Errorf("%s.address: expected the peer's address", path)
		}
		if c.ASN == 0 {
			return nil, fmt.Errorf("%s.asn: expected the peer's AS number", path)
		}
		p := bgpPeer{BGPPeer: c, name: name, vrf: in.VRF, addr: c.Address.WithZone("").Unmap().String(), external: c.ASN != b.ASN}
		at := peerAt{in.VRF, p.addr}
		if other, twice := names[at]; twice {
			return nil, fmt.Errorf("%s.address: the peer %q has the same address %s", path, other, p.addr)
		}
		names[at] = name
		if c.Interface != "" {
			if err := ifname(path+".interface", c.Interface); err != nil {
				return nil, err
			}
		}
		policy := b.Bogons
		if c.Import.Bogons != "" {
			policy = c.Import.Bogons
		}
		p.bogons = p.external && policy != "accept"
		if c.Password != "" {
			var err error
			if p.password, err = key(secrets, path+".password", c.Password, maxMD5Key); err != nil {
				return nil, err
			}
		}
		peers = append(peers, p)
	}
	return peers, nil
}

func renderBGPGlobals(l *lines, id netip.Addr, b *config.BGP) {
	l.add(" bgp router-id %s", id)
	l.add(" bgp log-neighbor-changes")
	l.add(" no bgp default ipv4-unicast")
	if b.GracefulRestart.On() {
		if t := seconds(b.RestartTime); t != frrRestartTime {
			l.add(" bgp graceful-restart restart-time %d", t)
		}
		l.add(" %s", noDeferral) // of newer FRRs only at a cold start: see cold.go
		l.add(" bgp graceful-restart")
		l.add(" bgp graceful-restart preserve-fw-state")
		l.add(" bgp graceful-restart rib-stale-time %d", ribStaleTime)
	}
	if b.Multipath > 1 { // equal paths from two upstreams have different AS numbers
		l.add(" bgp bestpath as-path multipath-relax")
	}
	// The announced prefixes are held in the kernel by blackhole routes; announcing need not wait for zebra to see them.
	l.add(" no bgp network import-check")
}

func renderSession(l *lines, p bgpPeer) {
	n := " neighbor " + p.addr
	l.add("%s remote-as %d", n, uint32(p.ASN))
	if d := freeText(p.Description); d != "" {
		l.add("%s description %s", n, d)
	}
	if p.BFD.On() {
		l.add("%s bfd", n)
	}
	if p.password != "" {
		l.add("%s password %s", n, p.password)
	}
	if p.Passive {
		l.add("%s passive", n)
	}
	if p.external && p.Multihop > 1 {
		l.add("%s ebgp-multihop %d", n, p.Multihop)
	}
	if p.Interface != "" {
		l.add("%s interface %s", n, p.Interface)
	}
	if p.Source.IsValid() {
		l.add("%s update-source %s", n, p.Source.WithZone("").Unmap())
	}
	hold := seconds(p.HoldTime)
	if keep := hold / 3; keep != frrKeepalive || hold != frrHold {
		l.add("%s timers %d %d", n, keep, hold)
	}
	l.add("%s timers connect %d", n, connectRetry)
	if p.Disabled {
		l.add("%s shutdown", n)
	}
	if !p.Address.Unmap().Is4() && p.has(false) {
		l.add("%s capability extended-nexthop", n) // IPv4 routes over an IPv6 session, RFC 8950
	}
}

// word is the name of something that is this peer's alone.
func (p bgpPeer) word(end string) string { return prefixed(p.vrf, token(p.name)+end) }

// has says whether the peer exchanges routes of a family.
func (p bgpPeer) has(v6 bool) bool {
	if len(p.Families) == 0 {
		return p.Address.Unmap().Is6() == v6
	}
	return slices.Contains(p.Families, config.Family(map[bool]string{false: "ipv4", true: "ipv6"}[v6]))
}

// exports returns what is told to the peer.
func (p bgpPeer) exports() string {
	switch {
	case p.Export.Routes != "":
		return string(p.Export.Routes)
	case p.external:
		return "own"
	default:
		return "all"
	}
}

// limit returns the greatest number of routes taken from the peer, 0 for any.
func (p bgpPeer) limit(v6 bool) int {
	switch {
	case p.Import.MaxPrefixes == nil:
		return 0
	case v6:
		return p.Import.MaxPrefixes.IPv6
	default:
		return p.Import.MaxPrefixes.IPv4
	}
}

// restartAfter returns the end of a limit's line: when the session that it ended is tried again, in minutes.
func (p bgpPeer) restartAfter() string {
	if after := time.Duration(p.Import.MaxPrefixes.RestartAfter); after > 0 {
		return fmt.Sprintf(" restart %d", after/time.Minute)
	}
	return ""
}

func renderFamily(l *lines, f bgpFamily, b *config.BGP, peers []bgpPeer) {
	l.add(" %s", f.header)
	for _, p := range ofFamily(b.Announce, f.v6) {
		l.add("  network %s", p)
	}
	for _, p := range peers {
		if !p.has(f.v6) {
			continue
		}
		n := "  neighbor " + p.addr
		l.add("%s activate", n)
		if !p.external {
			l.add("%s next-hop-self", n)
		}
		if p.exports() == "default" {
			l.add("%s default-originate", n)
		}
		if max := p.limit(f.v6); max > 0 {
			l.add("%s maximum-prefix %d%s", n, max, p.restartAfter())
		}
		l.add("%s route-map %s in", n, p.word("-in"+f.digit))
		l.add("%s route-map %s out", n, p.word("-out"+f.digit))
	}
	l.add("  maximum-paths %d", b.Multipath)
	l.add("  maximum-paths ibgp %d", b.Multipath)
	l.add(" exit-address-family")
}

// ofFamily returns the prefixes of one family, each once, sorted.
func ofFamily(list []config.Prefix, v6 bool) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range list {
		if p.IsValid() && p.Addr().Is6() == v6 {
			out = append(out, p.Prefix.Masked())
		}
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(out)
}

// renderBGPPolicy writes the lists and route maps that the sessions refer to.
func renderBGPPolicy(l *lines, vrf string, b *config.BGP, peers []bgpPeer) {
	anyBogons := slices.ContainsFunc(peers, func(p bgpPeer) bool { return p.bogons })
	for _, f := range bgpFamilies {
		def := prefixList{name: "default" + f.digit, v6: f.v6}
		def.add("permit", f.any, 0, 0)
		if l.first(def.name) {
			def.write(l)
		}
		own := prefixList{name: prefixed(vrf, "own"+f.digit), v6: f.v6}
		for _, p := range ofFamily(b.Announce, f.v6) {
			own.add("permit", p, 0, 0)
		}
		own.write(l)
		if list := bogonPrefixes(f.v6); anyBogons && l.first(list.name) {
			list.write(l)
		}
		for _, p := range peers {
			if list, ok := p.acceptList(f); ok {
				list.write(l)
			}
		}
	}
	if anyBogons {
		known := []uint32{uint32(b.ASN)}
		for _, p := range peers {
			known = append(known, uint32(p.ASN))
		}
		l.add("bgp as-path access-list %s seq 5 permit %s", prefixed(vrf, bogonASN), bogonPath(known))
	}
	for _, p := range peers {
		for _, f := range bgpFamilies {
			if p.has(f.v6) {
				renderImport(l, p, f)
				renderExport(l, b, p, f)
			}
		}
	}
}

// acceptList returns the prefix-list of import.accept, and whether there is one for the family.
func (p bgpPeer) acceptList(f bgpFamily) (prefixList, bool) {
	list := prefixList{name: p.word("-accept" + f.digit), v6: f.v6}
	if len(p.Import.Accept) == 0 || !p.has(f.v6) {
		return list, false
	}
	for _, a := range ofFamily(p.Import.Accept, f.v6) {
		list.add("permit", a, 0, f.any.Addr().BitLen())
	}
	return list, true
}

// takesDefault says whether a default route is taken. Where an accept list stands, it must name
// the default route or import.default must be on.
func (p bgpPeer) takesDefault(f bgpFamily) bool {
	if p.Import.Default != nil {
		return p.Import.Default.On()
	}
	return len(p.Import.Accept) == 0 || slices.Contains(ofFamily(p.Import.Accept, f.v6), f.any)
}

func renderImport(l *lines, p bgpPeer, f bgpFamily) {
	name := p.word("-in" + f.digit)
	if p.bogons {
		l.add("route-map %s deny 10", name)
		l.add(" match as-path %s", prefixed(p.vrf, bogonASN))
		l.add("exit")
		l.add("route-map %s deny 20", name)
		l.add(" match %s address prefix-list bogons%s", f.word, f.digit)
		l.add("exit")
	}
	action := "deny"
	if p.takesDefault(f) {
		action = "permit"
	}
	l.add("route-map %s %s 30", name, action)
	l.add(" match %s address prefix-list default%s", f.word, f.digit)
	if action == "permit" {
		p.setPreference(l)
		l.add(" set tag %d", bgpDefaultTag)
	}
	l.add("exit")
	l.add("route-map %s permit 40", name)
	if _, ok := p.acceptList(f); ok {
		l.add(" match %s address prefix-list %s", f.word, p.word("-accept"+f.digit))
	}
	p.setPreference(l)
	l.add("exit")
}

// setPreference sets the local preference; one that an internal peer has chosen stands unless overruled.
func (p bgpPeer) setPreference(l *lines) {
	switch {
	case p.Import.Preference > 0:
		l.add(" set local-preference %d", p.Import.Preference)
	case p.external:
		l.add(" set local-preference 100")
	}
}

func renderExport(l *lines, b *config.BGP, p bgpPeer, f bgpFamily) {
	name := p.word("-out" + f.digit)
	switch p.exports() {
	case "own":
		l.add("route-map %s permit 10", name)
		l.add(" match %s address prefix-list %s", f.word, prefixed(p.vrf, "own"+f.digit))
	case "all":
		l.add("route-map %s permit 10", name)
	default: // none; default comes from default-originate alone
		l.add("route-map %s deny 10", name)
		l.add("exit")
		return
	}
	if p.Export.MED > 0 {
		l.add(" set metric %d", p.Export.MED)
	}
	if p.Export.Prepend > 0 && p.external {
		l.WriteString(" set as-path prepend")
		for range p.Export.Prepend {
			fmt.Fprintf(l, " %d", uint32(b.ASN))
		}
		l.WriteByte('\n')
	}
	l.add("exit")
}

// seconds rounds a duration up to whole seconds, the unit of FRR's timers.
func seconds(d config.Duration) int {
	return int((time.Duration(d) + time.Second - 1) / time.Second)
}
