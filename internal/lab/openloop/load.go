// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"errors"
	"fmt"
	"net/netip"

	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
)

// Names of the directions, as streams are named in reports.
const (
	leftToRight = "left to right"
	rightToLeft = "right to left"
)

// streamsPerLane: two directions of two IP versions.
const streamsPerLane = 4

// endsFor says between which addresses a lane's traffic travels through the rig.
func endsFor(lane int) pattern.Ends {
	first := uint8(lane * streamsPerLane)
	networks := func(stream uint8, ipv6, from int) pattern.Networks {
		return pattern.Networks{Stream: stream, Sources: hostNetworks[from][ipv6], Destinations: []netip.Prefix{hostNetworks[1-from][ipv6]}}
	}
	ends := pattern.Ends{
		Forward: pattern.Direction{Name: leftToRight, IPv4: networks(first, 0, 0), IPv6: networks(first+1, 1, 0)},
		Back:    pattern.Direction{Name: rightToLeft, IPv4: networks(first+2, 0, 1), IPv6: networks(first+3, 1, 1)},
	}
	for i := range portNetworks {
		for j := range portNetworks[i] {
			ends.Avoid = append(ends.Avoid, portNetworks[i][j].Masked(), hostNetworks[i][j])
		}
	}
	return ends
}

// Load sets the traffic of the following trials.
func (r *Rig) Load(p pattern.Pattern) error {
	if err := r.load(p); err != nil {
		return fmt.Errorf("traffic %s: %w", p, err)
	}
	r.both, r.replay, r.ownTime = p.Bidirectional, p.Shape == pattern.Replay, p.OwnTiming
	if !r.replay {
		r.subject = p.Subject(r.facts.Name)
	}
	return r.sink.TakeAll(r.replay)
}

func (r *Rig) load(p pattern.Pattern) error {
	r.streams = map[uint8]stream{}
	if p.Shape == pattern.Replay {
		return r.loadCapture(p)
	}
	for lane, g := range r.generators {
		ends := endsFor(lane)
		lap, err := p.Lap(ends)
		if err != nil {
			return err
		}
		for _, s := range p.Streams(ends) {
			from := 0
			if s.Back {
				from = 1
			}
			if len(r.generators) > 1 {
				s.Name += fmt.Sprintf(", lane %d", lane+1)
			}
			r.streams[s.ID] = stream{name: s.Name, from: from, lane: lane}
		}
		if err := g.SetLap(lap); err != nil {
			return err
		}
	}
	return nil
}

// captured is the stream of a capture's frames.
const captured = 0

func (r *Rig) loadCapture(p pattern.Pattern) error {
	if len(r.generators) > 1 {
		return errors.New("a capture is sent by one lane, in its order: expected no more lanes")
	}
	capture, err := p.Replay(endsFor(0))
	if err != nil {
		return err
	}
	r.notes = append(r.notes, capture.Notes()...)
	r.subject = result.Subject{Device: r.facts.Name, Traffic: p.Traffic(), Mix: "as captured", MeanSize: capture.MeanSize()}
	r.streams[captured] = stream{name: "capture, " + leftToRight}
	return r.generators[0].SetReplay(capture.Frames, capture.Period)
}

// Subject is what figures taken with the loaded traffic are about.
func (r *Rig) Subject() result.Subject { return r.subject }
