// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"errors"
	"fmt"

	"minne/internal/lab/device"
	"minne/internal/lab/measure"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
)

// 2,048 flows at a time, each replaced after 30 packets, on one processor and on
// all: the slides "Routing performance comparison using one CPU, flow load" of the
// talk about 10 Gbit/s. Their surprise: four processors with multi-queue forwarded
// less than one, because all of them waited for the lock of the same transmit queue.

// Rows of flowLoad.
const (
	budget  = "one processor, one flow, 64 B"
	flowAll = "2048@30, 64 B: rate of all processors ÷ one"
)

// flowOne is the row of a size on one processor.
func flowOne(size int) string { return fmt.Sprintf("one processor, 2048@30, %d B", size) }

var flowSizes = []int{64, 512, 1500}

var flowLoad = Preset{
	Name:      "flow-load",
	Short:     "2048@30 on one processor and on all: about 900 kpps on one, less with four",
	Source:    "Open Source Router @ 10g, slides \"Routing performance comparison using one CPU\" and \"MultiQ vs no MultiQ 2048@30\" (Opteron 2222, Intel 10 Gbit/s cards)",
	QuickTime: "1 min", Time: "4 min",
	Comparable: "whether more processors forward more: the slides' router lost by them, with one transmit queue whose lock all processors contended for. And how much slower many short flows are than one, " +
		"on the same router.",
	Not: "the rates: about 900 kpps was the packet budget of an Opteron of 2007 with a card; here it is veth ports. Flow load then meant misses of the route cache, \"forcing hash and fib lookups\"; today's kernel looks every packet up. " +
		"On all processors each has queues of its own, and sends, routes and receives in turn (a closed loop): what they forward is compared with the same loop on one, and with nothing else here.",
	rows: each(append(append([]result.PaperRow{number(budget, "kpps", 900)}, flowRows()...),
		said(flowAll, "", "below 1: “Less performance with 4 CPU's!!”"))...),
	run: runFlowLoad,
}

func flowRows() (rows []result.PaperRow) {
	for _, size := range flowSizes {
		rows = append(rows, said(flowOne(size), "kpps", onlyDrawn))
	}
	return rows
}

func runFlowLoad(ctx context.Context, e *experiment) error {
	traffic := []pattern.Pattern{words("one-flow size=64")}
	for _, size := range flowSizes {
		traffic = append(traffic, words(fmt.Sprintf("flows=2048@30 size=%d", size)))
	}
	cpus, err := e.severalProcessors("four of the router alone", of(routers[0], flowAll), of(routers[1], flowAll))
	if err != nil {
		return err
	}
	for _, d := range routers {
		p, err := e.plan([]device.Spec{d}, traffic, e.greatestRate(func(t *measure.Target, found result.MRR) {
			row := flowOne(t.Subject.FrameSize)
			if t.Subject.Traffic == traffic[0].Traffic() {
				row = budget
			}
			e.found(of(d, row), scaled(found.Rates, toKilo))
		}))
		if err == nil {
			err = p.Run(ctx, e.session)
		}
		if err == nil && len(cpus) > 0 {
			err = e.flowsOnAll(ctx, d, cpus)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flowsOnAll measures what all processors forward against one.
func (e *experiment) flowsOnAll(ctx context.Context, d device.Spec, cpus []int) (err error) {
	p, err := newParallel(ctx, e.means, d, cpus)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	g, err := e.grow(ctx, p, d.String(), words("flows=2048@30 size=64"))
	if g.Rounds > 0 {
		e.found(of(d, flowAll), g.Ratio)
	}
	return err
}
