// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What Options stand for when they say nothing.
const (
	defaultWarmUp   = time.Second
	defaultSettle   = 100 * time.Millisecond
	defaultTries    = 4
	defaultGapShare = 0.01
)

// Options say how an Engine makes trials of a bench's attempts.
type Options struct {
	// WarmUp is how long the full load is offered once before the first trial; its
	// frames fill caches, neighbour tables and frequency governors and count for
	// nothing. 0 is one second, less than 0 is no warm-up.
	WarmUp time.Duration
	// MaxLoad is the rate of the warm-up in frames per second; 0 is as fast as the tester can.
	MaxLoad float64
	// Settle is how long the device rests between two trials, after the bench has
	// seen it empty. RFC 2544 section 23 asks for 5 s. 0 is 100 ms, less than 0 is none.
	Settle time.Duration
	// Tries is how often a load is offered until a trial counts; 0 is 4.
	Tries int
	// GapShare is the share of a trial's time that the machine may take away without
	// voiding it, 0…1; 0 is 0.01. See Engine for when less than that voids it too.
	GapShare float64
	// Record is told of every attempt: warm-ups, void trials, and those that fail.
	Record          func(Result)
	Traffic, Device string // written into every result
}

// Engine makes trials that can be trusted out of a bench's attempts. It is a
// Tester, and a Bench whose attempts are judged but not repeated.
//
// A trial is void when the bench says so, or when the machine took the generator's
// processor away (Result.Gaps, as all shared machines do) and that may be why
// frames are missing. It may be when
//   - no more frames were lost than could not be sent in the gaps, or
//   - the gaps took more than GapShare of the time: what was sent between them came
//     in a rhythm that nobody asked for, or
//   - the load was "as fast as you can" or a burst of so many frames, where gaps lower
//     the rate itself; there too from GapShare on.
//
// Any other trial that lost nothing in spite of gaps stands: the device has done all that was
// asked. One that lost more than gaps explain stands too: the device is at fault.
//
// A void trial is repeated. When every repetition is void, the one that lost the
// smallest share of its time to gaps is returned, with Void saying why, and is
// counted as disturbed; choosing by gaps and never by loss keeps the choice from
// favouring the device. It is used like any other, its unsent frames as lost: on a
// machine that is never quiet figures come out lower, not better, and the report
// can tell how many trials were disturbed.
//
// An Engine is not for concurrent use.
type Engine struct {
	bench   Bench
	options Options
	warm    bool
	busy    bool // an attempt was made: the device must settle before the next
	purpose string
	counts  Counts
}

// Counts says how it went so far.
type Counts struct {
	Trials    int // results returned
	Repeated  int // void trials that another one replaced
	Disturbed int // results returned although they are void
}

// NewEngine returns an engine for the bench.
func NewEngine(b Bench, o Options) *Engine {
	defaults(&o.WarmUp, defaultWarmUp)
	defaults(&o.Settle, defaultSettle)
	defaults(&o.Tries, defaultTries)
	defaults(&o.GapShare, defaultGapShare)
	o.Tries = max(1, o.Tries)
	return &Engine{bench: b, options: o}
}

func defaults[T comparable](value *T, standard T) {
	var none T
	if *value == none {
		*value = standard
	}
}

// Counts returns how many trials there were, and how many were disturbed.
func (e *Engine) Counts() Counts { return e.counts }

// Try implements Tester.
func (e *Engine) Try(ctx context.Context, load Load) (Result, error) {
	var best Result
	for n := range e.options.Tries {
		r, err := e.attempt(ctx, load)
		if err != nil {
			return r, err
		}
		if r.Void == "" {
			e.counts.Trials++
			e.counts.Repeated += n
			return r, nil
		}
		if n == 0 || r.gapShare() < best.gapShare() {
			best = r
		}
	}
	e.counts.Trials++
	e.counts.Repeated += e.options.Tries - 1
	e.counts.Disturbed++
	return best, nil
}

// Attempt implements Bench: one trial, judged but never repeated. It is for trials
// during which something happens that can't be repeated so easily.
func (e *Engine) Attempt(ctx context.Context, load Load) (Result, error) {
	r, err := e.attempt(ctx, load)
	if err == nil {
		e.count(r)
	}
	return r, err
}

// ErrNoSteps is the answer of a bench that can't change its load while it sends.
var ErrNoSteps = errors.New("this tester can't change its load without stopping")

