// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// MaxDestinations is how many destination addresses a generator holds per family.
const MaxDestinations = 1 << 20

// The least frame that carries the sequence number and time stamp, without FCS.
const (
	MinFrame4 = 60
	MinFrame6 = 80
)

const maxFrame = 1514

// Batch is how many frames go through one turn of the generator before the
// router's softirq gets the core.
const Batch = 64

// Stream is a sequence of UDP packets that a generator sends.
type Stream struct {
	ID           int              // 0…63; a sink counts per id
	Port         int              // ifindex of the port to send from
	From, To     net.HardwareAddr // this port's MAC and the router port's
	Source       netip.Addr       // its family is the stream's
	Flows        int              // different source ports, a power of two; 0 is 1
	TTL          uint8            // 0 is 64
	FrameBytes   int              // without FCS; 0 is the least
	Frames       uint64           // how many to send
	Rate         float64          // frames per second; 0 is as fast as it goes
	Burst        time.Duration    // of a paced stream: unsent time that may be caught up; 0 is 1 ms
	Gap          time.Duration    // of an unpaced stream: longer stretches of 64 frames are put aside as interruptions; 0 is never
	Destinations int              // how many of the loaded destinations to walk; 0 is all
	Offset       int              // where in them to begin
}

// Sent is what became of a stream at its generator.
type Sent struct {
	Frames  uint64
	Elapsed time.Duration
	// Of an unpaced stream: the frames and time outside interruptions, and the interruptions.
	CleanFrames uint64
	CleanTime   time.Duration
	Gaps        uint64
	GapTime     time.Duration
	PerStream   map[uint8]uint64
}

// PerFrame returns the time one frame took, in ns, without interruptions.
func (s Sent) PerFrame() float64 {
	if s.CleanFrames == 0 {
		return 0
	}
	return float64(s.CleanTime) / float64(s.CleanFrames)
}

// Generator sends one stream at a time.
type Generator struct {
	objs       labObjects
	ipv4, ipv6 []byte // the mapped destination arrays
	n4, n6     int
}

