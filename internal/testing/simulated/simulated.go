// SPDX-License-Identifier: Apache-2.0

// Package simulated has devices that are formulas: searches and methods are tried
// out on them without packets, without root and without waiting. Time is virtual,
// so an hour of trials takes a few milliseconds.
//
// A device forwards Capacity frames per second and keeps Buffer frames for later;
// what exceeds both is lost. Noise takes from that, as it does from a router in
// software (RFC 9971 section 2.3 calls it the performance spectrum): Fade lowers
// the capacity of a trial as a whole, Spikes lose some frames of a trial.
//
// What chance decides depends on the seed, on the load in whole frames per second
// and on how many trials that load has had, and on nothing else (see chance.go).
// Two searches that try the same load for the n-th time see the same outcome,
// whatever each of them tried before; and another program can repeat it
// (scripts/mlrsearch-reference.py does).
package simulated

import (
	"context"
	"fmt"
	"math"
	"time"

	"minne/internal/lab/histogram"
	"minne/internal/lab/trial"
)

// Device is a device under test with the equipment around it. It implements
// trial.Bench and trial.Tester. The zero value of each field but Capacity takes
// nothing from the device. It is not safe for concurrent use.
type Device struct {
	Seed     uint64
	Capacity float64 // frames per second that it can forward
	Buffer   float64 // frames that it can keep for later

	// Noise.
	Fade       float64       // mean relative loss of capacity of a trial, exponentially distributed
	Tires      float64       // relative loss of capacity in trials that are long against TiresAfter
	TiresAfter time.Duration // 1 s when 0
	SpikeRate  float64       // spikes per second at Capacity, proportionally fewer at less load
	SpikeSize  float64       // frames that a spike loses: between half and one and a half of it
	Knee       float64       // relative width of the range around Capacity in which loss becomes likely, 0: none
	KneeLoss   float64       // share of frames that a trial loses when the knee strikes

	Delay   time.Duration // of every frame
	Jitter  time.Duration // mean of what is added to Delay, exponentially distributed
	Outages []Outage      // in the device's own time, see Now

	// What goes wrong with frames that it forwards, as shares of them.
	Duplicates, Reorders, Corrupts float64
	BadTTL, BadHeader, BadMAC      float64

	// The tester and its machine.
	TesterRate float64       // frames per second that the tester can send; 0 is any rate
	GapEvery   int           // every so many trials the machine takes the core away
	GapTime    time.Duration // for so long
	FrameCost  time.Duration // processor time of a frame
	Interval   time.Duration // of a series; 0 makes none

	now    time.Duration
	trials int
	seen   map[uint64]int // trials per load in whole frames per second
}

// Outage is a time in which nothing is forwarded.
type Outage struct{ From, For time.Duration }

// Drain is how much of the device's own time passes between two trials.
const Drain = 100 * time.Millisecond

// Now is the device's own time: that of all trials so far with their drains.
func (d *Device) Now() time.Duration { return d.now }

// Trials returns how many trials there were.
func (d *Device) Trials() int { return d.trials }

// Try makes the device a trial.Tester that never refuses a result.
func (d *Device) Try(ctx context.Context, load trial.Load) (trial.Result, error) {
	return d.Attempt(ctx, load)
}

// Attempt makes the device a trial.Bench.
func (d *Device) Attempt(ctx context.Context, load trial.Load) (trial.Result, error) {
	if err := ctx.Err(); err != nil {
		return trial.Result{}, err
	}
	rate := load.Rate
	if rate <= 0 {
		rate = d.TesterRate
	}
	if rate <= 0 || load.Frames == 0 && load.Duration <= 0 {
		return trial.Result{}, fmt.Errorf("simulated device: a load of %g frames per second for %v: expected a rate (or a device with TesterRate) and a duration or a number of frames",
			load.Rate, load.Duration)
	}
	trial.Sending(ctx)
	luck := d.luck(rate)
	result := trial.Result{Load: load, Started: time.Unix(0, 0).UTC().Add(d.now), Device: "simulated"}
	d.send(&result, rate)
	d.forward(&result, luck)
	d.spoil(&result)
	d.delay(&result)
	result.CPU = time.Duration(result.Sent) * d.FrameCost
	d.trials++
	if d.GapEvery > 0 && d.trials%d.GapEvery == 0 {
		result.Gaps, result.GapTime = 1, d.GapTime
	}
	d.series(&result)
	d.now += result.Elapsed + Drain
	return result, nil
}

// luck returns the chances of the next trial at a rate.
func (d *Device) luck(rate float64) chance {
	if d.seen == nil {
		d.seen = map[uint64]int{}
	}
	load := uint64(math.Round(rate))
	ordinal := d.seen[load]
	d.seen[load]++
	return chance{seed: d.Seed, load: load, ordinal: uint64(ordinal)}
}