// AttemptSteps implements Stepper when the bench does; otherwise it returns ErrNoSteps.
func (e *Engine) AttemptSteps(ctx context.Context, loads []Load) ([]Result, error) {
	stepper, ok := e.bench.(Stepper)
	if !ok {
		return nil, ErrNoSteps
	}
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	results, err := stepper.AttemptSteps(ctx, loads)
	if err != nil {
		return results, err
	}
	for i := range results {
		e.note(&results[i], e.purpose)
		if err := wrong(results[i]); err != nil {
			return results, err
		}
		e.count(results[i])
	}
	return results, sane(sum(results))
}

// sum is all steps as one trial: a frame that is under way when the load changes may
// be counted as sent in one step and as received in the next.
func sum(steps []Result) (all Result) {
	for _, s := range steps {
		all.Intended += s.Intended
		all.Sent += s.Sent
		all.Received += s.Received
	}
	return all
}

func (e *Engine) count(r Result) {
	e.counts.Trials++
	if r.Void != "" {
		e.counts.Disturbed++
	}
}

// attempt makes one trial on a device that is warm and at rest, and judges it.
func (e *Engine) attempt(ctx context.Context, load Load) (Result, error) {
	if err := e.ready(ctx); err != nil {
		return Result{}, err
	}
	r, err := e.bench.Attempt(ctx, load)
	if err != nil {
		return r, err
	}
	return r, e.evaluate(&r, e.purpose)
}

// ready warms the device up if that has not been done, else lets it settle.
func (e *Engine) ready(ctx context.Context) error {
	if !e.warm && e.options.WarmUp > 0 {
		r, err := e.bench.Attempt(OnSending(ctx, nil), Load{Rate: e.options.MaxLoad, Duration: e.options.WarmUp})
		if err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
		if err := e.evaluate(&r, "warm-up"); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	e.warm = true
	if !e.busy || e.options.Settle <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(e.options.Settle):
		return nil
	}
}

// evaluate notes a result, and says whether it can be one.
func (e *Engine) evaluate(r *Result, purpose string) error {
	e.note(r, purpose)
	return errors.Join(sane(*r), wrong(*r))
}

// note completes a result and records it.
func (e *Engine) note(r *Result, purpose string) {
	e.busy = true
	r.Purpose, r.Traffic, r.Device = purpose, e.options.Traffic, e.options.Device
	if r.Void == "" {
		r.Void = e.disturbed(*r)
	}
	if e.options.Record != nil {
		e.options.Record(*r)
	}
}

// disturbed says how gaps spoilt a trial; empty when they didn't. See Engine.
func (e *Engine) disturbed(r Result) string {
	many := r.gapShare() > e.options.GapShare
	kept := 0.0 // frames that could not be sent in gaps
	if r.Elapsed > 0 {
		kept = float64(r.Intended) * r.gapShare()
	}
	why := ""
	switch lost := r.Lost(); {
	case r.GapTime <= 0:
	case many && (r.Rate == 0 || r.Frames > 0):
		why = "which lowered the rate"
	case lost > 0 && float64(lost) <= kept:
		why = fmt.Sprintf("which explain the loss of %d frames", lost)
	case lost > 0 && many:
		why = fmt.Sprintf("which may be why %d frames were lost", lost)
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("the machine took the generator's processor away for %v in %d gaps, %s", r.GapTime, r.Gaps, why)
}

// gapShare is the share of the trial's time that gaps took; 1 when the bench voided
// it for another reason, so that any other trial is the better one.
func (r Result) gapShare() float64 {
	if r.Void != "" && r.GapTime == 0 || r.Elapsed <= 0 {
		return 1
	}
	return min(1, r.GapTime.Seconds()/r.Elapsed.Seconds())
}

// sane refuses counts that no trial can have: then the tester is broken.
func sane(r Result) error {
	switch {
	case r.Intended == 0:
		return fmt.Errorf("a load of %g frames per second for %v has no frame: expected a higher rate or a longer trial", r.Rate, r.Duration)
	case r.Sent == 0:
		return fmt.Errorf("the tester sent none of %d frames: is its port up?", r.Intended)
	case r.Received > r.Sent:
		return fmt.Errorf("the tester received %d frames and sent %d: frames of an earlier trial arrived late (let the device settle for longer), or another generator sends test frames",
			r.Received, r.Sent)
	}
	return nil
}

// Purpose says what the next trials are for: "search", "latency at 50 %".
func (e *Engine) Purpose(text string) { e.purpose = text }

// For tells a tester or bench what its next trials are for, if it keeps such notes as an Engine does.
func For(tester any, purpose string) {
	if t, ok := tester.(interface{ Purpose(string) }); ok {
		t.Purpose(purpose)
	}
}
