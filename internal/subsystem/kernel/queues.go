// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"slices"

	"minne/internal/base/affinity"
	"minne/internal/base/ethtool"
)

// PortQueues are the queues of a port.
type PortQueues struct {
	Port      string  `json:"port"`
	Queues    []Queue `json:"queues"`
	Imbalance float64 `json:"imbalance,omitempty"` // packets of the busiest receive queue, of what each has on average; 1 is even; absent: not counted

	Control *ControlTraffic `json:"control,omitempty"` // absent where no CPU is for control alone
}

// Queue is a pair of a receive and a transmit queue: which processors serve them, and what the driver has counted. Counters that
// a driver does not have are absent.
type Queue struct {
	Number          int     `json:"number"`
	ReceiveCPUs     []int   `json:"receive_cpus,omitempty"`  // that take its interrupt; absent for a device without interrupts
	TransmitCPUs    []int   `json:"transmit_cpus,omitempty"` // that send through it (XPS); absent: all
	ReceivePackets  *uint64 `json:"receive_packets,omitempty"`
	TransmitPackets *uint64 `json:"transmit_packets,omitempty"`
	ReceiveDrops    *uint64 `json:"receive_drops,omitempty"`
	TransmitDrops   *uint64 `json:"transmit_drops,omitempty"`
}

// Queues reads the queues of all ports, by name.
func (k *Kernel) Queues(ctx context.Context) ([]PortQueues, error) {
	interfaces, err := k.Interfaces(ctx)
	if err != nil {
		return nil, err
	}
	tool, err := ethtool.Open()
	if err != nil {
		return nil, err
	}
	defer tool.Close()
	list := []PortQueues{}
	for _, i := range interfaces {
		if !i.Port() {
			continue
		}
		p, err := k.queuesOf(tool, i.Name, i.Index)
		if err != nil {
			return nil, err
		}
		if p.Control, err = k.steered(i.Name, i.Index); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b PortQueues) int { return cmp.Compare(a.Port, b.Port) })
	return list, nil
}

// steered says where the control traffic of a configured port arrives.
func (k *Kernel) steered(name string, index int) (*ControlTraffic, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil || k.last.CPUs == nil {
		return nil, nil
	}
	online, err := k.system.online()
	if err != nil {
		return nil, err
	}
	for _, i := range k.last.Interfaces {
		if i.Name == name && i.Kind.Port {
			return k.round(*k.last).controlTraffic(&bound{DesiredInterface: i, link: &link{Index: index, Name: name}}, online)
		}
	}
	return nil, nil
}

func (k *Kernel) queuesOf(tool ethtool.Tool, name string, index int) (PortQueues, error) {
	p := PortQueues{Port: name, Queues: []Queue{}}
	counters, err := tool.Statistics(name)
	if err != nil {
		return p, err
	}
	receive, transmit := ethtool.ByQueue(counters)
	interrupts, err := k.system.interrupts(name, index)
	if err != nil {
		return p, err
	}
	senders, err := k.system.senders(name, index)
	if err != nil {
		return p, err
	}
	count, _, err := tool.Get(name, ethtool.Queues)
	if err != nil || count == 0 {
		count = max(1, len(senders))
	}
	for n := range count {
		q := Queue{Number: n, ReceivePackets: receive[n].Packets, TransmitPackets: transmit[n].Packets, ReceiveDrops: receive[n].Drops, TransmitDrops: transmit[n].Drops}
		for _, i := range interrupts {
			if i.Queue == n && i.Direction != affinity.Transmit {
				q.ReceiveCPUs = i.CPUs
			}
		}
		for _, s := range senders {
			if s.Queue == n {
				q.TransmitCPUs = s.CPUs
			}
		}
		p.Queues = append(p.Queues, q)
	}
	p.Imbalance = imbalance(p.Queues)
	return p, nil
}

// imbalance is how many times more the busiest receive queue got than each on average.
func imbalance(queues []Queue) float64 {
	var sum, most uint64
	for _, q := range queues {
		if q.ReceivePackets == nil {
			return 0
		}
		sum += *q.ReceivePackets
		most = max(most, *q.ReceivePackets)
	}
	if sum == 0 {
		return 0
	}
	return float64(most) * float64(len(queues)) / float64(sum)
}
