// SPDX-License-Identifier: Apache-2.0

package method

import (
	"context"
	"fmt"
	"sync"
	"time"

	"minne/internal/lab/result"
	"minne/internal/lab/trial"
)

// ResetOptions say what happens to a device while it forwards.
type ResetOptions struct {
	Subject result.Subject
	Name    string                          // of the event: "daemon restart"
	Event   func(ctx context.Context) error // makes it happen and returns when it has been ordered
	Ready   func(ctx context.Context) error // waits until the device is itself again, before every repetition; may be nil
	Rate    float64                         // frames per second, one that the device forwards without loss
	Before  time.Duration                   // traffic before the event; 0 is 2 s
	After   time.Duration                   // traffic after it, longer than any outage; 0 is 30 s
	Repeat  int                             // 0 is 3
	// Progress is told before every repetition.
	Progress Progress
}

// Reset measures for how long an event stops forwarding (RFC 2544 section 26.6 with
// RFC 6201 section 1.3): a steady stream runs, the event happens in its midst, and
// both methods of the RFC are applied to the same stream:
//
//   - frame loss: frames lost ÷ rate. Two interruptions add up. Its resolution is 1 ÷ rate.
//   - time stamp: from the last arrival before the longest silence to the first after
//     it; 0 when nothing was lost, for frames that come late are no outage.
//
// They agree when the event interrupts once and completely; where the frame loss is less, the
// device forwarded some flows all along or never stopped for long. The frames that
// the tester could not send are not the device's and are left out.
//
// The bench makes one attempt for each event: an event is not repeated because the
// machine disturbed it.
func Reset(ctx context.Context, b trial.Bench, o ResetOptions) ([]result.Recovery, error) {
	if err := positive(o.Name, "the load", o.Rate); err != nil {
		return nil, err
	}
	loss := result.Recovery{Subject: o.Subject, Event: o.Name, Load: o.Rate, Method: "frame loss"}
	stamp := loss
	stamp.Method = "time stamp"
	o.Before, o.After = or(o.Before, 2*time.Second), or(o.After, 30*time.Second)
	repeat := or(o.Repeat, 3)
	p := newPace(o.Progress, time.Duration(repeat)*(o.Before+o.After))
	trial.For(b, o.Name)
	for i := range repeat {
		p.next(fmt.Sprintf("%s, %d of %d", o.Name, i+1, repeat))
		if o.Ready != nil {
			if err := o.Ready(ctx); err != nil {
				return recoveries(loss, stamp), fmt.Errorf("before %s: %w", o.Name, err)
			}
		}
		r, err := eventful(ctx, b, o)
		if err != nil {
			return recoveries(loss, stamp), err
		}
		p.past(o.Before + o.After)
		lost := missing(r)
		outage := time.Duration(float64(lost) * r.Elapsed.Seconds() / float64(max(1, r.Sent)) * 1e9)
		silence := r.Silence
		if lost == 0 {
			silence = 0
		}
		add(&loss, outage, lost)
		add(&stamp, silence, lost)
		if outage >= o.After*95/100 {
			return recoveries(loss, stamp), fmt.Errorf("%s: the device did not forward again within %v: expected it to recover; allow it more time if it needs more", o.Name, o.After)
		}
	}
	return recoveries(loss, stamp), nil
}

// recoveries are both methods' results, or none when there was no repetition.
func recoveries(loss, stamp result.Recovery) []result.Recovery {
	if len(loss.Each) == 0 {
		return nil
	}
	return []result.Recovery{loss, stamp}
}

// eventful is a trial in whose course the event happens.
func eventful(ctx context.Context, b trial.Bench, o ResetOptions) (trial.Result, error) {
	running, stop := context.WithCancel(ctx)
	defer stop()
	type outcome struct {
		result trial.Result
		err    error
	}
	over, begun := make(chan outcome, 1), make(chan struct{})
	announced := trial.OnSending(running, sync.OnceFunc(func() { close(begun) }))
	go func() {
		r, err := b.Attempt(announced, trial.Load{Rate: o.Rate, Duration: o.Before + o.After})
		over <- outcome{r, err}
	}()
	sending := (<-chan struct{})(begun)
	var due <-chan time.Time // the event's time, once the stream runs
	for waiting := true; waiting; {
		select {
		case end := <-over:
			if end.err == nil {
				end.err = fmt.Errorf("%s: the stream ended before the event", o.Name)
			}
			return end.result, end.err
		case <-sending:
			sending, due = nil, time.After(o.Before)
		case <-due:
			waiting = false
		}
	}
	ordered := time.Now()
	err := o.Event(running)
	if err != nil {
		stop()
		<-over
		return trial.Result{}, fmt.Errorf("%s: %w", o.Name, err)
	}
	took := time.Since(ordered)
	end := <-over
	if end.err == nil && took >= o.After {
		end.err = fmt.Errorf("%s took %v, longer than the stream of %v after it: give it more time", o.Name, took, o.After)
	}
	return end.result, end.err
}
