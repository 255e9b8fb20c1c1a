// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// transfer is what one run of iperf3 did.
type transfer struct {
	BitRate     float64 // payload that arrived, bits per second
	Back        float64 // the same of the other direction, when both were asked for
	Loss        float64 // share of datagrams that did not arrive; UDP only
	Retransmits int
}

// iperfSum is a sum in iperf3's JSON.
type iperfSum struct {
	Bits        float64 `json:"bits_per_second"`
	Retransmits int     `json:"retransmits"`
	Packets     float64 `json:"packets"`
	Lost        float64 `json:"lost_packets"`
}

// iperfReport is the part of iperf3's JSON that is read.
type iperfReport struct {
	Error string `json:"error"`
	End   struct {
		Sum      iperfSum `json:"sum"` // UDP: what the server saw
		Sent     iperfSum `json:"sum_sent"`
		Received iperfSum `json:"sum_received"`
		Back     iperfSum `json:"sum_received_bidir_reverse"`
	} `json:"end"`
}

// iperf runs the client for whole seconds.
func (n *Network) iperf(ctx context.Context, family string, seconds int, args ...string) (transfer, error) {
	server, ok := n.server[family]
	if !ok {
		return transfer{}, fmt.Errorf("the server has no %s address", family)
	}
	argv := append([]string{"iperf3", "-J", "-c", server.String(), "-p", fmt.Sprint(controlPort), "--connect-timeout", "3000", "-t", fmt.Sprint(seconds)}, args...)
	for try := 1; ; try++ {
		t, err := n.runIperf(ctx, seconds, argv)
		if err == nil || ctx.Err() != nil || try == mostTries || !notReady(err) {
			return t, err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// mostTries is how often a client knocks at a server that isn't ready.
const mostTries = 10

// notReady tells of a server that starts, or that hasn't finished with the client before: it then refuses or is busy.
func notReady(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unable to connect") || strings.Contains(text, "server is busy")
}

func (n *Network) runIperf(ctx context.Context, seconds int, argv []string) (transfer, error) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(seconds+10)*time.Second)
	defer cancel()
	text, err := n.client.Run(limited, argv...)
	switch {
	case ctx.Err() != nil:
		return transfer{}, ctx.Err()
	case limited.Err() != nil:
		return transfer{}, fmt.Errorf("iperf3 did not end within 10 s of its time of %d s", seconds)
	}
	return readTransfer(text, err)
}

// readTransfer reads what iperf3 printed, and how it ended.
func readTransfer(text string, ended error) (transfer, error) {
	var r iperfReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return transfer{}, errors.Join(ended, fmt.Errorf("iperf3's report: %w", err))
	}
	if r.Error != "" {
		return transfer{}, fmt.Errorf("iperf3: %s", strings.TrimPrefix(r.Error, "error - "))
	}
	if ended != nil {
		return transfer{}, ended
	}
	t := transfer{BitRate: r.End.Received.Bits, Back: r.End.Back.Bits, Retransmits: r.End.Sent.Retransmits}
	if sum := r.End.Sum; sum.Packets > 0 {
		t.Loss = sum.Lost / sum.Packets
	}
	if t.BitRate <= 0 {
		return t, errors.New("nothing arrived")
	}
	return t, nil
}