// NewGenerator loads the generator's program. The caller closes it.
func NewGenerator() (*Generator, error) {
	g := &Generator{}
	if err := loadLabObjects(&g.objs, nil); err != nil {
		return nil, fmt.Errorf("load packet generator: %w", err)
	}
	var err error
	if g.ipv4, err = mapArray(g.objs.Destinations4, 8); err == nil {
		g.ipv6, err = mapArray(g.objs.Destinations6, 16)
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// mapArray maps an mmapable array of MaxDestinations elements into memory.
func mapArray(m *ebpf.Map, size int) ([]byte, error) {
	b, err := unix.Mmap(m.FD(), 0, MaxDestinations*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map destinations: %w", err)
	}
	return b, nil
}

// Close unloads the program.
func (g *Generator) Close() error {
	for _, b := range [][]byte{g.ipv4, g.ipv6} {
		if b != nil {
			unix.Munmap(b) //nolint:errcheck // only fails for a slice that was never mapped
		}
	}
	return g.objs.Close()
}

// SetDestinations replaces the destinations of both families by these, walked in their order.
func (g *Generator) SetDestinations(to []netip.Addr) error {
	n4, n6 := 0, 0
	for _, a := range to {
		if a.Is4() && n4 < MaxDestinations {
			v := a.As4()
			copy(g.ipv4[n4*8:], v[:])
			n4++
		} else if a.Is6() && n6 < MaxDestinations {
			v := a.As16()
			copy(g.ipv6[n6*16:], v[:])
			n6++
		} else {
			return fmt.Errorf("more than %d destinations of one family, or an invalid one", MaxDestinations)
		}
	}
	g.n4, g.n6 = n4, n6
	return nil
}

// Send sends the stream and returns when it is over or ctx ends, with what was sent.
// The calling thread must be in the namespace of the stream's port.
func (g *Generator) Send(ctx context.Context, s Stream) (Sent, error) {
	order, frame, err := g.order(s)
	if err != nil {
		return Sent{}, err
	}
	if err := g.objs.Orders.Put(uint32(0), order); err != nil {
		return Sent{}, fmt.Errorf("generator: %w", err)
	}
	var start labProgress
	if err := g.objs.Progress.Put(uint32(0), start); err != nil {
		return Sent{}, fmt.Errorf("generator: %w", err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if s.Rate > 0 {
		stop := g.interruptWhenDone(ctx, s.Frames)
		defer stop()
	}
	for {
		p, err := g.progress()
		if err != nil {
			return Sent{}, err
		}
		if p.Sequence >= s.Frames || ctx.Err() != nil {
			return sent(p), nil
		}
		repeat := min(s.Frames-p.Sequence, 1<<20)
		if s.Rate > 0 {
			repeat = 1<<32 - 1 // most runs are too early and send nothing
		}
		if err := runLive(g.objs.Generate, frame, uint32(repeat)); err != nil && !errors.Is(err, unix.EINTR) {
			return Sent{}, fmt.Errorf("generator: run live frames: %w", err)
		}
		if after, err := g.progress(); err == nil && after.Sequence == p.Sequence && s.Rate == 0 {
			return sent(p), fmt.Errorf("generator: the program sent nothing (frame of %d bytes, port %d)", len(frame), s.Port)
		}
	}
}

func (g *Generator) order(s Stream) (labOrder, []byte, error) {
	least, n := MinFrame4, g.n4
	ipv6 := s.Source.Is6()
	if ipv6 {
		least, n = MinFrame6, g.n6
	}
	if s.Destinations > 0 {
		n = min(n, s.Destinations)
	}
	bytes := s.FrameBytes
	if bytes == 0 {
		bytes = least
	}
	switch {
	case bytes < least || bytes > maxFrame:
		return labOrder{}, nil, fmt.Errorf("generator: frame of %d bytes: expected %d to %d", bytes, least, maxFrame)
	case n == 0:
		return labOrder{}, nil, fmt.Errorf("generator: no destinations of the family of source %v", s.Source)
	case s.Flows&(s.Flows-1) != 0 || s.Flows > 1<<14:
		return labOrder{}, nil, fmt.Errorf("generator: %d flows: expected a power of two up to 16384", s.Flows)
	}
	o := labOrder{
		Ifindex: uint32(s.Port), Stream: uint32(s.ID), Destinations: uint32(n), Offset: uint32(s.Offset % n),
		Ttl: s.TTL, FrameBytes: uint16(bytes), Frames: s.Frames, Gap: uint64(s.Gap),
	}
	if s.Flows > 1 {
		o.FlowMask = uint32(s.Flows - 1)
	}
	if o.Ttl == 0 {
		o.Ttl = 64
	}
	if s.Rate > 0 {
		o.Interval = max(1, uint64(1e9/s.Rate))
		if o.Burst = uint64(s.Burst); o.Burst == 0 {
			o.Burst = uint64(time.Millisecond)
		}
	}
	copy(o.DstMac[:], s.To)
	copy(o.SrcMac[:], s.From)
	if ipv6 {
		o.Ipv6 = 1
		v := s.Source.As16()
		copy(o.Source[:], v[:])
	} else {
		v := s.Source.As4()
		copy(o.Source[:], v[:])
	}
	return o, make([]byte, bytes), nil
}

func (g *Generator) progress() (labProgress, error) {
	var p labProgress
	if err := g.objs.Progress.Lookup(uint32(0), &p); err != nil {
		return p, fmt.Errorf("generator: %w", err)
	}
	return p, nil
}

// Sequence returns how many frames of the current stream have been sent so far.
func (g *Generator) Sequence() uint64 {
	p, _ := g.progress()
	return p.Sequence
}

func sent(p labProgress) Sent {
	return Sent{
		Frames: p.Sequence, Elapsed: time.Duration(p.Last - p.First),
		CleanFrames: p.CleanFrames, CleanTime: time.Duration(p.CleanNs),
		Gaps: p.Gaps, GapTime: time.Duration(p.GapNs),
	}
}

// interruptWhenDone ends the calling thread's system call by a signal once all
// frames are sent or ctx ends: a paced program spins in the kernel and can't
// end the run itself. SIGURG is what the Go runtime uses on its own threads and
// means nothing else to it.
func (g *Generator) interruptWhenDone(ctx context.Context, frames uint64) (stop func()) {
	thread := unix.Gettid()
	over := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if g.Sequence() >= frames || ctx.Err() != nil {
				unix.Tgkill(os.Getpid(), thread, unix.SIGURG) //nolint:errcheck // the thread is locked to the sender, which waits for gone
			}
		}
	}()
	return func() { close(over); <-gone }
}

// testRun is the part of union bpf_attr that BPF_PROG_TEST_RUN reads (include/uapi/linux/bpf.h).
type testRun struct {
	progFD      uint32
	retval      uint32
	dataSizeIn  uint32
	dataSizeOut uint32
	dataIn      uint64
	dataOut     uint64
	repeat      uint32
	duration    uint32
	ctxSizeIn   uint32
	ctxSizeOut  uint32
	ctxIn       uint64
	ctxOut      uint64
	flags       uint32
	cpu         uint32
	batchSize   uint32
	_           uint32
}

// runLive makes the system call itself: the library's Run begins again when a
// signal interrupts it, and that signal is how a paced stream ends.
func runLive(p *ebpf.Program, frame []byte, repeat uint32) error {
	attr := testRun{
		progFD:     uint32(p.FD()),
		dataSizeIn: uint32(len(frame)),
		dataIn:     uint64(uintptr(unsafe.Pointer(&frame[0]))),
		repeat:     repeat,
		flags:      unix.BPF_F_TEST_XDP_LIVE_FRAMES,
		batchSize:  Batch,
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(frame)
	if errno != 0 {
		return errno
	}
	return nil
}
