// SPDX-License-Identifier: Apache-2.0

// Package iperf runs the client of iperf3 in a node of the lab and reads its report.
package iperf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Node is where the client runs.
type Node interface {
	Run(ctx context.Context, argv ...string) (string, error)
}

// Transfer is what one run of iperf3 did.
type Transfer struct {
	BitRate     float64 // payload that arrived, bits per second
	Back        float64 // the same of the other direction, when both were asked for
	Loss        float64 // share of datagrams that did not arrive; UDP only
	Retransmits int
}

// sum is a sum in iperf3's JSON.
type sum struct {
	Bits        float64 `json:"bits_per_second"`
	Retransmits int     `json:"retransmits"`
	Packets     float64 `json:"packets"`
	Lost        float64 `json:"lost_packets"`
}

// report is the part of iperf3's JSON that is read.
type report struct {
	Error string `json:"error"`
	End   struct {
		Sum      sum `json:"sum"` // UDP: what the server saw
		Sent     sum `json:"sum_sent"`
		Received sum `json:"sum_received"`
		Back     sum `json:"sum_received_bidir_reverse"`
	} `json:"end"`
}

// Client is how to run one.
type Client struct {
	From    Node
	Server  netip.Addr
	Seconds int           // how long to send
	Grace   time.Duration // how much longer the client may take
}

// Run sends with further arguments of iperf3. A server that starts, or that has not finished with the client before,
// refuses or is busy: it closes its socket between two clients. So a client knocks several times.
func (c Client) Run(ctx context.Context, args ...string) (Transfer, error) {
	argv := append([]string{"iperf3", "-J", "-c", c.Server.String(), "--connect-timeout", "3000", "-t", fmt.Sprint(c.Seconds)}, args...)
	for try := 1; ; try++ {
		t, err := c.once(ctx, argv)
		if err == nil || try == mostTries || !notReady(err) {
			return t, err
		}
		select {
		case <-ctx.Done():
			return Transfer{}, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// How often a client knocks at a server that isn't ready, and how long it waits in between.
const (
	mostTries = 10
	pause     = 200 * time.Millisecond
)

func notReady(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unable to connect") || strings.Contains(text, "server is busy")
}

func (c Client) once(ctx context.Context, argv []string) (Transfer, error) {
	limited, cancel := context.WithTimeout(ctx, time.Duration(c.Seconds)*time.Second+c.Grace)
	defer cancel()
	text, err := c.From.Run(limited, argv...)
	switch {
	case ctx.Err() != nil:
		return Transfer{}, ctx.Err()
	case limited.Err() != nil:
		return Transfer{}, fmt.Errorf("iperf3 did not end within %s of its time of %d s", c.Grace, c.Seconds)
	}
	return read(text, err)
}

// read reads what iperf3 printed, and how it ended.
func read(text string, ended error) (Transfer, error) {
	var r report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Transfer{}, errors.Join(ended, fmt.Errorf("iperf3's report: %w", err))
	}
	if r.Error != "" {
		return Transfer{}, fmt.Errorf("iperf3: %s", strings.TrimPrefix(r.Error, "error - "))
	}
	if ended != nil {
		return Transfer{}, ended
	}
	t := Transfer{BitRate: r.End.Received.Bits, Back: r.End.Back.Bits, Retransmits: r.End.Sent.Retransmits}
	if s := r.End.Sum; s.Packets > 0 {
		t.Loss = s.Lost / s.Packets
	}
	if t.BitRate <= 0 {
		return t, errors.New("nothing arrived")
	}
	return t, nil
}
