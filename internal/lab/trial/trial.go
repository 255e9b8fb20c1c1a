// SPDX-License-Identifier: Apache-2.0

// Package trial is what all measurements stand on: a load is offered to a device
// for some time, and what comes back is counted (RFC 2544 section 23).
//
// Bench is the equipment: it sends and counts and judges nothing. Engine judges:
// it sends a warm-up first, repeats trials that the machine spoilt, takes frames
// that could not be sent as lost, and refuses results of a device that forwards
// wrongly. Methods and searches see only a Tester, so that they can be tried out
// on a device that is a formula.
package trial

import (
	"context"
	"time"

	"minne/internal/lab/histogram"
)

// Load is what a trial offers.
type Load struct {
	Rate     float64       `json:"rate_fps"`         // frames per second, all directions together; 0 is as fast as the tester can
	Duration time.Duration `json:"duration_ns"`      // of sending
	Frames   uint64        `json:"frames,omitempty"` // when not 0: send exactly so many, in place of Duration (bursts)
}

// Tester offers loads to one device with one kind of traffic.
type Tester interface {
	// Try runs one trial. Its error means that there is no result: the tester is
	// broken, ctx ended, or the device forwards wrongly (a *WrongError).
	Try(ctx context.Context, load Load) (Result, error)
}

// Bench is the equipment around a device.
type Bench interface {
	// Attempt sends the load once, drains, and reads all counters. It calls Sending(ctx)
	// when all is prepared and the first frame is about to leave.
	Attempt(ctx context.Context, load Load) (Result, error)
}

type sendingKey struct{}

// OnSending returns a context under which Attempt calls f as it begins to send, so
// that an event can be timed by the stream and not by what a bench prepares before.
func OnSending(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, sendingKey{}, f)
}

// Sending is called by a Bench: the first frame is about to leave.
func Sending(ctx context.Context) {
	if f, _ := ctx.Value(sendingKey{}).(func()); f != nil {
		f()
	}
}

// Stepper is a Bench that can change its load while it sends, without a pause.
type Stepper interface {
	// AttemptSteps offers the loads one after the other, drains after the last, and
	// returns a result for each: frames count for the load under which they were sent.
	AttemptSteps(ctx context.Context, loads []Load) ([]Result, error)
}

// Result is one trial with its raw counters.
type Result struct {
	Load
	Started  time.Time     `json:"started"`
	Elapsed  time.Duration `json:"elapsed_ns"` // from the first frame to the last
	Intended uint64        `json:"intended"`   // frames that the load asks for
	Sent     uint64        `json:"sent"`
	Received uint64        `json:"received"` // each frame once
	// Kinds of trouble among what came back, in frames.
	Duplicated uint64 `json:"duplicated"`
	Reordered  uint64 `json:"reordered"` // arrived after a frame sent later (RFC 4737, type-P-reordered)
	Corrupted  uint64 `json:"corrupted"` // payload or its checksum
	BadTTL     uint64 `json:"bad_ttl"`
	BadHeader  uint64 `json:"bad_header"` // IPv4 header checksum, lengths
	BadMAC     uint64 `json:"bad_mac"`

	Streams []Stream            `json:"streams,omitempty"`
	Latency histogram.Histogram `json:"latency"`
	Series  []Point             `json:"series,omitempty"` // of long trials: one point per interval
	Silence time.Duration       `json:"silence_ns"`       // the longest time without an arrival
	// LastLoss is when the last frame that got lost was sent, since the first frame of
	// the load; 0 when none was lost or the bench doesn't know. Steppers know it.
	LastLoss time.Duration `json:"last_loss_ns,omitempty"`
	// The machine took the core away for so long in all, in so many stretches.
	Gaps    uint64        `json:"gaps"`
	GapTime time.Duration `json:"gap_ns"`
	CPU     time.Duration `json:"cpu_ns"`            // processor time of the machine that is not idle, all cores
	Void    string        `json:"void,omitempty"`    // why it does not count; empty when it does
	Purpose string        `json:"purpose,omitempty"` // what it was for: "warm-up", "search", "latency at 50 %"
	Traffic string        `json:"traffic,omitempty"`
	Device  string        `json:"device,omitempty"`
}

// Stream is one stream's part of a trial.
type Stream struct {
	ID         int                 `json:"id"`
	Name       string              `json:"name"` // "IPv4, left to right"
	Sent       uint64              `json:"sent"`
	Received   uint64              `json:"received"`
	Duplicated uint64              `json:"duplicated"`
	Reordered  uint64              `json:"reordered"`
	Corrupted  uint64              `json:"corrupted"`
	BadTTL     uint64              `json:"bad_ttl,omitempty"`
	BadHeader  uint64              `json:"bad_header,omitempty"`
	BadMAC     uint64              `json:"bad_mac,omitempty"`
	Bytes      uint64              `json:"bytes"` // received, without FCS
	Latency    histogram.Histogram `json:"latency"`
}

// Point is one interval of a long trial.
type Point struct {
	At       time.Duration `json:"at_ns"` // its end, since the first frame
	Sent     uint64        `json:"sent"`  // in the interval
	Received uint64        `json:"received"`
	Latency  time.Duration `json:"latency_ns"` // median of the interval, 0 when not measured
}

// Lost returns the frames that did not come back; those never sent are among them.
func (r Result) Lost() uint64 {
	if r.Received >= r.Intended {
		return 0
	}
	return r.Intended - r.Received
}

// LossRatio is the share of intended frames that was lost, 0…1 (RFC 9971: Trial Loss Ratio).
func (r Result) LossRatio() float64 {
	if r.Intended == 0 {
		return 0
	}
	return float64(r.Lost()) / float64(r.Intended)
}

// ForwardingRate is how many frames per second came back (RFC 9971: Trial Forwarding Rate).
func (r Result) ForwardingRate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Received) / r.Elapsed.Seconds()
}
