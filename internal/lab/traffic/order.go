// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/vishvananda/netlink"
)

// Batch is how many frames go through one turn of the generator before the
// router's softirq gets the core, unless an Order says otherwise.
const Batch = 64

const (
	maxBatch     = 256 // the kernel's TEST_XDP_MAX_BATCH
	defaultTTL   = 64
	defaultBurst = time.Millisecond
	maxRate      = 1e9
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
	Timed    bool            // the clock is read for every frame's stamp; else at least for every 64th
	Filled   bool            // payload written anew for every frame and covered by a checksum, in IPv4 too
	Gap      time.Duration   // stretches longer than this in which nothing could be sent count as interruptions; 0 counts none
	Burst    time.Duration   // unsent time that may be caught up when paced; 0 is 1 ms
	Offset   int             // where in the lap to begin
	// After is how many frames of each stream an earlier order has sent to the same
	// expectations of a sink: sequence numbers go on from there.
	After   map[uint8]uint64
	OwnTime bool // of a replay: the times of its frames in place of Rate
}

// Sent is what became of an order.
type Sent struct {
	Frames    uint64
	PerStream map[uint8]uint64
	Elapsed   time.Duration // from the first frame to the last
	// Stretches longer than Order.Gap in which nothing could be sent although it was due.
	Gaps    uint64
	GapTime time.Duration
	// Of an unpaced order: the frames and time outside of gaps.
	CleanFrames uint64
	CleanTime   time.Duration
}

// PerFrame returns the time one frame took, in ns, without interruptions.
func (s Sent) PerFrame() float64 {
	if s.CleanFrames == 0 {
		return 0
	}
	return float64(s.CleanTime) / float64(s.CleanFrames)
}

// paced tells whether frames wait for their time.
func (o Order) paced() bool { return o.Rate > 0 || o.OwnTime }

// limit is how many frames the order comes to; 0 is no limit.
func (o Order) limit() uint64 {
	if o.Rate == 0 || o.Duration == 0 {
		return o.Frames
	}
	due := max(1, uint64(math.Round(o.Rate*o.Duration.Seconds())))
	if o.Frames == 0 {
		return due
	}
	return min(o.Frames, due)
}

// length is how long a paced order or one with a Duration takes if nothing holds
// it up; 0 when it ends with its context only. packets and period are the lap's.
func (o Order) length(packets int, period time.Duration) time.Duration {
	switch {
	case o.Duration > 0:
		return o.Duration
	case o.OwnTime:
		return time.Duration(o.Frames/uint64(packets)) * period
	default:
		return time.Duration(float64(o.Frames) / o.Rate * 1e9)
	}
}

// check says what is wrong with an order for what a sender has to send.
func (o Order) check(s shape) error {
	switch {
	case o.Batch < 0 || o.Batch > maxBatch:
		return fmt.Errorf("batch of %d frames: expected 1 to %d", o.Batch, maxBatch)
	case o.Rate < 0 || o.Rate > maxRate || math.IsNaN(o.Rate):
		return fmt.Errorf("rate of %g frames per second: expected up to %g, or 0 for as fast as it goes", o.Rate, maxRate)
	case o.Duration < 0 || o.Gap < 0 || o.Burst < 0 || o.Offset < 0:
		return fmt.Errorf("duration %v, gap %v, burst %v, offset %d: none may be negative", o.Duration, o.Gap, o.Burst, o.Offset)
	}
	up := map[int]bool{}
	for stream, used := range s.streams {
		if !used {
			continue
		}
		r, ok := o.Routes[uint8(stream)]
		if !ok {
			return fmt.Errorf("stream %d has no route: set the port that sends it", stream)
		}
		if len(r.From) != 6 || len(r.To) != 6 {
			return fmt.Errorf("stream %d goes from MAC %q to %q: expected 6 bytes each", stream, r.From, r.To)
		}
		if up[r.Port] {
			continue
		}
		if err := checkUp(r.Port); err != nil {
			return fmt.Errorf("stream %d: %w", stream, err)
		}
		up[r.Port] = true
	}
	return nil
}

// checkUp sees that a port can send: the kernel drops frames of one that is down without a word.
func checkUp(ifindex int) error {
	port, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return fmt.Errorf("no port with index %d in this namespace: %w", ifindex, err)
	}
	if port.Attrs().Flags&net.FlagUp == 0 {
		return fmt.Errorf("port %s is down: bring it up first", port.Attrs().Name)
	}
	return nil
}

// order is what the program is told. Its layout is struct order in bpf/lab_order.h.
func (o Order) order(s shape) labOrder {
	out := labOrder{
		Burst: uint64(o.Burst), Gap: uint64(o.Gap), Frames: o.limit(), Duration: uint64(o.Duration),
		Packets: uint32(s.packets), Own: bit(o.OwnTime), Ttl: o.TTL, Timed: bit(o.Timed), Filled: bit(o.Filled || s.mixed),
		Fresh: bit(s.fresh), PortShift: s.portShift, PortBits: s.portBits, HostShift: s.hostShift, HostBits: s.hostBits, Scatter: bit(s.scatter),
	}
	out.Ttl = cmp.Or(out.Ttl, defaultTTL)
	if out.Burst == 0 {
		out.Burst = uint64(defaultBurst)
	}
	if o.Rate > 0 {
		out.Interval = uint64(math.Round(1e9 * (1 << 16) / o.Rate))
	}
	return out
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
