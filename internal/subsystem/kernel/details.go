// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"

	"minne/internal/base/dump"
	"minne/internal/base/ethtool"
)

// Details are what show interfaces NAME tells beside an Interface.
type Details struct {
	Queueing       string            `json:"queueing,omitempty"` // the queueing discipline: noqueue, fq_codel …
	ReceiveQueues  int               `json:"receive_queues,omitempty"`
	TransmitQueues int               `json:"transmit_queues,omitempty"`
	Offloads       map[string]bool   `json:"offloads"` // what the device does for the kernel: on or off
	Hardware       []HardwareSetting `json:"hardware"` // what the driver lets be set, as it is
	Counted        []Counted         `json:"counted"`  // kinds of errors, and what else the device counts, above 0
}

// Counted is a counter of a link with its name as `ip -s -s link` has it.
type Counted struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// HardwareSetting is a number that a driver keeps, by the name that ethtool prints; a switch is 0 or 1.
type HardwareSetting struct {
	Name  ethtool.Setting `json:"name"`
	Value int             `json:"value"`
	Most  int             `json:"most,omitempty"` // 0 where the driver does not say
}

// Details reads more of one link.
func (k *Kernel) Details(_ context.Context, name string) (Details, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return Details{}, fmt.Errorf("read link %s: %w", name, err)
	}
	a := link.Attrs()
	d := Details{ReceiveQueues: a.NumRxQueues, TransmitQueues: a.NumTxQueues, Offloads: map[string]bool{}}
	if s := a.Statistics; s != nil {
		d.Counted = countedOf((*netlink.LinkStatistics64)(s))
	}
	disciplines, err := dump.Whole(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(link) })
	if err != nil {
		return d, fmt.Errorf("read the queues of %s: %w", name, err)
	}
	for _, q := range disciplines {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			d.Queueing = q.Type()
		}
	}
	tool, err := ethtool.Open()
	if err != nil {
		return d, err
	}
	defer tool.Close()
	for _, o := range ethtool.Offloads {
		if on, err := tool.On(name, o); err == nil {
			d.Offloads[o.Name] = on
		}
	}
	for _, s := range ethtool.Settings {
		if now, most, err := tool.Get(name, s); err == nil {
			d.Hardware = append(d.Hardware, HardwareSetting{s, now, most})
		}
	}
	return d, nil
}

// countedOf are the counters above 0 of those that say why.
func countedOf(s *netlink.LinkStatistics64) []Counted {
	all := []Counted{
		{"received by multicast", s.Multicast}, {"collisions", s.Collisions},
		{"receive: wrong length", s.RxLengthErrors}, {"receive: checksum of the frame (CRC)", s.RxCrcErrors},
		{"receive: alignment", s.RxFrameErrors}, {"receive: ring full", s.RxOverErrors},
		{"receive: FIFO overrun", s.RxFifoErrors}, {"receive: missed", s.RxMissedErrors},
		{"transmit: aborted", s.TxAbortedErrors}, {"transmit: carrier lost", s.TxCarrierErrors},
		{"transmit: FIFO underrun", s.TxFifoErrors}, {"transmit: heartbeat", s.TxHeartbeatErrors}, {"transmit: window", s.TxWindowErrors},
	}
	return slices.DeleteFunc(all, func(c Counted) bool { return c.Count == 0 })
}