// send fills in what the tester sends: a load in time, or a burst of frames.
func (d *Device) send(r *trial.Result, rate float64) {
	able := rate
	if d.TesterRate > 0 {
		able = min(able, d.TesterRate)
	}
	if r.Frames > 0 {
		r.Intended, r.Sent = r.Frames, r.Frames
		r.Elapsed = time.Duration(float64(r.Frames) / able * 1e9)
		return
	}
	r.Elapsed = r.Duration
	r.Intended = uint64(math.Round(rate * r.Duration.Seconds()))
	r.Sent = min(r.Intended, uint64(math.Round(able*r.Duration.Seconds())))
}

// forward fills in what comes back.
func (d *Device) forward(r *trial.Result, luck chance) {
	seconds, sent := r.Elapsed.Seconds(), float64(r.Sent)
	kept := sent - d.dark(r)
	kept = min(kept, d.capacity(seconds, luck)*seconds+d.Buffer)
	kept -= d.noise(sent/seconds, seconds, sent, luck)
	r.Received = uint64(max(0, math.Floor(kept+0.5)))
}

// capacity is what the device forwards in a trial of so many seconds, frames per second.
func (d *Device) capacity(seconds float64, luck chance) float64 {
	c := d.Capacity
	if d.Fade > 0 {
		c *= 1 - min(1, -d.Fade*math.Log(1-luck.draw(0)))
	}
	if d.Tires > 0 {
		after := 1.0
		if d.TiresAfter > 0 {
			after = d.TiresAfter.Seconds()
		}
		c *= 1 - d.Tires*(1-math.Exp(-seconds/after))
	}
	return c
}

// noise is how many frames a trial loses although there is capacity for them.
func (d *Device) noise(rate, seconds, sent float64, luck chance) (lost float64) {
	if d.SpikeRate > 0 && luck.draw(1) < 1-math.Exp(-d.SpikeRate*seconds*rate/d.Capacity) {
		lost += math.Floor(d.SpikeSize*(0.5+luck.draw(2)) + 0.5)
	}
	if d.Knee > 0 && luck.draw(3) < 1/(1+math.Exp((1-rate/d.Capacity)/d.Knee)) {
		lost += sent * d.KneeLoss
	}
	return lost
}

// dark is how many of the frames sent fall into outages; it fills in the longest silence.
func (d *Device) dark(r *trial.Result) float64 {
	total := time.Duration(0)
	for _, o := range d.Outages {
		from, to := max(o.From, d.now), min(o.From+o.For, d.now+r.Elapsed)
		if to > from {
			total += to - from
			r.Silence = max(r.Silence, to-from)
		}
	}
	return float64(r.Sent) * total.Seconds() / r.Elapsed.Seconds()
}

// spoil fills in what is wrong with the frames that came back.
func (d *Device) spoil(r *trial.Result) {
	share := func(of float64) uint64 { return uint64(math.Round(of * float64(r.Received))) }
	r.Duplicated, r.Reordered, r.Corrupted = share(d.Duplicates), share(d.Reorders), share(d.Corrupts)
	r.BadTTL, r.BadHeader, r.BadMAC = share(d.BadTTL), share(d.BadHeader), share(d.BadMAC)
}

// delay fills in the latencies: slices of an exponential distribution, as many
// frames in each.
func (d *Device) delay(r *trial.Result) {
	const slices = 1000
	for i := range uint64(slices) {
		add := -math.Log(1-(float64(i)+0.5)/slices) * float64(d.Jitter)
		n := r.Received*(i+1)/slices - r.Received*i/slices
		r.Latency.AddBucket(histogram.Bucket(uint64(d.Delay+time.Duration(add))), n)
	}
}

// series divides a trial into intervals: outages fall where they belong, all
// other losses are spread evenly.
func (d *Device) series(r *trial.Result) {
	if d.Interval <= 0 {
		return
	}
	total := float64(r.Sent) - d.dark(r)
	for at := time.Duration(0); at < r.Elapsed; at += d.Interval {
		part := trial.Result{Elapsed: min(d.Interval, r.Elapsed-at)}
		share := part.Elapsed.Seconds() / r.Elapsed.Seconds()
		part.Sent = uint64(math.Round(float64(r.Sent) * share))
		lit := float64(part.Sent)
		d.now += at
		lit -= d.dark(&part)
		d.now -= at
		got := 0.0
		if total > 0 {
			got = math.Round(float64(r.Received) * lit / total)
		}
		r.Series = append(r.Series, trial.Point{At: at + part.Elapsed, Sent: part.Sent, Received: uint64(got), Latency: d.Delay})
	}
}
