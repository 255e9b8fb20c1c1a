// SPDX-License-Identifier: Apache-2.0

package traffic

import "net/netip"

// Packet says what one frame of a lap looks like. A lap is the sequence of
// packets that a generator walks through again and again; it is what a traffic
// pattern (one flow, 2048 flows of 30 packets, a mix of sizes …) comes down to.
type Packet struct {
	Source, Destination         netip.Addr // both of one family
	SourcePort, DestinationPort uint16
	Protocol                    uint8  // 17 UDP, 6 TCP (a SYN)
	FrameBytes                  uint16 // without FCS
	Stream                      uint8  // the sink counts per stream
}

// Lap is a sequence of packets. Packet must return the same for the same i.
type Lap struct {
	Packets int // 1…MaxDestinations
	Packet  func(i int) Packet
	// Fresh makes the packets of every further lap belong to flows that no earlier
	// lap had: source ports and the low bits of source addresses change with the lap.
	Fresh bool
}
