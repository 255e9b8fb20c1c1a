// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"fmt"
	"strings"
	"testing"
)

// Counters in the words of drivers.
func TestByQueue(t *testing.T) {
	for driver, c := range map[string]struct {
		counters map[string]uint64
		want     string
	}{
		"igb":    {map[string]uint64{"rx_packets": 9, "rx_queue_0_packets": 5, "rx_queue_0_bytes": 700, "rx_queue_0_drops": 2, "tx_queue_1_packets": 3}, "rx0 5/700/2 tx1 3/-/-"},
		"virtio": {map[string]uint64{"rx0_packets": 8, "rx0_xdp_packets": 6, "rx0_drops": 1, "rx0_xdp_drops": 2, "tx0_packets": 4}, "rx0 8/-/3 tx0 4/-/-"},
		"i40e":   {map[string]uint64{"rx-1.packets": 7, "tx-0.bytes": 60, "port.rx_dropped": 9}, "rx1 7/-/- tx0 -/60/-"},
		"ena":    {map[string]uint64{"queue_0_rx_cnt": 7, "queue_0_rx_bytes": 60}, "rx0 7/60/-"},
		"bnxt":   {map[string]uint64{"[0]: rx_ucast_packets": 7, "[0]: tx_ucast_packets": 6}, "rx0 7/-/- tx0 6/-/-"},
		"veth":   {map[string]uint64{"peer_ifindex": 3, "rx_queue_0_xdp_packets": 7, "rx_queue_0_xdp_bytes": 60, "rx_queue_0_drops": 0, "tx_queue_0_xdp_xmit": 2}, "rx0 7/60/0 tx0 2/-/-"},
		"none":   {nil, ""},
	} {
		receive, transmit := ByQueue(c.counters)
		got := ""
		for q := range 3 {
			got += words("rx", q, receive)
		}
		for q := range 3 {
			got += words("tx", q, transmit)
		}
		if got = strings.TrimSpace(got); got != c.want {
			t.Errorf("%s: %q, want %q", driver, got, c.want)
		}
	}
}

func words(way string, queue int, of map[int]Counted) string {
	c, ok := of[queue]
	if !ok {
		return ""
	}
	text := fmt.Sprint(way, queue, " ")
	for i, n := range []*uint64{c.Packets, c.Bytes, c.Drops} {
		if i > 0 {
			text += "/"
		}
		if n == nil {
			text += "-"
		} else {
			text += fmt.Sprint(*n)
		}
	}
	return text + " "
}
