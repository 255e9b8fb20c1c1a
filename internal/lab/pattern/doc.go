// SPDX-License-Identifier: Apache-2.0

// Package pattern turns a line of words into the packets of a measurement.
//
// A pattern says what the traffic is: which flows, which destinations, which
// frame sizes, which IP versions. It is written as words that stand in any
// order, each at most once; Grammar lists them.
//
// Frame sizes count the FCS, as in RFC 2544. The papers don't say whether theirs
// do; here their 64 is the least Ethernet frame, so all three do. IPv6 and TCP
// headers are longer than what a frame of 64 bytes holds beside the lab's stamp:
// sizes below the least one (Least) are raised to it, also in MeanSize.
//
// A pattern becomes a traffic.Lap, the sequence of packets that a generator
// walks through again and again. Everything random is drawn when the lap is
// made, from the seed alone. Shares (sizes, families, directions) are exact over
// a lap: they are dealt like cards from a deck, not thrown like dice.
//
// Where every packet or flow is to be a new one, laps must not repeat each other
// (Lap.Fresh): the generator counts laps in the low 12 bits of the source ports,
// which therefore are the same in all of such a lap. It is so of rdos, rdos=5tuple and
// flows=N@LEN; with ports=rfc4814 beside rdos, ports are of the RFC's whole range
// instead and the lap of a million packets comes again as it is.
//
// Flows take turns in rounds: in each round every flow sends one packet, and the
// order of a round is random. In flows=N@LEN the flows are of different ages from
// the beginning, so that replacements come evenly, one new flow every LEN
// packets. A lap's end cuts the flows that are alive: the further laps consist of new flows
// (Lap.Fresh), a lap's first and last flow in a place have LEN packets together.
package pattern
