// SPDX-License-Identifier: Apache-2.0

// OSPFv2 for FRR's ospfd and OSPFv3 for its ospf6d: nearly one grammar, so one renderer.
package routing

import (
	"fmt"
	"net/netip"

	"minne/internal/model/config"
)

const (
	frrHello      = 10     // seconds, FRR's default
	frrDead       = 40     // seconds, FRR's default
	frrReference  = 100000 // Mbit/s, FRR's default reference bandwidth
	frrPriority   = 1      // FRR's default
	maxOSPFv2Key  = 16     // bytes, RFC 2328 D.3
	maxOSPFv3Key  = 64     // bytes, the block of SHA-256 (RFC 7166 4.5)
	ospfDefault   = "ospf-bgp-default"
	ospfStaticMap = "ospf-static"
)

// ospfVersion is what differs between the two.
type ospfVersion struct {
	v6      bool
	process string // "ospf" or "ospf6"
	iface   string // start of a line below an interface
	any     netip.Prefix
}

var (
	ospfv2 = ospfVersion{false, "ospf", " ip ospf", netip.MustParsePrefix("0.0.0.0/0")}
	ospfv3 = ospfVersion{true, "ospf6", " ipv6 ospf6", netip.MustParsePrefix("::/0")}
)

func renderOSPF(l *lines, v ospfVersion, cfg *config.Config, in config.Protocols, o *config.OSPF, secrets Secrets) error {
	seen := map[string]bool{}
	for _, id := range sortedKeys(o.Areas) {
		area := o.Areas[id]
		for _, name := range sortedKeys(area.Interfaces) {
			path := fmt.Sprintf("areas.%s.interfaces.%s", areaID(id), name)
			if err := ifname(path, name); err != nil {
				return err
			}
			if seen[name] {
				return fmt.Errorf("%s: the interface is already in another area", path)
			}
			seen[name] = true
			c := area.Interfaces[name]
			if err := renderOSPFInterface(l, v, path, name, id, c, secrets); err != nil {
				return err
			}
		}
	}
	static := staticPrefixes(cfg, in.VRF, v.v6)
	renderOSPFProcess(l, v, in, o, static)
	renderOSPFPolicy(l, v, o, static)
	return nil
}

// areaID writes an area as a dotted quad, the form that FRR prints.
func areaID(id config.AreaID) string {
	return netip.AddrFrom4([4]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}).String()
}

func renderOSPFInterface(l *lines, v ospfVersion, path, name string, area config.AreaID, c *config.OSPFInterface, secrets Secrets) error {
	l.add("interface %s", name)
	l.add("%s area %s", v.iface, areaID(area))
	if c.Cost > 0 {
		l.add("%s cost %d", v.iface, c.Cost)
	}
	hello, dead := seconds(c.Hello), seconds(c.Dead)
	if hello != frrHello {
		l.add("%s hello-interval %d", v.iface, hello)
	}
	if hello != frrHello || dead != frrDead { // ospfd derives it from the hello interval, this schema does not
		l.add("%s dead-interval %d", v.iface, dead)
	}
	if c.Network == "point-to-point" {
		l.add("%s network point-to-point", v.iface)
	}
	if *c.Priority != frrPriority {
		l.add("%s priority %d", v.iface, *c.Priority)
	}
	if c.Passive {
		l.add("%s passive", v.iface)
	}
	if c.BFD.On() {
		l.add("%s bfd", v.iface)
	}
	if c.Auth != nil {
		if err := renderOSPFAuth(l, v, path+".auth", c.Auth, secrets); err != nil {
			return err
		}
	}
	l.add("exit")
	return nil
}

func renderOSPFAuth(l *lines, v ospfVersion, path string, a *config.OSPFAuth, secrets Secrets) error {
	if a.KeyID < 1 || a.KeyID > 255 {
		return fmt.Errorf("%s.key-id: %d is not a key id: expected 1 to 255", path, a.KeyID)
	}
	max := maxOSPFv2Key
	if v.v6 {
		max = maxOSPFv3Key
	}
	secret, err := key(secrets, path+".secret", a.Secret, max)
	if err != nil {
		return err
	}
	switch {
	case v.v6 && a.Algorithm == "md5": // not in RFC 7166, FRR's own
		l.add("%s authentication key-id %d hash-algo md5 key %s", v.iface, a.KeyID, secret)
	case v.v6:
		l.add("%s authentication key-id %d hash-algo hmac-sha-256 key %s", v.iface, a.KeyID, secret)
	case a.Algorithm == "sha256":
		return fmt.Errorf("%s.algorithm: OSPFv2 supports md5 only", path)
	default:
		l.add("%s authentication message-digest", v.iface)
		l.add("%s message-digest-key %d md5 %s", v.iface, a.KeyID, secret)
	}
	return nil
}

func renderOSPFProcess(l *lines, v ospfVersion, in config.Protocols, o *config.OSPF, static prefixList) {
	l.add("router %s%s", v.process, behind(in.VRF))
	l.add(" %s router-id %s", v.process, in.RouterID)
	l.add(" log-adjacency-changes")
	if mbit := int(o.ReferenceBandwidth / 1e6); mbit != frrReference {
		l.add(" auto-cost reference-bandwidth %d", mbit)
	}
	for _, r := range o.Redistribute {
		switch {
		case r == "static" && len(static.entries) > 0: // the kernel package installs them, so zebra calls them kernel routes
			l.add(" redistribute kernel route-map %s", static.name)
		case r == "connected" || r == "bgp":
			l.add(" redistribute %s", r)
		}
	}
	if o.GracefulRestart.On() {
		l.add(" graceful-restart")
		l.add(" graceful-restart helper enable")
	}
	for _, id := range sortedKeys(o.Areas) {
		if a := o.Areas[id]; a.Type == "stub" || a.Type == "nssa" {
			l.add(" area %s %s", areaID(id), a.Type)
		}
	}
	switch o.DefaultRoute {
	case "always":
		l.add(" default-information originate always metric %d", o.DefaultMetric)
	case "bgp":
		l.add(" default-information originate metric %d route-map %s", o.DefaultMetric, ospfDefault)
	}
	l.add("exit")
}

// renderOSPFPolicy writes the route maps that the process refers to.
func renderOSPFPolicy(l *lines, v ospfVersion, o *config.OSPF, static prefixList) {
	redistributesStatic := false
	for _, r := range o.Redistribute {
		redistributesStatic = redistributesStatic || r == "static"
	}
	if redistributesStatic && len(static.entries) > 0 {
		static.write(l)
		l.add("route-map %s permit 10", static.name)
		l.add(" match %s address prefix-list %s", ipWord(v.v6), static.name)
		l.add("exit")
	}
	if o.DefaultRoute == "bgp" && l.first(ospfDefault) {
		l.add("route-map %s permit 10", ospfDefault)
		l.add(" match tag %d", bgpDefaultTag)
		l.add("exit")
	}
}

// staticPrefixes lists the static routes of a table that OSPF may tell. A default route is told by default-route only.
func staticPrefixes(cfg *config.Config, vrf string, v6 bool) prefixList {
	list := prefixList{name: prefixed(vrf, ospfStaticMap), v6: v6}
	var all []config.Prefix
	for _, s := range cfg.Routing.Static {
		if s.Prefix.Bits() != 0 && s.VRF == vrf {
			all = append(all, s.Prefix)
		}
	}
	for _, p := range ofFamily(all, v6) {
		list.add("permit", p, 0, 0)
	}
	return list
}
