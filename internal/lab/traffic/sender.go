// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// sender is a sending program in the kernel with the array that it walks through.
type sender struct {
	program *ebpf.Program
	array   *ebpf.Map
	memory  []byte // the array, mapped; nil when it is another sender's
	order   *ebpf.Variable
	routes  *ebpf.Variable
	state   *ebpf.Variable
	frame   []byte // what pages hold before they are first written to
	period  time.Duration
	after   atomic.Pointer[map[uint8]uint64] // Order.After
	shape
}

// loadGenerate brings the generator into the kernel with room for packets of one
// width. When from is not nil its array is used.
func loadGenerate(packets int, wide bool, from *ebpf.Map) (*sender, error) {
	var objs struct {
		Program *ebpf.Program  `ebpf:"generate"`
		Array   *ebpf.Map      `ebpf:"lap"`
		Order   *ebpf.Variable `ebpf:"order"`
		Routes  *ebpf.Variable `ebpf:"routes"`
		State   *ebpf.Variable `ebpf:"progress"`
	}
	err := loadWith(&objs, from, labMapLap, func(spec *ebpf.CollectionSpec) error {
		spec.Maps[labMapLap].MaxEntries = uint32(packets)
		spec.Maps[labMapLap].ValueSize = uint32(stride(wide))
		bytes, sums := filler()
		return errors.Join(spec.Variables[labVarWide].Set(bit(wide)), spec.Variables[labVarFiller].Set(bytes), spec.Variables[labVarFillerSum].Set(sums))
	})
	if err != nil {
		return nil, fmt.Errorf("load packet generator: %w", err)
	}
	s := &sender{program: objs.Program, array: objs.Array, order: objs.Order, routes: objs.Routes, state: objs.State}
	return s, s.mapArray(from == nil)
}

