// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/dump"
)

// Details are what show interfaces NAME tells beside an Interface.
type Details struct {
	Queueing       string          `json:"queueing,omitempty"` // the queueing discipline: noqueue, fq_codel …
	ReceiveQueues  int             `json:"receive_queues,omitempty"`
	TransmitQueues int             `json:"transmit_queues,omitempty"`
	Offloads       map[string]bool `json:"offloads"` // what the device does for the kernel: on or off
	Counted        []Counted       `json:"counted"`  // kinds of errors, and what else the device counts, above 0
}

// Counted is a counter of a link with its name as `ip -s -s link` has it.
type Counted struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
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
	tool, err := newEthtool()
	if err != nil {
		return d, err
	}
	defer tool.close()
	for _, o := range offloads {
		if on, ok := tool.on(name, o); ok {
			d.Offloads[o.name] = on
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

// offload is something that ethtool can ask whether it is on: by a command of its
// own, or by a bit of the answer to ETHTOOL_GFLAGS.
type offload struct {
	name    string
	command uint32
	bit     uint32
}

// offloads in the words of `ethtool -k`; bits are enum ethtool_flags of include/uapi/linux/ethtool.h.
var offloads = []offload{
	{"rx-checksumming", unix.ETHTOOL_GRXCSUM, 1}, {"tx-checksumming", unix.ETHTOOL_GTXCSUM, 1},
	{"scatter-gather", unix.ETHTOOL_GSG, 1}, {"tcp-segmentation-offload", unix.ETHTOOL_GTSO, 1},
	{"generic-segmentation-offload", unix.ETHTOOL_GGSO, 1}, {"generic-receive-offload", unix.ETHTOOL_GGRO, 1},
	{"large-receive-offload", unix.ETHTOOL_GFLAGS, 1 << 15},
	{"rx-vlan-offload", unix.ETHTOOL_GFLAGS, 1 << 8}, {"tx-vlan-offload", unix.ETHTOOL_GFLAGS, 1 << 7},
}

// on asks the device; not ok when it does not answer.
func (e ethtool) on(name string, o offload) (on, ok bool) {
	request := struct{ command, value uint32 }{command: o.command}
	ok = e.ioctl(name, unsafe.Pointer(&request))
	return request.value&o.bit != 0, ok
}
