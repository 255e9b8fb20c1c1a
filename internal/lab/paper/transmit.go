// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"

	"minne/internal/lab/device"
	"minne/internal/lab/measure"
	"minne/internal/lab/result"
)

// How fast a machine sends when it does nothing else: the two slides "TX
// performance" of the talk about 10 Gbit/s, which exercise bus and memory with
// frames of 1500 bytes and latencies with frames of 64.

// Rows of transmit.
const (
	tx64Port   = "64 B, one processor to one port"
	tx1500Port = "1500 B, one processor to one port"
	tx64All    = "64 B, all processors, each to a port of its own"
	tx1500All  = "1500 B, all processors, each to a port of its own"
)

var transmit = Preset{
	Name:      "tx",
	Short:     "sending alone: 10 Mpps of 64 B, 25.8 Gbit/s of 1500 B on 4 ports",
	Source:    "Open Source Router @ 10g, slides \"TX performance\" (four 10 Gbit/s interfaces, two dual-core Opteron 2222)",
	QuickTime: "20 s", Time: "1 min",
	Comparable: "that small frames are limited by their number and large ones by bytes; and what a port gets of the whole, since the slides say that the four had equal shares.",
	Not: "the rates as such: pktgen wrote frames once and had cards fetch them from memory, over a bus that was the limit; the lab's generator writes every frame anew with its number and checksums, and " +
		"gives it to a veth port, which has no bus and no line rate. \"All processors\" sends, receives and counts on each of them, so that is less than sending alone. Sizes count the FCS here; the slides don't say.",
	rows: []result.PaperRow{
		number(tx64All, "Mpps", 10), number(tx1500All, "Gbit/s", 25.8),
		said(tx64Port, "Mpps", "10 on four ports, fairly distributed"), said(tx1500Port, "Gbit/s", "25.8 on four ports, fairly distributed"),
	},
	run: runTransmit,
}

func runTransmit(ctx context.Context, e *experiment) error {
	cable := device.Spec{Kind: device.None}
	small, large := words("one-flow size=64"), words("one-flow size=1500")
	for _, c := range []struct {
		row    string
		factor float64
	}{{tx64Port, toMega}, {tx1500Port, megabits(1500) * 1e-3}} {
		traffic := small
		if c.row == tx1500Port {
			traffic = large
		}
		p, err := e.plan([]device.Spec{cable}, one(traffic), measure.Method{Name: "sending alone", Run: func(ctx context.Context, t *measure.Target) error {
			found, err := e.mrr(ctx, t, 0)
			if err == nil {
				e.found(c.row, exactly(found.Offered*c.factor))
			}
			return err
		}})
		if err == nil {
			err = p.Run(ctx, e.session)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
