// SPDX-License-Identifier: Apache-2.0

package pattern

// Grammar lists the words of a pattern for help texts.
const Grammar = `one-flow              one source, one destination, always the same ports (the default)
flows=N               N flows, in a new random order every N packets
flows=N@LEN           the same, and each flow is replaced by a new one after LEN packets (2048@30)
rdos                  every packet to another random destination
rdos=5tuple           every packet with another source, destination and ports
ports=rfc4814         one source and destination, every packet with other ports (RFC 4814 section 4.5);
                      with flows=N or rdos: that pattern with such ports
pcap=FILE             the frames of a capture, with rewritten MACs
timing=own            … at the capture's own pace (timing=rate, the default: at the requested rate)
syn                   TCP SYN segments instead of UDP
bidirectional         both ways at once, packet by packet
size=N                frames of N bytes with FCS, 64 to 1518 (the default is 64)
size=imix             the papers' mix: 64, 576 and 1500 bytes in shares of 45, 25 and 30 %
size=imix-csit        the mix of FD.io CSIT: 28 × 64, 16 × 570, 4 × 1518
size=64:45,576:25     any mix, sizes with their weights
size=genome:aaadg     sizes in exactly this order (RFC 6985 section 4)
family=ipv4           or ipv6, or ipv4:70,ipv6:30 for shares of packets
table=FILE            destinations out of a routing table, one prefix a line; table=full is the Internet's,
                      table=N so many prefixes out of that one, table=ipv4:N so many of IPv4 alone
draw=in-table         how: addresses that the table covers (the default with a table),
                      per-prefix (every prefix alike) or uniform (anywhere on the public Internet)
seed=N                another choice of everything random (the default is 1)
`
