// SPDX-License-Identifier: Apache-2.0

package lpm

import "minne/internal/subsystem/fastpath/tableimage"

// Stats is what an image of this package is made of.
type Stats struct {
	Family     Family
	Routes     int // that decide something: without those that lead where the route around them leads
	Nodes      int
	Ends       int // of a tree bitmap: nodes without children, which are not in Nodes
	NextHops   int // as often as they are stored
	UsedBytes  int
	ImageBytes int // with what fills it up to a power of two
}

// StatsOf reads a sealed image's header.
func StatsOf(m *tableimage.Image) Stats {
	return Stats{
		Family:     Family(m.Words[headFamily]),
		Routes:     int(m.Words[headRoutes]),
		Nodes:      int(m.Words[headNodes]),
		Ends:       int(m.Words[headEnds]),
		NextHops:   int(m.Words[headResults]),
		UsedBytes:  4 * m.Used(),
		ImageBytes: 4 * len(m.Words),
	}
}
