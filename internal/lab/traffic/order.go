// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"net"
	"time"
)

// Route is where a stream's frames go out.
type Route struct {
	Port     int              // ifindex
	From, To net.HardwareAddr // this port's MAC and that of the next station
}

// Order says how a generator sends its lap.
type Order struct {
	Routes   map[uint8]Route // by stream
	TTL      uint8           // 0 is 64
	Rate     float64         // frames per second of all streams together; 0 is as fast as it goes
	Frames   uint64          // stop after so many; 0 is no limit
	Duration time.Duration   // stop after so long; 0 is no limit
	Batch    int             // frames per turn, 1…256; 0 is Batch. Small ones delay the first frame of a turn less
	Timed    bool            // the clock is read for every frame's stamp
	Filled   bool            // payload written anew for every frame and covered by a checksum, in IPv4 too
	Gap      time.Duration   // stretches longer than this in which nothing could be sent count as interruptions; 0 counts none
	Burst    time.Duration   // unsent time that may be caught up when paced; 0 is 1 ms
	Offset   int             // where in the lap to begin
}

var errNotYet = errors.New("laps are not sent yet")

// SetLap replaces the packets that Run sends.
func (g *Generator) SetLap(Lap) error { return errNotYet }

// Run sends the lap again and again until the order is carried out or ctx ends.
func (g *Generator) Run(context.Context, Order) (Sent, error) { return Sent{}, errNotYet }

// Progress returns what has been sent so far. It may be called while Run runs.
func (g *Generator) Progress() Sent { return Sent{} }

// ExpectStreams forgets all counters and sets what is expected from now on.
func (s *Sink) ExpectStreams(map[uint8]Expect) error { return errNotYet }

// Read returns what came of every expected stream.
func (s *Sink) Read() (map[uint8]Arrived, error) { return nil, errNotYet }
