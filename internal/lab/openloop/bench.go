// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"minne/internal/lab/traffic"
	"minne/internal/lab/trial"
)

// Times around a trial.
const (
	drainQuiet  = 30 * time.Millisecond // nothing has arrived for so long: the device is empty
	drainLimit  = 2 * time.Second       // RFC 2544 section 23: residual frames are waited for at most so long
	interrupted = 50 * time.Microsecond // the generator could not send for so long: a gap, unless it is caught up
	seriesFrom  = 10 * time.Second      // trials of at least so long have a time series
	seriesEvery = 1 * time.Second       // its interval
	slowRate    = 50_000                // frames per second, up to which every frame is sent by itself
	slowBatch   = 1                     // frames per turn then
)

// What a generator that was held up may send at once to make up for it, in frames:
// half of what a veth port's ring holds, and no more than routers' buffers are made
// for. Processors of a shared machine are away for some 50 to 100 µs many times a
// second; without this every such moment would be a loss of frames never sent.
const (
	catchUpFrames  = 128
	longestCatchUp = time.Millisecond
)

// catchUp is the time of those frames at a rate in frames per second.
func catchUp(rate float64) time.Duration {
	return min(longestCatchUp, time.Duration(catchUpFrames/rate*float64(time.Second)))
}

// stream is what the bench knows of one stream of its traffic.
type stream struct {
	name string
	from int // side that sends: 0 is left
	lane int
}

// side is a port of the tester.
type side struct {
	name    string
	index   int
	mac     net.HardwareAddr
	nextHop net.HardwareAddr // where frames sent from here go: the device's port, or the other side
}

// Attempt implements trial.Bench.
func (r *Rig) Attempt(ctx context.Context, load trial.Load) (trial.Result, error) {
	if err := r.hold(ctx); err != nil {
		return trial.Result{}, err
	}
	if err := r.sink.ExpectStreams(r.expectations()); err != nil {
		return trial.Result{}, err
	}
	result := trial.Result{Load: load, Started: time.Now()}
	busy, before := busyTime(), r.deviceHeld()
	series := r.startSeries(load)
	trial.Sending(ctx)
	sent, err := r.send(ctx, load, nil)
	result.Series = series.stop()
	if err != nil {
		return result, err
	}
	result.CPU = busyTime() - busy
	arrived, err := r.drain(ctx)
	if err != nil {
		return result, err
	}
	r.fill(&result, sent, arrived)
	if result.Elapsed > 0 && result.Sent > result.Received {
		rate := float64(result.Sent) / result.Elapsed.Seconds()
		result.Void = excuse(result.Sent-result.Received, rate, r.deviceHeld().since(before))
	}
	return result, ctx.Err()
}

// order is what the generator of a lane is told: its share of the load, see send.
func (r *Rig) order(load trial.Load, lane int, after map[uint8]uint64) traffic.Order {
	lanes := uint64(len(r.generators))
	o := traffic.Order{
		Routes: map[uint8]traffic.Route{}, TTL: 64, Rate: load.Rate / float64(lanes), Duration: load.Duration,
		Timed: r.timed, Filled: true, OwnTime: r.ownTime, Gap: interrupted, After: after,
	}
	if o.Rate > 0 {
		o.Burst = catchUp(o.Rate)
		o.Gap = max(interrupted, o.Burst)
	}
	if load.Frames > 0 {
		o.Duration = 0
		o.Frames = load.Frames / lanes
		if uint64(lane) < load.Frames%lanes {
			o.Frames++
		}
	}
	if o.Rate > 0 && o.Rate <= slowRate {
		o.Batch = slowBatch
	}
	for id, s := range r.streams {
		if s.lane == lane {
			from := r.sides[s.from]
			o.Routes[id] = traffic.Route{Port: from.index, From: from.mac, To: from.nextHop}
		}
	}
	return o
}

// send runs the generators, each on its processor. after is what streams have sent
// since the sink was last cleared.
func (r *Rig) send(ctx context.Context, load trial.Load, after map[uint8]uint64) (traffic.Sent, error) {
	sent, errs := make([]traffic.Sent, len(r.generators)), make([]error, len(r.generators))
	var lanes sync.WaitGroup
	for lane, g := range r.generators {
		o := r.order(load, lane, after)
		if load.Frames > 0 && o.Frames == 0 {
			continue
		}
		lanes.Go(func() {
			errs[lane] = r.inTester(func() (err error) {
				runtime.LockOSThread()                                   // for good: the thread's priority is its own
				if err := pin(0, r.place.generators[lane]); err != nil { // 0 is the calling thread
					return fmt.Errorf("generator: %w", err)
				}
				sent[lane], err = g.Run(ctx, o)
				return err
			})
		})
	}
	lanes.Wait()
	return together(sent), errors.Join(errs...)
}

