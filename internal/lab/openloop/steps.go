// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"context"
	"time"

	"minne/internal/lab/traffic"
	"minne/internal/lab/trial"
)

// lookEvery is how often the counters are read while loads change: the resolution
// of Result.LastLoss.
const lookEvery = 2 * time.Millisecond

// AttemptSteps implements trial.Stepper. Between two loads the generator pauses
// for well under a millisecond.
func (r *Rig) AttemptSteps(ctx context.Context, loads []trial.Load) ([]trial.Result, error) {
	if err := r.hold(ctx); err != nil {
		return nil, err
	}
	if err := r.sink.ExpectStreams(r.expectations()); err != nil {
		return nil, err
	}
	var results []trial.Result
	before, after := map[uint8]traffic.Arrived{}, map[uint8]uint64{}
	for i, load := range loads {
		step := trial.Result{Load: load, Started: time.Now()}
		watch := r.watchLosses(received(before))
		sent, err := r.send(ctx, load, after)
		lastLoss := watch.stop()
		if err != nil {
			return results, err
		}
		for id, n := range sent.PerStream {
			after[id] += n
		}
		read := func(context.Context) (map[uint8]traffic.Arrived, error) { return r.read() }
		if i == len(loads)-1 {
			read = r.drain
		}
		now, err := read(ctx)
		if err != nil {
			return results, err
		}
		r.fill(&step, sent, between(before, now))
		if step.Lost() > 0 {
			step.LastLoss = lastLoss
		}
		results = append(results, step)
		before = now
	}
	return results, ctx.Err()
}

// between returns what arrived after an earlier reading.
func between(before, now map[uint8]traffic.Arrived) map[uint8]traffic.Arrived {
	out := map[uint8]traffic.Arrived{}
	for id, a := range now {
		b := before[id]
		a.Received -= b.Received
		a.Duplicated -= b.Duplicated
		a.Reordered -= b.Reordered
		a.Corrupted -= b.Corrupted
		a.BadTTL -= b.BadTTL
		a.BadHeader -= b.BadHeader
		a.BadMAC -= b.BadMAC
		a.Bytes -= b.Bytes
		a.Latency.Subtract(&b.Latency)
		out[id] = a
	}
	return out
}

func received(arrived map[uint8]traffic.Arrived) (n uint64) {
	for _, a := range arrived {
		n += a.Received
	}
	return n
}

// losses watches a step for the time of its last loss.
type losses struct {
	done, gone chan struct{}
	last       time.Duration
}

// underway is how many frames may be on their way through the device without being lost.
const underway = 512

// watchLosses looks, every now and then, how many frames are missing. That number
// may only grow by losses; what is under way makes it waver.
func (r *Rig) watchLosses(before uint64) *losses {
	w := &losses{done: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(w.gone)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		begun, most := time.Now(), uint64(0)
		for {
			select {
			case <-w.done:
				return
			case <-tick.C:
			}
			arrived, err := r.read()
			sent := r.sentSoFar()
			if err != nil {
				continue
			}
			got := received(arrived) - before
			if got+underway < sent && sent-got-underway > most {
				most, w.last = sent-got-underway, time.Since(begun)
			}
		}
	}()
	return w
}

func (w *losses) stop() time.Duration {
	close(w.done)
	<-w.gone
	return w.last
}
