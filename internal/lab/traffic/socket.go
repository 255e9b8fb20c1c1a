// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// SocketGenerator sends what a Generator sends through packet sockets: for
// drivers that can't transmit XDP frames. It builds every frame in user space and
// paces by the clock, so it is several times slower and less even; frames pass
// the driver as those of any program do, without a queueing discipline.
//
// A frame counts as sent once the kernel took it. When the device is busy the
// frame is tried again, for as long as the order lasts.
type SocketGenerator struct {
	lap    Lap
	frames []Recorded // instead of a lap
	period time.Duration
	shape
	tally
}

// tally is what has been sent so far. Written by Run, read by Progress at any time.
type tally struct {
	perStream              [256]atomic.Uint64
	frames                 atomic.Uint64
	first, last            atomic.Int64 // ns, CLOCK_MONOTONIC
	cleanFrames, cleanTime atomic.Int64
	gaps, gapTime          atomic.Int64
}

// NewSocketGenerator makes a generator with nothing to send.
func NewSocketGenerator() *SocketGenerator { return &SocketGenerator{} }

// SetLap replaces what Run sends by a lap.
func (g *SocketGenerator) SetLap(l Lap) error {
	n, err := survey(l)
	if err != nil {
		return err
	}
	g.lap, g.frames, g.period, g.shape = l, nil, 0, n
	return nil
}

// SetReplay replaces what Run sends by recorded frames, as Generator.SetReplay does.
func (g *SocketGenerator) SetReplay(frames []Recorded, period time.Duration) error {
	n, err := surveyRecorded(frames, period)
	if err != nil {
		return err
	}
	g.lap, g.frames, g.period, g.shape = Lap{}, frames, period, n
	return nil
}

