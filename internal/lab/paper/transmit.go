// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"errors"

	"minne/internal/lab/device"
	"minne/internal/lab/measure"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
)

// How fast a machine sends when it does nothing else: the two slides "TX
// performance" of the talk about 10 Gbit/s, which exercise bus and memory with
// frames of 1500 bytes and latencies with frames of 64.

// Rows of transmit.
const (
	tx64Port   = "64 B, one processor to one port"
	tx1500Port = "1500 B, one processor to one port"
	tx64All    = "64 B, all processors, each to a queue of its own"
	tx1500All  = "1500 B, all processors, each to a queue of its own"
)

var transmit = Preset{
	Name:      "tx",
	Short:     "sending alone: 10 Mpps of 64 B, 25.8 Gbit/s of 1500 B on 4 ports",
	Source:    "Open Source Router @ 10g, slides \"TX performance\" (four 10 Gbit/s interfaces, two dual-core Opteron 2222)",
	QuickTime: "30 s", Time: "2 min",
	Comparable: "how the rate grows from one sender to several, if the slides' four ports, which had equal shares, would each have sent as much alone; that the slides don't say.",
	Not: "the rates as such: pktgen wrote frames once and had cards fetch them from memory, over a bus that was the limit; the lab's generator writes the headers of every frame again, with its number and checksum, and " +
		"gives it to a veth port, which has no bus and no line rate. \"All processors\" sends, receives and counts on each of them, so that is less than sending alone. Sizes count the FCS here; the slides do not specify that.",
	rows: []result.PaperRow{
		number(tx64All, "Mpps", 10), number(tx1500All, "Gbit/s", 25.8),
		said(tx64Port, "Mpps", "10 on four ports, fairly distributed"), said(tx1500Port, "Gbit/s", "25.8 on four ports, fairly distributed"),
	},
	run: runTransmit,
}

func runTransmit(ctx context.Context, e *experiment) (err error) {
	rows := map[int]struct {
		port, all string
		factor    float64
	}{64: {tx64Port, tx64All, toMega}, 1500: {tx1500Port, tx1500All, megabits(1500) * 1e-3}}
	cpus, err := e.severalProcessors("four interfaces of 10 Gbit/s", tx64All, tx1500All)
	if err != nil {
		return err
	}
	traffic := []pattern.Pattern{words("one-flow size=64"), words("one-flow size=1500")}
	cable := device.Spec{Kind: device.None}
	p, err := e.plan([]device.Spec{cable}, traffic, measure.Method{Name: "sending alone", Run: func(ctx context.Context, t *measure.Target) error {
		found, err := e.mrr(ctx, t, 0)
		if err == nil {
			row := rows[t.Subject.FrameSize]
			e.found(row.port, exactly(found.Offered*row.factor))
		}
		return err
	}})
	if err == nil {
		err = p.Run(ctx, e.session)
	}
	if err != nil || len(cpus) == 0 {
		return err
	}
	all, err := newParallel(ctx, e.means, cable, cpus)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	for _, one := range traffic {
		g, err := e.grow(ctx, all, "sending alone", one)
		if row := rows[one.FrameSize()]; len(g.all) > 0 {
			e.found(row.all, scaled(g.sent(), row.factor))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sent are the rates sent by all processors.
func (g grown) sent() (rates []float64) {
	for _, p := range g.all {
		rates = append(rates, p.sent)
	}
	return rates
}
