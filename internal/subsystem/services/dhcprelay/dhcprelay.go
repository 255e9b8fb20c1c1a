// SPDX-License-Identifier: Apache-2.0

// Package dhcprelay carries what hosts ask by DHCP to servers elsewhere, and the answers back (RFC 1542, section 4), with the
// relay agent information option if that is configured (RFC 3046).
//
// It changes as few bytes as it can: the address of the relay, the count of hops, the option. It runs inside the daemon, with two sockets
// for each interface. While the daemon is away nothing is relayed; hosts ask again after 4, 8 and 16 seconds (RFC 2131,
// section 4.1), and a host that has a lease renews it with the server directly.
//
// To hosts it sends by packet sockets: they have no address yet that the kernel could look up.
package dhcprelay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/services/resident"
	"minne/internal/subsystem/services/service"
)

// Service is the relay to the other parts.
var Service = service.Descriptor{
	Name:     "dhcp-relay",
	Title:    "DHCP",
	Openings: openings,
	New: func(h service.Host) service.Running {
		relay := &Relay{book: book{counts: map[string]*counts{}}}
		relay.Service = resident.New(resident.Kind[Settings]{Name: "dhcp-relay", Title: "DHCP relay", Fact: fact, Work: relay.work}, h.Log)
		r := service.Of(relay, func(cfg *config.Config, _ config.Secrets) (map[string]Settings, error) { return Render(cfg), nil })
		r.Task, r.Stop, r.States, r.Down, r.Returned = relay, relay.Stop, relay.States, relay.Down, relay.Returned
		return r
	},
	Views: []service.View{service.NewView(service.View{
		Path:  "dhcp-relay",
		Short: "Show what the DHCP relay has passed on and dropped, and why",
	}, (*Relay).Observe, table)},
}

// openings let hosts ask on the interfaces, and the router ask the servers, whose answers belong to these connections. To
// hosts the relay sends by packet sockets.
func openings(cfg *config.Config) (list []policy.Opening) {
	udp := []uint8{unix.IPPROTO_UDP}
	on := slices.Sorted(maps.Keys(cfg.Services.DHCPRelay))
	for _, name := range on {
		var servers []netip.Prefix
		for _, a := range cfg.Services.DHCPRelay[name].Servers {
			servers = append(servers, netip.PrefixFrom(a, a.BitLen()))
		}
		list = append(list, policy.Opening{Text: "DHCP relay", Protocols: udp, From: serverPort, Port: serverPort, Hosts: servers, Out: true, Anywhere: true})
	}
	return append(list, policy.Opening{Text: "DHCP relay", Protocols: udp, From: clientPort, Port: serverPort, Interfaces: on, IPv4: true})
}

// Settings is the relay of one interface.
type Settings struct {
	Address  netip.Addr // by which servers know the network (giaddr)
	Servers  []netip.Addr
	VRF      string // in whose table the servers are reached; "" for the main table
	Option   []byte // content of option 82 that is added; nil for none
	Existing string // what becomes of requests that have one already: drop, replace, keep
}

// Render is what a configuration asks for, by interface.
func Render(cfg *config.Config) map[string]Settings {
	all, masters := map[string]Settings{}, cfg.Masters()
	for name, r := range cfg.Services.DHCPRelay {
		s := Settings{Address: cfg.RelayAddress(name), Servers: r.Servers}
		if m := masters[name]; m.Kind.Name == "vrf" {
			s.VRF = m.Name
		}
		if o := r.Option82; o != nil {
			s.Existing = o.Existing
			s.Option = append(s.Option, subOption(circuitID, cmp.Or(o.CircuitID, circuit(cfg, name)))...)
			s.Option = append(s.Option, subOption(remoteID, cmp.Or(o.RemoteID, cfg.System.Hostname))...)
		}
		all[name] = s
	}
	return all
}

// circuit is what an interface is called to servers: its name, or that of a VLAN's parent with its id, as trunk:20.
func circuit(cfg *config.Config, name string) string {
	if v := cfg.Interfaces[name].VLAN; v != nil && cfg.Interfaces[v.Parent] != nil {
		return circuit(cfg, v.Parent) + ":" + strconv.Itoa(v.ID)
	}
	return name
}

// Sub-options (RFC 3046, section 2.0).
const (
	circuitID = 1
	remoteID  = 2
)

// subOption is one of option 82; there is none without a text.
func subOption(code byte, text string) []byte {
	if text == "" {
		return nil
	}
	return append([]byte{code, byte(len(text))}, text...)
}

func fact(name string, s Settings) string {
	var servers []string
	for _, a := range s.Servers {
		servers = append(servers, a.String())
	}
	text := fmt.Sprintf("DHCP of %s by %s", name, strings.Join(servers, ","))
	if s.Option != nil {
		text += " with option 82"
	}
	return text
}

// Relay is the relay of a router instance.
type Relay struct {
	*resident.Service[Settings]
	book
}

// work serves one interface.
func (r *Relay) work(ctx context.Context, name string, s Settings, up func()) error {
	return serve(ctx, name, s, r.of(name), up)
}