// together adds up what lanes have sent at the same time.
func together(lanes []traffic.Sent) traffic.Sent {
	sum := traffic.Sent{PerStream: map[uint8]uint64{}}
	for _, s := range lanes {
		sum.Frames += s.Frames
		sum.Elapsed = max(sum.Elapsed, s.Elapsed)
		sum.Gaps += s.Gaps
		sum.GapTime += s.GapTime / time.Duration(len(lanes)) // of the whole tester's time
		for id, n := range s.PerStream {
			sum.PerStream[id] += n
		}
	}
	return sum
}

// sentSoFar tells while the generators run.
func (r *Rig) sentSoFar() (frames uint64) {
	for _, g := range r.generators {
		frames += g.Progress().Frames
	}
	return frames
}

// expectations are what the sink must find in every stream. Of a replay it expects
// none: frames of the lab's own in a capture are counted like all others.
func (r *Rig) expectations() map[uint8]traffic.Expect {
	out := map[uint8]traffic.Expect{}
	if r.replay {
		return out
	}
	for id, s := range r.streams {
		to := r.sides[1-s.from]
		out[id] = traffic.Expect{TTL: 64 - uint8(r.hops), MAC: to.mac, MACBytes: r.macBytes, Timed: r.timed, Filled: true}
	}
	return out
}

// drain waits until nothing more arrives and reads the counters.
func (r *Rig) drain(ctx context.Context) (map[uint8]traffic.Arrived, error) {
	limit := time.Now().Add(drainLimit)
	last, since := uint64(0), time.Now()
	for {
		arrived, err := r.read()
		if err != nil {
			return nil, err
		}
		total := uint64(0)
		for _, a := range arrived {
			total += a.Received + a.Duplicated
		}
		now := time.Now()
		if total != last {
			last, since = total, now
		}
		if now.Sub(since) >= r.quiet || now.After(limit) {
			return arrived, nil
		}
		select {
		case <-ctx.Done():
			return arrived, nil
		case <-time.After(drainQuiet / 6):
		}
	}
}

// read returns what has arrived. Frames of a capture are known by the port alone.
func (r *Rig) read() (map[uint8]traffic.Arrived, error) {
	if !r.replay {
		return r.sink.Read()
	}
	others, err := r.sink.Others()
	if err != nil {
		return nil, err
	}
	got := others[r.sides[1].index]
	return map[uint8]traffic.Arrived{captured: {Received: got.Frames, Bytes: got.Bytes}}, nil
}

// fill turns counters into a result.
func (r *Rig) fill(t *trial.Result, sent traffic.Sent, arrived map[uint8]traffic.Arrived) {
	t.Elapsed, t.Sent, t.Gaps, t.GapTime = sent.Elapsed, sent.Frames, sent.Gaps, sent.GapTime
	switch {
	case t.Load.Frames > 0:
		t.Intended = t.Load.Frames
	case t.Load.Rate > 0:
		t.Intended = uint64(t.Load.Rate*t.Load.Duration.Seconds() + 0.5)
	default:
		t.Intended = sent.Frames
	}
	t.Intended = max(t.Intended, t.Sent) // the gate's granularity: one frame more is not a mistake
	ids := make([]uint8, 0, len(r.streams))
	for id := range r.streams {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		a := arrived[id]
		t.Received += a.Received
		t.Duplicated += a.Duplicated
		t.Reordered += a.Reordered
		t.Corrupted += a.Corrupted
		t.BadTTL += a.BadTTL
		t.BadHeader += a.BadHeader + a.BadLength
		t.BadMAC += a.BadMAC
		t.Latency.Add(&a.Latency)
		t.Silence = max(t.Silence, a.LongestSilence)
		t.Streams = append(t.Streams, trial.Stream{
			ID: int(id), Name: r.streams[id].name, Sent: sent.PerStream[id], Received: a.Received,
			Duplicated: a.Duplicated, Reordered: a.Reordered, Corrupted: a.Corrupted,
			BadTTL: a.BadTTL, BadHeader: a.BadHeader + a.BadLength, BadMAC: a.BadMAC, Bytes: a.Bytes, Latency: a.Latency,
		})
	}
}

// errNotSent is a generator that does nothing.
var errNotSent = errors.New("the generator sent nothing: is the port up, and does its other end take redirected frames?")

// MaxRate returns how many frames per second the tester sends by itself, whatever becomes of them.
func (r *Rig) MaxRate(ctx context.Context) (float64, error) {
	var best float64
	for range 3 {
		t, err := r.Attempt(ctx, trial.Load{Duration: 200 * time.Millisecond})
		if err != nil {
			return 0, err
		}
		if t.Sent == 0 || t.Elapsed <= 0 {
			return 0, errNotSent
		}
		best = max(best, float64(t.Sent)/t.Elapsed.Seconds())
	}
	return best, nil
}

// Timed sets whether trials measure latency; stamping every frame costs the generator some speed.
func (r *Rig) Timed(on bool) { r.timed = on }
