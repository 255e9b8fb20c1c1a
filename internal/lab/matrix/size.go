// SPDX-License-Identifier: Apache-2.0

package matrix

import "fmt"

// Families and protocols as results name them.
const (
	IPv4 = "IPv4"
	IPv6 = "IPv6"
	TCP  = "TCP"
	UDP  = "UDP"
)

// Cell is one combination to measure.
type Cell struct {
	Family   string
	Protocol string
	Bytes    int // of the packet, from the IP header on
}

func (c Cell) String() string { return fmt.Sprintf("%s %s %d bytes", c.Family, c.Protocol, c.Bytes) }

// Cells returns the paper's matrix.
func Cells() (all []Cell) {
	for _, family := range []string{IPv4, IPv6} {
		for _, protocol := range []string{TCP, UDP} {
			for _, bytes := range []int{64, 128, 256, 512, 1024, 1500} {
				all = append(all, Cell{family, protocol, bytes})
			}
		}
	}
	return all
}

// Bytes of headers.
const (
	ipv4Header    = 20
	ipv6Header    = 40
	udpHeader     = 8
	tcpHeader     = 20
	tcpTimestamps = 12 // RFC 7323; Linux sends them in every segment unless switched off
)

const (
	leastMSS = 88 // what Linux takes for TCP_MAXSEG; it counts options as data (RFC 6691)
	leastUDP = 16 // iperf3 puts its sequence number and time stamp into each datagram
)

// segment says how a cell's packets are made: what iperf3 is given (the MSS of TCP,
// the length of UDP), and the payload and the whole packet that come of it. Where
// the protocol can't do the size it is the nearest, and the note says so.
func segment(c Cell, timestamps bool) (given, payload, packet int, note string) {
	header := ipv4Header
	if c.Family == IPv6 {
		header = ipv6Header
	}
	if c.Protocol == UDP {
		given = max(c.Bytes-header-udpHeader, leastUDP)
		payload, packet = given, given+header+udpHeader
		if packet != c.Bytes {
			note = fmt.Sprintf("packets of %d bytes: iperf3 sends no datagrams below %d bytes", packet, leastUDP)
		}
		return given, payload, packet, note
	}
	given = max(c.Bytes-header-tcpHeader, leastMSS)
	payload, packet = given, given+header+tcpHeader
	if timestamps {
		payload -= tcpTimestamps
	}
	if packet != c.Bytes {
		note = fmt.Sprintf("packets of %d bytes: Linux makes no TCP segments below %d bytes", packet, leastMSS)
	}
	return given, payload, packet, note
}
