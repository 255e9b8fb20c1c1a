// SPDX-License-Identifier: Apache-2.0

// Package flowrecord is what the router remembers of a connection: who spoke with whom, when, by what addresses others saw
// them, and how much.
//
// A connection that lasts gives a record at every interval and one when it ends. Each has only what was transferred
// since the record before, so the sum over records is the traffic, and no byte is in two of them.
package flowrecord

import (
	"net/netip"
	"time"
)

// Reason is why a record was written.
type Reason uint8

// The reasons, as far as the kernel tells them. The numbers are stored.
const (
	// Lasts is a record of a connection that goes on.
	Lasts Reason = iota
	// Closed is TCP that both sides have ended with FIN.
	Closed
	// Reset is TCP that one side has ended with RST.
	Reset
	// Deleted is a connection that a program has removed from conntrack, Minne's own commands among them.
	Deleted
	// Expired is every other end: nobody spoke for the time that conntrack waits, the address of a masqueraded
	// connection went, or conntrack had no room. The kernel does not tell these apart.
	Expired
	reasons
)

var reasonWords = [reasons]string{"lasts", "closed", "reset", "deleted", "expired"}

func (r Reason) String() string {
	if r < reasons {
		return reasonWords[r]
	}
	return "unknown"
}

// End is an address with a port; the port is 0 where the protocol has none, and the id of an ICMP echo.
type End = netip.AddrPort

// Way is where one end of a connection is, as the routes say.
type Way struct {
	Interface string
	Index     uint32 // of the link
	Zone      string // "" without a firewall zone; "self" for the router
}

// Record is one record.
type Record struct {
	Began    time.Time // the connection; zero when the kernel does not say
	From, To time.Time // what the record is about: From is the record before, or Began
	Reason   Reason
	Protocol uint8
	Table    uint16 // of the VRF that the connection is in, 0 for the main table
	Answered bool   // packets came from both sides

	// Source opened the connection to Called. Who answers is Destination, and sees Seen in the place of Source. Without
	// translation, Seen is Source and Called is Destination.
	Source, Called, Destination, Seen End

	// Index 0 is the direction of who opened the connection, 1 the replies. Bytes are of IP packets.
	Packets, Bytes [2]uint64

	// SoFar is of a connection that lasts: what a daemon that starts must know.
	SoFar SoFar

	In, Out Way // towards the opener, towards who answers
}

// SoFar is all that a connection has transferred, and what of it the fast path forwarded and the kernel has not counted.
type SoFar struct{ Packets, Bytes, FastPackets, FastBytes [2]uint64 }

// Translated says which ends others see under other addresses or ports.
func (r *Record) Translated() (source, destination bool) {
	return r.Seen != r.Source, r.Called != r.Destination
}
