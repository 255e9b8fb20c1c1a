// SPDX-License-Identifier: Apache-2.0

// Package method has the lab's measurements other than the search for throughput:
// each is a function that offers loads to a trial.Tester and returns a figure of
// package result.
//
//	LossCurve   loss against load                 RFC 2544 section 26.3
//	BackToBack  the longest burst without loss    RFC 2544 section 26.4, RFC 9004
//	Latency     delay at shares of the PDR        RFC 2544 section 26.2, RFC 8219 section 7
//	Overload    recovery from too much load       RFC 2544 section 26.5
//	Reset       recovery from an event            RFC 2544 section 26.6, RFC 6201
//	Soak        one load for hours                no RFC
//	MRR         the rate at the greatest load     FD.io CSIT
//
// All of them have this in common. When ctx ends or a trial fails, what was found so
// far comes together with the error, so that a report can be made of it; it is a
// valid value with fewer points or repetitions. An error of a device that forwards
// wrongly is a *trial.WrongError and ends the method. What options leave at zero
// is as the RFC wants it.
package method

import (
	"fmt"
	"math"
	"time"

	"minne/internal/lab/trial"
)

// Progress is told, before every trial, what is done and how long all will still take.
// A nil Progress is told nothing.
type Progress func(text string, left time.Duration)

// pace estimates the remaining time of a method from the time it took so far: trials
// take longer than their traffic, as devices drain and spoilt trials are repeated.
type pace struct {
	progress Progress
	begun    time.Time
	total    time.Duration // of traffic, of the whole method
	done     time.Duration
}

func newPace(p Progress, total time.Duration) *pace {
	return &pace{progress: p, begun: time.Now(), total: total}
}

// next says what is done now.
func (p *pace) next(text string) {
	if p.progress == nil {
		return
	}
	left := float64(p.total - p.done)
	if p.done > 0 {
		left *= time.Since(p.begun).Seconds() / p.done.Seconds()
	}
	p.progress(text, time.Duration(left))
}

// past notes traffic that was planned and is over.
func (p *pace) past(traffic time.Duration) { p.done += traffic }

// or returns the standard when value is not set.
func or[T comparable](value, standard T) T {
	var none T
	if value == none {
		return standard
	}
	return value
}

// positive refuses a rate that isn't one: a load of 0 is "as fast as the tester can".
func positive(method, what string, rate float64) error {
	if rate > 0 {
		return nil
	}
	return fmt.Errorf("%s: %s is %g frames/s: expected more than 0; was it searched for and not found?", method, what, rate)
}

// meanDeviation returns the mean and the standard deviation of a sample.
func meanDeviation(values []float64) (mean, deviation float64) {
	if len(values) == 0 {
		return 0, 0
	}
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	if len(values) == 1 {
		return mean, 0
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(values)-1))
}

// offered is the rate that a trial's load came to, frames per second.
func offered(r trial.Result) float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Intended) / r.Elapsed.Seconds()
}

// missing is how many frames the device lost: those that were never sent are not
// its fault. Recovery counts so; everything else counts trial.Result.Lost.
func missing(r trial.Result) uint64 { return r.Sent - min(r.Sent, r.Received) }