// Run sends the lap or the recorded frames again and again until the order is
// carried out or ctx ends. The calling thread must be in the namespace of the
// routes' ports, and the generator uses the thread's core for as long as it takes.
func (g *SocketGenerator) Run(ctx context.Context, o Order) (Sent, error) {
	if g.packets == 0 {
		return Sent{}, errors.New("generator: nothing to send: give it a lap first")
	}
	if o.OwnTime && g.period == 0 {
		return Sent{}, errors.New("generator: only a replay with a period has a time of its own")
	}
	if err := o.check(g.shape); err != nil {
		return Sent{}, fmt.Errorf("generator: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	g.reset()
	r := &socketRun{SocketGenerator: g, order: o.order(g.shape), routes: o.Routes, at: o.Offset % g.packets, clock: newClock()}
	for stream, n := range o.After {
		r.next[stream] = n
	}
	if r.batch = o.Batch; r.batch == 0 {
		r.batch = Batch
	}
	defer r.close()
	if err := r.open(); err != nil {
		return Sent{}, fmt.Errorf("generator: %w", err)
	}
	err := r.send(ctx)
	if err != nil {
		err = fmt.Errorf("generator: %w", err)
	}
	return g.Progress(), err
}

// Progress returns what has been sent so far. It may be called while Run runs.
func (g *SocketGenerator) Progress() Sent {
	out := Sent{
		Frames: g.tally.frames.Load(), Elapsed: time.Duration(g.last.Load() - g.first.Load()), PerStream: map[uint8]uint64{},
		CleanFrames: uint64(g.cleanFrames.Load()), CleanTime: time.Duration(g.cleanTime.Load()),
		Gaps: uint64(g.gaps.Load()), GapTime: time.Duration(g.gapTime.Load()),
	}
	for stream, used := range g.streams {
		if used {
			out.PerStream[uint8(stream)] = g.perStream[stream].Load()
		}
	}
	return out
}

func (t *tally) reset() {
	for i := range t.perStream {
		t.perStream[i].Store(0)
	}
	t.frames.Store(0)
	for _, n := range []*atomic.Int64{&t.first, &t.last, &t.cleanFrames, &t.cleanTime, &t.gaps, &t.gapTime} {
		n.Store(0)
	}
}

// socketRun is one order being carried out.
type socketRun struct {
	*SocketGenerator
	order  labOrder
	routes map[uint8]Route
	batch  int
	clock  clock
	ports  map[int]*socketPort
	queues [256]*socketPort // by stream

	next   [256]uint64 // sequence number of each stream's next frame
	at     int         // next packet of the lap
	laps   uint32      // done
	staged uint64      // frames handed to queues so far, or sent
	due    uint64      // ns << 16 since the first frame: when the next paced one may go
	ran    int64       // ns: when there last was a chance to send
}

// open opens a socket on every port that has a stream.
func (r *socketRun) open() error {
	r.ports = map[int]*socketPort{}
	for stream, used := range r.streams {
		if !used {
			continue
		}
		ifindex := r.routes[uint8(stream)].Port
		if r.ports[ifindex] == nil {
			p, err := openPort(ifindex, r.batch)
			if err != nil {
				return err
			}
			r.ports[ifindex] = p
		}
		r.queues[stream] = r.ports[ifindex]
	}
	return nil
}

func (r *socketRun) close() {
	for _, p := range r.ports {
		unix.Close(p.socket) //nolint:errcheck // nothing was promised of what it still holds
	}
}

// send goes on until the order is carried out or ctx ends.
func (r *socketRun) send(ctx context.Context) error {
	begin := r.clock.now()
	r.ran = begin
	for ctx.Err() == nil {
		now := r.clock.now()
		if r.over(now) {
			return nil
		}
		frames, wait := r.ready(now)
		if frames == 0 {
			pause(wait)
			continue
		}
		if r.first.Load() == 0 {
			r.first.Store(now)
		}
		for range frames {
			if r.order.Timed != 0 {
				now = r.clock.now()
			}
			r.stage(now)
		}
		for _, p := range r.ports {
			if err := r.flush(ctx, p); err != nil {
				return err
			}
		}
		r.last.Store(now)
		if !r.paced() {
			r.stretch(uint64(frames), r.clock.now())
		}
	}
	return nil
}

func (r *socketRun) paced() bool { return r.order.Interval > 0 || r.order.Own != 0 }

// over reports whether the order has been carried out.
func (r *socketRun) over(now int64) bool {
	if r.order.Frames > 0 && r.staged >= r.order.Frames {
		return true
	}
	spent := uint64(now - r.first.Load())
	if r.first.Load() == 0 || r.order.Duration == 0 {
		return false
	}
	if r.paced() { // as bpf/lab_pace.h: what is late may still be caught up
		return spent >= r.order.Duration+r.order.Burst
	}
	return spent >= r.order.Duration
}

// ready returns how many frames may go now, at most a batch, or how long there is none.
func (r *socketRun) ready(now int64) (frames int, wait time.Duration) {
	most := uint64(r.batch)
	if r.order.Frames > 0 {
		most = min(most, r.order.Frames-r.staged)
	}
	if !r.paced() {
		return int(most), 0
	}
	since := uint64(0)
	if first := r.first.Load(); first != 0 {
		since = uint64(now-first) << 16
	}
	r.lookForGap(now)
	if r.order.Own != 0 {
		return r.readyOwn(since, most)
	}
	if since < r.due {
		return 0, time.Duration((r.due - since) >> 16)
	}
	if burst := r.order.Burst << 16; r.due+burst < since { // give up what is beyond the burst
		r.due = since - burst
	}
	n := min(most, (since-r.due)/r.order.Interval+1)
	r.due += n * r.order.Interval
	return int(n), 0
}

// readyOwn counts the recorded frames whose time has come.
func (r *socketRun) readyOwn(since, most uint64) (frames int, wait time.Duration) {
	at, lap := r.at, r.laps
	for uint64(frames) < most {
		r.due = (uint64(lap)*uint64(r.period) + uint64(r.frames[at].At)) << 16
		if since < r.due {
			return frames, time.Duration((r.due - since) >> 16)
		}
		frames++
		if at++; at == r.packets {
			at, lap = 0, lap+1
		}
	}
	return frames, 0
}

// lookForGap counts the time since a frame was due or there last was a chance to send, whichever is later.
func (r *socketRun) lookForGap(now int64) {
	could := max(r.first.Load()+int64(r.due>>16), r.ran)
	if gap := int64(r.order.Gap); gap > 0 && r.first.Load() != 0 && now-could > gap {
		r.gaps.Add(1)
		r.gapTime.Add(now - could)
	}
	r.ran = now
}

// stretch puts aside the time of frames during which the core was taken away (unpaced).
func (r *socketRun) stretch(frames uint64, now int64) {
	took := now - r.ran
	if r.order.Gap > 0 && took > int64(r.order.Gap) {
		r.gaps.Add(1)
		r.gapTime.Add(took)
	} else {
		r.cleanFrames.Add(int64(frames))
		r.cleanTime.Add(took)
	}
	r.ran = now
}

// stage puts the next frame into its port's queue.
func (r *socketRun) stage(now int64) {
	r.staged++
	if r.SocketGenerator.frames != nil {
		f := r.SocketGenerator.frames[r.at]
		b := r.queues[f.Stream].take(f.Stream, len(f.Frame))
		copy(b, f.Frame)
		copy(b, r.routes[f.Stream].To)
		copy(b[6:], r.routes[f.Stream].From)
	} else {
		p := r.lap.Packet(r.at)
		if r.fresh && r.laps > 0 {
			p = r.flip(p, r.laps)
		}
		b := r.queues[p.Stream].take(p.Stream, int(p.FrameBytes))
		p.write(b, r.routes[p.Stream], r.order.Ttl, r.next[p.Stream], time.Duration(now), r.order.Filled != 0)
		r.next[p.Stream]++
	}
	if r.at++; r.at == r.packets {
		r.at, r.laps = 0, r.laps+1
	}
}

// flip gives a packet the source port and address that it has in a further lap (begin_lap in bpf/lab_generate.h).
func (f flips) flip(p Packet, lap uint32) Packet {
	var port, host uint16
	if f.scatter {
		n := lap * 0x9e3779b1
		n ^= n >> 15
		port, host = uint16(n&(1<<f.portBits-1)), uint16(n>>16)
	} else {
		port = uint16(lap&(1<<f.portBits-1)) << f.portShift
		host = uint16(lap>>f.portBits&(1<<f.hostBits-1)) << f.hostShift
	}
	p.SourcePort ^= port
	b := p.Source.AsSlice()
	low := b[len(b)-2:]
	binary.BigEndian.PutUint16(low, binary.BigEndian.Uint16(low)^host)
	p.Source, _ = netip.AddrFromSlice(b)
	return p
}

// flush sends what a port's queue holds. What the device does not take by the end of the order is left unsent.
func (r *socketRun) flush(ctx context.Context, p *socketPort) error {
	for sent := 0; sent < p.held; {
		n, err := p.send(sent)
		for i := sent; i < sent+n; i++ {
			r.perStream[p.streams[i]].Add(1)
		}
		r.tally.frames.Add(uint64(n))
		sent += n
		switch {
		case err == nil:
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS):
			if ctx.Err() != nil || r.late(r.clock.now()) {
				p.held = 0
				return nil
			}
			p.awaitRoom()
		default:
			return fmt.Errorf("send on port with index %d: %w", p.ifindex, err)
		}
	}
	p.held = 0
	return nil
}

// patience is how long frames without another limit are tried when the device takes none.
const patience = time.Second

// late reports whether frames that the device did not take yet are to be given up.
func (r *socketRun) late(now int64) bool {
	limit := r.order.Duration + r.order.Burst
	if r.order.Duration == 0 {
		limit = math.MaxInt64
	}
	return uint64(now-r.first.Load()) >= limit || now-r.ran > int64(patience)
}

// clock tells CLOCK_MONOTONIC without a system call.
type clock struct {
	at   int64 // when it was made
	base time.Time
}

func newClock() clock {
	var ts unix.Timespec
	base := time.Now()
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) //nolint:errcheck // the clock exists and the pointer is right
	return clock{at: ts.Nano(), base: base.Add(time.Since(base) / 2)}
}

func (c clock) now() int64 { return c.at + int64(time.Since(c.base)) }

// pause waits, the last part of it by looking at the clock again and again: sleeps end late.
func pause(wait time.Duration) {
	const late = 200 * time.Microsecond
	if wait > 2*late {
		ts := unix.NsecToTimespec(int64(wait - late))
		unix.Nanosleep(&ts, nil) //nolint:errcheck // a signal ends it early; the caller looks at the clock anyway
	}
}
