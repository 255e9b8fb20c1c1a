// SPDX-License-Identifier: Apache-2.0

// Package irdp advertises the router to IPv4 hosts: ICMP router discovery, RFC 1256.
//
// FRR's zebra has a module for it, which is not used. In FRR 8.4 it drops all solicitations to 224.0.0.2 ("illegal … while
// operates in multicast"); it tells hosts nothing when it is switched off, so that they use the router for up to its
// lifetime; and it needs another start of zebra.
package irdp

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
)

// Service is router discovery to the other parts.
var Service = service.Descriptor{
	Name:     "irdp",
	Title:    "IRDP",
	Openings: openings,
	New: func(h service.Host) service.Running {
		s := resident.New(resident.Kind[Settings]{Name: "irdp", Title: "router discovery", Fact: fact, Work: advertise}, h.Log)
		r := service.Of(s, func(cfg *config.Config, _ config.Secrets) (map[string]Settings, error) { return Render(cfg), nil })
		r.Task, r.Stop, r.States, r.Down, r.Returned = s, s.Stop, s.States, s.Down, s.Returned
		return r
	},
}

// openings let hosts ask. Advertisements need no opening: they leave by packet sockets. Those of other routers stay out.
func openings(cfg *config.Config) []policy.Opening {
	return []policy.Opening{{Text: "router discovery", Protocols: []uint8{unix.IPPROTO_ICMP}, Interfaces: slices.Sorted(maps.Keys(cfg.Services.IRDP)),
		ICMP: []policy.ICMPType{{Protocol: unix.IPPROTO_ICMP, Type: solicitation}}}}
}

// Settings is what is advertised on one interface.
type Settings struct {
	Addresses  []netip.Prefix // in the order of the file; the first is the sender
	Preference int32
	Interval   time.Duration // the greatest between two advertisements
	Lifetime   time.Duration
}

// Render is what a configuration asks for, by interface.
func Render(cfg *config.Config) map[string]Settings {
	all := map[string]Settings{}
	for name, r := range cfg.Services.IRDP {
		all[name] = Settings{Addresses: cfg.IPv4Addresses(name), Preference: int32(r.Preference), Interval: r.Interval.Std(), Lifetime: r.AdvertisedLifetime()}
	}
	return all
}

func fact(name string, s Settings) string {
	return fmt.Sprintf("IRDP on %s: preference %d, lifetime %v", name, s.Preference, config.Duration(s.Lifetime))
}
