// SPDX-License-Identifier: Apache-2.0

// Package pattern turns a line of words into the packets of a measurement.
//
// A pattern says what the traffic is: which flows, which destinations, which
// frame sizes, which IP versions. It is written as words that stand in any
// order, each at most once:
//
//	one-flow              one source, one destination, always the same ports (the default)
//	flows=N               N flows, in a new random order every N packets
//	flows=N@LEN           the same, and each flow is replaced by a new one after LEN packets (2048@30)
//	rdos                  every packet to another random destination
//	rdos=5tuple           every packet with another source, destination and ports
//	ports=rfc4814         one source and destination, every packet with other ports (RFC 4814 section 4.5);
//	                      beside flows=N or rdos: that pattern with such ports
//	pcap=FILE             the frames of a capture, with rewritten MACs
//	timing=own            … at the capture's own pace (timing=rate, the default: at the rate asked for)
//	syn                   TCP SYN segments instead of UDP
//	bidirectional         both ways at once, packet by packet
//	size=N                frames of N bytes with FCS, 64 to 1518 (the default is 64)
//	size=imix             the papers' mix: 64, 576 and 1500 bytes in shares of 45, 25 and 30 %
//	size=imix-csit        the mix of FD.io CSIT: 28 × 64, 16 × 570, 4 × 1518
//	size=64:45,576:25     any mix, sizes with their weights
//	size=genome:aaadg     sizes in exactly this order (RFC 6985 section 4)
//	family=ipv4           or ipv6, or ipv4:70,ipv6:30 for shares of packets
//	table=FILE            destinations out of a routing table, one prefix a line; table=full is the Internet's,
//	                      table=N so many prefixes out of that one
//	draw=in-table         how: addresses that the table covers (the default with a table),
//	                      per-prefix (every prefix alike) or uniform (anywhere on the public Internet)
//	seed=N                another choice of everything random (the default is 1)
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
// Flows take turns in rounds: in each round every flow sends one packet, and the
// order of a round is random. In flows=N@LEN the flows are of different ages from
// the beginning, so that replacements come evenly, one new flow every LEN
// packets. A lap's end cuts the flows that are alive: the further laps consist of new flows
// (Lap.Fresh), a lap's first and last flow in a place have LEN packets together.
package pattern
