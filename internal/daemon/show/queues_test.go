// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"

	"minne/internal/subsystem/kernel"
)

// Queues with their CPUs, what went through them, how even that is, and where control traffic arrives.
func TestQueues(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	var b strings.Builder
	err := Queues(&b, QueuesView{Ports: []kernel.PortQueues{{
		Port: "lan", Imbalance: 1.5, Queues: []kernel.Queue{
			{Number: 0, ReceiveCPUs: []int{0}, TransmitCPUs: []int{0}, ReceivePackets: n(300), ReceiveDrops: n(7), TransmitPackets: n(20), TransmitDrops: n(0)},
			{Number: 1, ReceiveCPUs: []int{1}, ReceivePackets: n(100)},
		},
		Control: &kernel.ControlTraffic{Queue: 1, Steered: []string{"BGP", "SSH"}, Missing: []kernel.NotSteered{{Name: "ARP", Rule: "ether proto 0x0806", Why: "the card refuses the rule"}}},
	}, {
		Port: "wan", Queues: []kernel.Queue{{Number: 0}}, Control: &kernel.ControlTraffic{Queue: -1, Why: "its driver takes no rules"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `Port  Queue  RX CPU  RX packets  Share  RX drops  TX CPU  TX packets  TX drops
lan       0       0         300   75 %         7       0          20         0
lan       1       1         100   25 %         -     all           -         -
wan       0       -           -      -         -     all           -         -
lan: the busiest receive queue has 1.50 times the packets of an average one
lan: on queue 1, which CPU 1 serves: BGP, SSH
lan: ARP (ether proto 0x0806) arrives on any queue: the card refuses the rule
wan: control traffic has no queue of its own: its driver takes no rules
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}
