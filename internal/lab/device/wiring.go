// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"net"
	"net/netip"

	"minne/internal/base/ipnet"
)

// The ports of a device in every rig of the lab, and its addresses on them, so
// that one configuration of a user's own serves them all. The networks are those
// set aside for benchmarking (RFC 2544 appendix C.2.2, RFC 5180 section 8).
const (
	In  = "in"  // towards the generator
	Out = "out" // towards the sink
)

// The addresses of In and Out.
var (
	InAddresses  = ipnet.Must("198.18.0.1/24", "2001:2:0:1::1/64")
	OutAddresses = ipnet.Must("198.19.0.1/24", "2001:2:0:2::1/64")
)

// The hosts behind In and Out: a network of each family, IPv4 first. None of them
// holds an address of a port.
var (
	InHosts  = ipnet.Must("198.18.128.0/17", "2001:2:0:4000::/50")
	OutHosts = ipnet.Must("198.19.128.0/17", "2001:2:0:c000::/50")
)

// Wiring is the network around a device.
type Wiring struct {
	Ports []Port
}

// Port is one of the device's ports and what is behind it.
type Port struct {
	Name       string // the interface's name in the node
	Bridge     string // the bridge whose only port it is, and which has the addresses; "" is none
	Addresses  []netip.Prefix
	Stations   []Station      // neighbours on the port's network; those that routes lead to are among them
	Routes     []netip.Prefix // reached through the stations of their family, see Spread
	KernelOnly bool           // packets that arrive here are left to the kernel by a Minne whose file the lab makes
}

// network is the interface that has the port's addresses and neighbours.
func (p Port) network() string { return cmp.Or(p.Bridge, p.Name) }

// Station is a neighbour: a next hop, or a host. A bridge needs the MAC alone.
type Station struct {
	Address netip.Addr
	MAC     net.HardwareAddr
}