// loadReplay brings the player of recorded frames into the kernel.
func loadReplay(frames int) (*sender, error) {
	var objs struct {
		Program *ebpf.Program  `ebpf:"replay"`
		Array   *ebpf.Map      `ebpf:"slots"`
		Order   *ebpf.Variable `ebpf:"order"`
		Routes  *ebpf.Variable `ebpf:"routes"`
		State   *ebpf.Variable `ebpf:"progress"`
	}
	err := loadWith(&objs, nil, "", func(spec *ebpf.CollectionSpec) error {
		spec.Maps[labMapSlots].MaxEntries = uint32(frames)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load player of recorded frames: %w", err)
	}
	s := &sender{program: objs.Program, array: objs.Array, order: objs.Order, routes: objs.Routes, state: objs.State}
	return s, s.mapArray(true)
}

// loadWith brings into the kernel what the fields of objs name.
func loadWith(objs any, shared *ebpf.Map, name string, prepare func(*ebpf.CollectionSpec) error) error {
	spec, err := loadLab()
	if err != nil {
		return err
	}
	if err := prepare(spec); err != nil {
		return err
	}
	var opts ebpf.CollectionOptions
	if shared != nil {
		spec.Maps[name].MaxEntries = shared.MaxEntries()
		opts.MapReplacements = map[string]*ebpf.Map{name: shared}
	}
	return spec.LoadAndAssign(objs, &opts)
}

func stride(wide bool) int {
	if wide {
		return broad
	}
	return narrow
}

// fillerSeed makes the filler the same in every run.
const fillerSeed = 0x4d696e6e65

// filler returns the bytes behind a stamp by their place in the frame, and for every
// length the sum of so many of them, as 16-bit words in memory order.
func filler() (bytes [maxFrame + 22]uint8, sums [maxFrame + 22]uint16) {
	random := rand.New(rand.NewPCG(fillerSeed, 0))
	sum := uint32(0)
	for i := range bytes {
		sums[i] = uint16(sum)
		bytes[i] = uint8(random.Uint32())
		var pair [2]uint8
		pair[i%2] = bytes[i]
		sum += uint32(binary.NativeEndian.Uint16(pair[:]))
		sum = sum&0xffff + sum>>16
	}
	return bytes, sums
}

// mapArray maps the sender's array into memory. The sender is closed when that fails.
func (s *sender) mapArray(own bool) error {
	bytes, _ := filler()
	s.frame = bytes[:]
	if !own {
		return nil
	}
	size := int(s.array.MaxEntries()) * int(s.array.ValueSize())
	memory, err := unix.Mmap(s.array.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		s.close()
		return fmt.Errorf("map %d bytes of packets: %w", size, err)
	}
	s.memory = memory
	return nil
}

func (s *sender) close() error {
	if s.memory != nil {
		unix.Munmap(s.memory) //nolint:errcheck // only fails for a slice that was never mapped
		s.memory = nil
	}
	return errors.Join(s.program.Close(), s.array.Close())
}

// fits tells whether a lap can take the place of the present one without another array.
func (s *sender) fits(n shape) bool {
	room := int(s.array.MaxEntries())
	return s.memory != nil && int(s.array.ValueSize()) == stride(n.wide) && n.packets <= room && room <= 2*n.packets+1024
}

func (s *sender) fill(l Lap, n shape) {
	s.shape = n
	width := stride(n.wide)
	for i := range l.Packets {
		l.Packet(i).put(s.memory[i*width : (i+1)*width])
	}
}

// prepare writes an order to the program.
func (s *sender) prepare(o Order, ids map[uint8]uint8) error {
	order := o.order(s.shape)
	order.Period = uint64(s.period)
	var routes [256]labRoute
	for stream, r := range o.Routes {
		id, renamed := ids[stream]
		if !renamed {
			id = stream
		}
		routes[stream] = labRoute{Ifindex: uint32(r.Port), Next: uint64(id)<<56 | o.After[stream]}
		copy(routes[stream].Macs[:6], r.To)
		copy(routes[stream].Macs[6:], r.From)
	}
	s.after.Store(&o.After)
	start := labProgress{At: uint32(o.Offset % s.packets)}
	return errors.Join(s.order.Set(&order), s.routes.Set(&routes), s.state.Set(&start))
}

// run carries out an order. ids gives streams of the lap other ids on the wire.
func (s *sender) run(ctx context.Context, o Order, ids map[uint8]uint8) (Sent, error) {
	if err := o.check(s.shape); err != nil {
		return Sent{}, err
	}
	if err := s.prepare(o, ids); err != nil {
		return Sent{}, err
	}
	batch := o.Batch
	batch = cmp.Or(batch, Batch)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	waits := o.paced() || o.Duration > 0 // runs of the program may send nothing, so their number says nothing
	var after time.Duration
	if waits {
		after = max(watchEvery, o.length(s.packets, s.period))
	}
	stop := interruptWhen(ctx, after, s.over)
	defer stop()
	limit := o.limit()
	for {
		before := s.progress()
		if before.Over != 0 || limit > 0 && before.Frames >= limit || ctx.Err() != nil {
			return s.sent(), nil
		}
		repeat := uint64(math.MaxUint32)
		if !waits && limit > 0 {
			repeat = min(repeat, limit-before.Frames)
		}
		err := runLive(s.program, s.frame[:s.largest], uint32(repeat), batch)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return s.sent(), fmt.Errorf("run live frames: %w", err)
		}
		now := s.progress()
		if err == nil && now.Frames == before.Frames && now.Over == 0 && !o.paced() {
			return s.sent(), fmt.Errorf("the program sent nothing (frames of up to %d bytes)", s.largest)
		}
		now.Resumed = 1
		if err := s.state.Set(&now); err != nil {
			return s.sent(), err
		}
	}
}

func (s *sender) progress() (p labProgress) {
	s.state.Get(&p) //nolint:errcheck // fails for another type only
	return p
}

func (s *sender) over() bool { return s.progress().Over != 0 }

// sent returns what has been sent so far.
func (s *sender) sent() Sent {
	p := s.progress()
	out := Sent{
		Frames: p.Frames, Elapsed: time.Duration(max(p.Last, p.First) - p.First), PerStream: map[uint8]uint64{},
		CleanFrames: p.CleanFrames, CleanTime: time.Duration(p.CleanNs),
		Gaps: p.Gaps, GapTime: time.Duration(p.GapNs),
	}
	var routes [256]labRoute
	s.routes.Get(&routes) //nolint:errcheck // fails for another type only
	after := map[uint8]uint64{}
	if a := s.after.Load(); a != nil {
		after = *a
	}
	for stream, used := range s.streams {
		if used {
			next := routes[stream].Next
			out.PerStream[uint8(next>>56)] = next&(1<<56-1) - after[uint8(stream)]
		}
	}
	return out
}
