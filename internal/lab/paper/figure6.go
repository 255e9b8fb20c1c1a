// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"fmt"

	"minne/internal/lab/device"
	"minne/internal/lab/measure"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
)

// The rate against the frame size, beside what the wire could carry: Figure 6 and
// table 2 of the paper about the low-power router. Its sizes are "according to
// appendix B" of RFC 2544, which has 768 beside those of section 9.1, and traffic
// went both ways between two copper ports.

// Rows of figure6.
const (
	smallPackets = "packet rate, 64 B"
	dataRate     = "greatest data rate of all sizes"
	bothWays     = "data rate, 1514 B without FCS, both ways"
	calculated   = "data rate at 1500 B, calculated from the rate at 64 B"
)

var appendixB = []int{64, 128, 256, 512, 768, 1024, 1280, 1518}

// otherSize is the row of a size that is only in the graph.
func otherSize(size int) string { return fmt.Sprintf("packet rate, %d B", size) }

var figure6 = Preset{
	Name:      "figure6",
	Short:     "rate against frame size, with the theoretical line rate: 223 kpps of small packets, 1,860 Mbit/s",
	Source:    "On the Design of Affordable and Green High-Performance Routers for Community Networks, section 3.1: table 2, figure 6",
	QuickTime: "1 min", Time: "5 min",
	Comparable: "the shape: one packet rate for all small frames, where the processor is the limit, and above some size the line rate, " +
		"where the wire is. Rates are those of both directions together, as in the paper; bit rates count frames without FCS, as interface counters do.",
	Not: "the rates themselves. The paper's router was a fan-less Intel Atom board of 2009 with two gigabit ports of an Intel 82576, " +
		"between two other computers. Here generator, router and sink share one machine, each with a processor of its own at best, and the ports are veth pairs, " +
		"which have no line rate: so the right half of the figure, where the paper's router reached the wire, has no counterpart. " +
		"The paper does not give the size at which its 1,860 Mbit/s was reached; 2,650 is its calculation and was not measured.",
	rows: each(figure6Rows()...),
	run:  runFigure6,
}

func figure6Rows() []result.PaperRow {
	rows := []result.PaperRow{
		number(smallPackets, "kpps", 223), number(dataRate, "Mbit/s", 1860),
		number(bothWays, "Mbit/s", 1858), number(calculated, "Mbit/s", 2650),
	}
	for _, size := range appendixB[1:] {
		rows = append(rows, said(otherSize(size), "kpps", onlyDrawn))
	}
	return rows
}

func runFigure6(ctx context.Context, e *experiment) error {
	var traffic []pattern.Pattern
	for _, size := range e.pace.sizes {
		traffic = append(traffic, words(fmt.Sprintf("one-flow bidirectional size=%d", size)))
	}
	for _, d := range routers {
		var best result.Interval
		p, err := e.plan([]device.Spec{d}, traffic, e.greatestRate(func(t *measure.Target, found result.MRR) {
			size := t.Subject.FrameSize
			bits := scaled(found.Rates, megabits(t.Subject.MeanSize-fcs))
			if bits.Median > best.Median {
				best = bits
			}
			switch size {
			case 64:
				e.found(of(d, smallPackets), scaled(found.Rates, toKilo))
				e.found(of(d, calculated), scaled(found.Rates, megabits(1500)))
			case 1518:
				e.found(of(d, bothWays), bits)
			}
			if size != 64 {
				e.found(of(d, otherSize(size)), scaled(found.Rates, toKilo))
			}
			e.found(of(d, dataRate), best)
		}))
		if err == nil {
			err = p.Run(ctx, e.session)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fcs is the checksum behind every frame, bytes.
const fcs = 4
