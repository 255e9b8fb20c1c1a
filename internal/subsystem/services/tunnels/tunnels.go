// SPDX-License-Identifier: Apache-2.0

// Package tunnels opens the firewall for the outer packets of tunnels: from their far ends alone. The links are the
// kernel package's work (internal/subsystem/kernel/kind_tunnel.go); no program runs.
package tunnels

import (
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/service"
)

// Service is the tunnels to the other parts.
var Service = service.Descriptor{
	Name:     "tunnels",
	Openings: openings,
	New:      func(service.Host) service.Running { return service.Running{} },
}

// protocols are what carries each type of tunnel.
var protocols = map[config.TunnelType]uint8{"gre": unix.IPPROTO_GRE, "ipip": unix.IPPROTO_IPIP, "6in4": unix.IPPROTO_IPV6, "vxlan": unix.IPPROTO_UDP}

func openings(cfg *config.Config) (list []policy.Opening) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Interfaces)) {
		t := cfg.Interfaces[name].Tunnel
		if t == nil || cfg.Interfaces[name].Disabled {
			continue
		}
		o := policy.Opening{Text: "tunnel " + name, Protocols: []uint8{protocols[t.Type]}, Interfaces: t.Interfaces}
		for _, a := range t.Ends() {
			o.Hosts = append(o.Hosts, netip.PrefixFrom(a, a.BitLen()))
		}
		if t.Type == "vxlan" {
			o.Port = uint16(t.Port)
		}
		list = append(list, o)
		o.Interfaces, o.Out, o.Anywhere = nil, true, true
		list = append(list, o)
	}
	return list
}
