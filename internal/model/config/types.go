// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"time"
)

// The scalar types of the file. Each has its own text form (values.go), because
// YAML's guess at a scalar is wrong for them: 65001.10 is not a float, 010 is
// not eight, 12:30:00:00:00:01 is not a number to the base of 60.

// ASN is an autonomous system number, 32 bits (RFC 6793), written plain or as asdot (RFC 5396).
type ASN uint32

// AreaID is an OSPF area, written as a number or a dotted quad.
type AreaID uint32

// Duration is a time span, written with a unit (90s, 10m, 300ms).
type Duration time.Duration

// Rate is a speed in bit/s, written with a unit (100Mbit, 10Gbit).
type Rate uint64

// MAC is an Ethernet address; the zero value means none.
type MAC [6]byte

// Prefix is a network without host bits.
type Prefix struct{ netip.Prefix }

// Address is an interface's address with the length of its network's prefix: host bits kept.
type Address struct{ netip.Prefix }

// NextHop is where a static route points: an address, an address on an interface, or an interface.
type NextHop struct {
	Address   netip.Addr // the zero Addr for an interface alone
	Interface string     // "" when the connected networks tell
}

// AddressRange is addresses from First to Last, both included.
type AddressRange struct{ First, Last netip.Addr }

// OnOff is a switch, written on or off.
type OnOff bool

// On reports whether the switch is on; one that has no default and was not set is not.
func (o *OnOff) On() bool { return o != nil && bool(*o) }
