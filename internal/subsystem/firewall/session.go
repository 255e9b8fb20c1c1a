// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/policy"
)

// An operator who logs in through the network and applies a firewall that doesn't
// permit the login loses it at once. The preview looks for that.

// Cuts says why a TCP connection from client to server, an address of this router,
// would end under the firewall of cfg, "" when it would not or nobody can tell. The
// route back to the client tells by which interface it comes.
func (d Desired) Cuts(cfg *config.Config, client, server netip.AddrPort) string {
	if d.Policy == nil || client.Addr().IsLinkLocalUnicast() { // which is on every link
		return ""
	}
	in := d.cameBy(cfg, client.Addr(), server.Addr())
	if in == "" {
		return ""
	}
	there := policy.Packet{In: in, Source: client.Addr(), Destination: server.Addr(), Protocol: unix.IPPROTO_TCP,
		SourcePort: client.Port(), DestPort: server.Port(), HopLimit: 64}
	back := policy.Packet{Out: in, Source: server.Addr(), Destination: client.Addr(), Protocol: unix.IPPROTO_TCP,
		SourcePort: server.Port(), DestPort: client.Port(), HopLimit: 64}
	verdict := policy.Evaluate(d.Policy, there, policy.New)
	if verdict.Action == policy.Permit {
		verdict = policy.Evaluate(d.Policy, back, policy.Established)
	}
	switch {
	case verdict.Action == policy.Permit:
		return ""
	case verdict.Pair == nil:
		return fmt.Sprintf("%s has no zone", in)
	case verdict.Rule != nil:
		return fmt.Sprintf("%q (%s) forbids it", verdict.Rule.Text, verdict.Rule.Place)
	}
	return fmt.Sprintf("no rule from zone %s to %s permits TCP from %s to port %d", d.Policy.Zones[verdict.Pair.From].Name,
		d.Policy.Zones[verdict.Pair.To].Name, client.Addr(), server.Port())
}

// cameBy is the interface of a configuration by which a connection from an address comes, "" when it is not to this router,
// or from itself, or nobody can tell.
func (d Desired) cameBy(cfg *config.Config, client, server netip.Addr) string {
	r := newRoutes()
	tables := []string{""}
	for _, v := range d.Policy.VRFs {
		tables = append(tables, v.Name)
	}
	for _, vrf := range tables {
		link, ok1 := r.towards(vrf, client)
		own, ok2 := r.towards(vrf, server)
		if !ok1 || !ok2 || own != "" || link == "" {
			continue
		}
		if in, ok := configured(cfg, link); ok {
			return in
		}
	}
	return ""
}

// configured is the name that a link has in a configuration. false: it may be that
// of an interface which is found by something else than its name or MAC.
func configured(cfg *config.Config, link string) (name string, ok bool) {
	if cfg.Interfaces[link] != nil {
		return link, true
	}
	l, err := netlink.LinkByName(link)
	if err != nil {
		return "", false
	}
	certain := true
	for name, i := range cfg.Interfaces {
		switch {
		case i == nil || i.Match == nil:
		case i.Match.Name == link, i.Match.MAC != config.MAC{} && string(i.Match.MAC[:]) == string(l.Attrs().HardwareAddr):
			return name, true
		case i.Match.Path != "":
			certain = false
		}
	}
	return link, certain
}
