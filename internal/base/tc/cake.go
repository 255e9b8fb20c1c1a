// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"golang.org/x/sys/unix"

	"minne/internal/base/nlmsg"
)

// Cake (net/sched/sch_cake.c): shapes to a rate, gives hosts and flows fair shares, keeps queues short.

// Words of cake (enum in linux/pkt_sched.h).
type (
	CakeDiffserv uint32 // which DSCP mark has which priority
	CakeFlows    uint32 // who gets the same share
	CakeCells    uint32 // how the line cuts frames
)

// The words, as cake numbers them.
const (
	Diffserv3  CakeDiffserv = 0
	Diffserv4  CakeDiffserv = 1
	Diffserv8  CakeDiffserv = 2
	BestEffort CakeDiffserv = 3

	Flows        CakeFlows = 4 // each connection
	DualSrcHost  CakeFlows = 5 // each source, then each of its connections
	DualDestHost CakeFlows = 6 // each destination, likewise

	NoCells CakeCells = 0
	ATM     CakeCells = 1 // cells of 53 bytes carry 48
	PTM     CakeCells = 2 // 65 bytes carry 64
)

// Cake is how a discipline of that kind is set.
type Cake struct {
	Rate     uint64 // bytes/s
	Diffserv CakeDiffserv
	Flows    CakeFlows
	NAT      bool // hosts are those behind the router's NAT
	Cells    CakeCells
	Overhead int32  // bytes that the line adds to an IP packet
	MPU      uint32 // bytes of the shortest frame of the line
	RTT      uint32 // µs
	Ingress  bool   // what is dropped has already passed the line
}

// Attributes (TCA_CAKE_).
const (
	cakeRate     = 2
	cakeDiffserv = 3
	cakeATM      = 4
	cakeFlows    = 5
	cakeOverhead = 6
	cakeRTT      = 7
	cakeTarget   = 8
	cakeNAT      = 11
	cakeMPU      = 14
	cakeIngress  = 15
)

// targetShare is which part of the round-trip time a queue may be long.
const targetShare = 20

func flag(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// attributes are kind and options.
func (c Cake) attributes() []byte {
	o := nlmsg.AppendAttr(nil, cakeRate, native.AppendUint64(nil, c.Rate))
	for _, a := range []struct {
		kind  uint16
		value uint32
	}{
		{cakeDiffserv, uint32(c.Diffserv)}, {cakeATM, uint32(c.Cells)}, {cakeFlows, uint32(c.Flows)}, {cakeOverhead, uint32(c.Overhead)},
		{cakeRTT, c.RTT}, {cakeTarget, max(c.RTT/targetShare, 1)}, {cakeNAT, flag(c.NAT)}, {cakeMPU, c.MPU}, {cakeIngress, flag(c.Ingress)},
	} {
		o = nlmsg.AppendAttr32(o, a.kind, a.value)
	}
	return nlmsg.AppendAttr(nlmsg.AppendAttr(nil, attrKind, []byte("cake\x00")), attrOptions|unix.NLA_F_NESTED, o)
}

func decodeCake(options []byte) (c Cake) {
	for kind, value := range nlmsg.Attributes(options) {
		switch kind {
		case cakeRate:
			c.Rate = number64(value)
		case cakeDiffserv:
			c.Diffserv = CakeDiffserv(number(value))
		case cakeATM:
			c.Cells = CakeCells(number(value))
		case cakeFlows:
			c.Flows = CakeFlows(number(value))
		case cakeOverhead:
			c.Overhead = int32(number(value))
		case cakeRTT:
			c.RTT = number(value)
		case cakeNAT:
			c.NAT = number(value) != 0
		case cakeMPU:
			c.MPU = number(value)
		case cakeIngress:
			c.Ingress = number(value) != 0
		}
	}
	return c
}

// SetCake has a link send through cake, with Minne's mark. One with the mark is changed in place, and loses no packet;
// any other discipline is replaced.
func SetCake(link int, c Cake, inPlace bool) error {
	flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_REPLACE)
	if inPlace {
		flags = 0
	}
	return request(unix.RTM_NEWQDISC, flags, link, OwnHandle, Root, c.attributes())
}

// LacksCake says whether the kernel has no cake.
func LacksCake() (bool, error) { return Lacks("cake") }

// Tin is what cake has counted for one priority. Delays are of packets in the queue: the longest of late, their average,
// and the shortest, which few flows that do not fill the line have.
type Tin struct {
	Bytes, Packets  uint64
	Dropped, Marked uint32 // packets
	Waiting         uint32 // bytes
	Threshold       uint64 // bytes/s that it may have before it yields to others
	Peak, Average   uint32 // µs
	Base            uint32 // µs
	Sparse, Bulk    uint32 // flows now: such that do not fill the line, and such that do
	Unresponsive    uint32 // flows now that do not slow down when packets are dropped
}

// Attributes of counters (TCA_CAKE_STATS_, TCA_CAKE_TIN_STATS_).
const (
	cakeTins = 10

	tinPackets      = 2
	tinBytes        = 3
	tinDropped      = 4
	tinMarked       = 8
	tinWaiting      = 11
	tinThreshold    = 12
	tinPeak         = 18
	tinAverage      = 19
	tinBase         = 20
	tinSparse       = 21
	tinBulk         = 22
	tinUnresponsive = 23
)

func decodeTins(app []byte) (tins []Tin) {
	for kind, list := range nlmsg.Attributes(app) {
		if kind != cakeTins {
			continue
		}
		for _, one := range nlmsg.Attributes(list) {
			tins = append(tins, decodeTin(one))
		}
	}
	return tins
}

func decodeTin(b []byte) (t Tin) {
	for kind, value := range nlmsg.Attributes(b) {
		switch kind {
		case tinPackets:
			t.Packets = uint64(number(value))
		case tinBytes:
			t.Bytes = number64(value)
		case tinDropped:
			t.Dropped = number(value)
		case tinMarked:
			t.Marked = number(value)
		case tinWaiting:
			t.Waiting = number(value)
		case tinThreshold:
			t.Threshold = number64(value)
		case tinPeak:
			t.Peak = number(value)
		case tinAverage:
			t.Average = number(value)
		case tinBase:
			t.Base = number(value)
		case tinSparse:
			t.Sparse = number(value)
		case tinBulk:
			t.Bulk = number(value)
		case tinUnresponsive:
			t.Unresponsive = number(value)
		}
	}
	return t
}
