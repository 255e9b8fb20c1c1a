// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"fmt"
	"math"

	"minne/internal/lab/device"
	"minne/internal/lab/measure"
	"minne/internal/lab/trial"
)

// Forwarding with a full table of 2008, a mix of sizes, and a flow load: the slide
// "Fully parallel router" of the talk about ten years in production. It states
// 6.2 Gbit/s and 960 kpps in one line, and both can't be: the mix has 622.8 bytes in
// the mean, so 960 kpps are 4.8 Gbit/s. Both are reported.
//
// The slide gives new flows per second (its route cache looked up the first packet
// of a flow only), not how long flows are. At 960 kpps, 31,000 new flows a second are
// one for every 31 packets, which agrees with the 2048@30 of the other talk. A
// router that forwards more gets longer flows here, so that new ones stay 31,000 a second.

// Rows of multiQueue.
const (
	mixPackets = "packet rate"
	mixBits    = "bit rate"
	newFlows   = "new flows"
	tableSize  = "routes"
	processors = "processors of the router"
)

const (
	slideRoutes = "ipv4:271064"
	slideFlows  = 31000 // new ones, per second
	slideRate   = 960e3 // frames per second
	// concurrent is how many flows there are at a time: the slide does not say, the other talk's load has so many.
	concurrent = 2048
)

var multiQueue = Preset{
	Name:      "multi-queue",
	Short:     "271,064 routes, mix of 64/576/1500 B, 31,000 new flows a second: 6.2 Gbit/s, 960 kpps",
	Source:    "Over 10 years in production, slide \"Fully parallel router, multi-queue breakthrough\" (Linux 2.6.27-rc2, ixgbe with patches, 2 of 4 cores of an AMD Barcelona, 2.3 GHz)",
	QuickTime: "1 min", Time: "2 min",
	Comparable: "that the same load is carried: as many routes, the same mix in the same shares, as many new flows a second. The rate per processor is a " +
		"fair account of what 18 years of hardware and software come to, all of it together.",
	Not: "the rates as such: the slide's router had two cores with a receive and a transmit queue of a 10 Gbit/s card each; here the router has one processor, and veth ports without " +
		"line rate. The slide's two rates contradict each other for its own mix (mean 622.8 B: 960 kpps would be 4.8 Gbit/s), so at most one of them is comparable. New flows are not what they were: " +
		"then only they were looked up in the table, now every packet is. The number of concurrent flows is not given; here 2,048. The table is a part of today's drawn by lot. " +
		"Sizes count the FCS here; the slide does not specify that.",
	rows: each(
		number(mixPackets, "kpps", 960), number(mixBits, "Gbit/s", 6.2), number(newFlows, "per second", 31000),
		number(tableSize, "IPv4 routes", 271064), number(processors, "", 2),
	),
	run: runMultiQueue,
}

// mixed is the load with flows of so many packets.
func mixed(packets int) string {
	return fmt.Sprintf("flows=%d@%d table=%s size=imix", concurrent, packets, slideRoutes)
}

func runMultiQueue(ctx context.Context, e *experiment) error {
	first := words(mixed(int(math.Round(slideRate / slideFlows))))
	for _, d := range routers {
		p, err := e.plan([]device.Spec{d}, one(first), measure.Method{Name: "flows of the right length", Run: func(ctx context.Context, t *measure.Target) error {
			return e.mix(ctx, d, t)
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

// mix finds the length of flows that makes the right number of new ones, and measures with it.
func (e *experiment) mix(ctx context.Context, d device.Spec, t *measure.Target) error {
	t.Rig.Timed(false)
	trial.For(t.Tester, "rate for the length of flows")
	guess, err := t.Tester.Try(ctx, trial.Load{Rate: t.MaxLoad, Duration: e.pace.trial})
	if err != nil {
		return err
	}
	packets := flowLength(guess.ForwardingRate())
	traffic := words(mixed(packets))
	if err := t.Rig.Load(traffic); err != nil {
		return err
	}
	t.Subject = traffic.Subject(t.Rig.Name())
	t.Tester = e.engine(t)
	found, err := e.mrr(ctx, t, t.MaxLoad)
	if err != nil {
		return err
	}
	e.found(of(d, mixPackets), scaled(found.Rates, toKilo))
	e.found(of(d, mixBits), scaled(found.Rates, megabits(t.Subject.MeanSize)*1e-3))
	e.found(of(d, newFlows), scaled(found.Rates, 1/float64(packets)))
	e.found(of(d, tableSize), exactly(float64(t.Rig.Facts().Routes4)))
	e.found(of(d, processors), exactly(1))
	return nil
}

// flowLength is how many packets a flow has so that at this rate, in frames per
// second, there are as many new flows as in the slide. A lap of the generator holds
// no more than it holds; then there are more new flows than that.
func flowLength(rate float64) int {
	const longest = 500
	return max(1, min(longest, int(math.Round(rate/slideFlows))))
}

// engine makes trials of what the target has loaded now.
func (e *experiment) engine(t *measure.Target) *trial.Engine {
	what := t.Subject.Traffic
	if t.Subject.FrameSize > 0 {
		what += fmt.Sprintf(", %d bytes", t.Subject.FrameSize)
	} else {
		what += ", " + t.Subject.Mix
	}
	return trial.NewEngine(t.Rig, trial.Options{Record: e.session.Record, WarmUp: e.pace.warmUp, MaxLoad: t.MaxLoad, Traffic: what, Device: t.Rig.Name()})
}
