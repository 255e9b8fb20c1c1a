// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// MaxReplay is how many recorded frames a generator holds.
const MaxReplay = 1 << 14

// Generator sends one order at a time, on the core of its caller.
type Generator struct {
	mu      sync.Mutex // guards current against Progress
	current *sender    // what Run sends; nil before the first lap
	running *sender    // what Progress looks at
	towards destinations
}

// NewGenerator makes a generator with nothing to send. The caller closes it.
func NewGenerator() (*Generator, error) { return &Generator{}, nil }

// Close unloads the program.
func (g *Generator) Close() error { return errors.Join(g.replace(nil), g.towards.close()) }

// SetLap replaces what Run sends by a lap.
func (g *Generator) SetLap(l Lap) error {
	n, err := survey(l)
	if err != nil {
		return err
	}
	if g.current == nil || !g.current.fits(n) {
		s, err := loadGenerate(n.packets, n.wide, nil)
		if err != nil {
			return err
		}
		if err := g.replace(s); err != nil {
			return err
		}
	}
	g.current.fill(l, n)
	return nil
}

// ShareLap replaces what Run sends by the lap of another generator, without a copy: both
// walk through the same memory, each at its own pace. A further SetLap of either
// leaves the other's lap as it is only if it needs another array, so give both a new one.
func (g *Generator) ShareLap(from *Generator) error {
	if from.current == nil || from.current.packets == 0 {
		return errors.New("the other generator has no lap to share")
	}
	s, err := loadGenerate(0, from.current.wide, from.current.array)
	if err != nil {
		return err
	}
	s.shape = from.current.shape
	return g.replace(s)
}

// Recorded is a frame to replay.
type Recorded struct {
	At     time.Duration // since the first frame
	Stream uint8         // whose route it takes
	Frame  []byte        // from the destination MAC on, without FCS; the MACs are replaced
}

// SetReplay replaces what Run sends by recorded frames. They carry no stamps: a
// sink counts them as others. period is the time from the first frame to the
// first of the next round, for orders with OwnTime.
func (g *Generator) SetReplay(frames []Recorded, period time.Duration) error {
	n, err := surveyRecorded(frames, period)
	if err != nil {
		return err
	}
	s, err := loadReplay(len(frames))
	if err != nil {
		return err
	}
	s.shape, s.period = n, period
	const head = 16 // struct slot in bpf/lab_replay.h
	width := int(s.array.ValueSize())
	for i, f := range frames {
		b := s.memory[i*width:]
		binary.NativeEndian.PutUint64(b, uint64(f.At))
		binary.NativeEndian.PutUint16(b[8:], uint16(len(f.Frame)))
		b[10] = f.Stream
		copy(b[head:width], f.Frame)
	}
	return g.replace(s)
}

// surveyRecorded checks recorded frames and their times.
func surveyRecorded(frames []Recorded, period time.Duration) (shape, error) {
	if len(frames) == 0 || len(frames) > MaxReplay {
		return shape{}, fmt.Errorf("%d frames to replay: expected 1 to %d", len(frames), MaxReplay)
	}
	n := shape{packets: len(frames)}
	for i, f := range frames {
		if len(f.Frame) < 14 || len(f.Frame) > maxFrame {
			return shape{}, fmt.Errorf("frame %d to replay has %d bytes: expected 14 to %d without FCS", i+1, len(f.Frame), maxFrame)
		}
		if f.At < 0 || i > 0 && f.At < frames[i-1].At || f.At > period {
			return shape{}, fmt.Errorf("frame %d to replay is at %v: expected times that rise from 0 to the period of %v", i+1, f.At, period)
		}
		n.largest = max(n.largest, len(f.Frame))
		n.streams[f.Stream] = true
	}
	return n, nil
}

// replace makes s what Run sends and closes what it was.
func (g *Generator) replace(s *sender) error {
	g.mu.Lock()
	old := g.current
	if g.running == old {
		g.running = s
	}
	g.current = s
	g.mu.Unlock()
	if old == nil {
		return nil
	}
	return old.close()
}

// Run sends the lap again and again until the order is carried out or ctx ends.
// The calling thread must be in the namespace of the routes' ports, and the
// generator uses the thread's core for as long as it takes.
func (g *Generator) Run(ctx context.Context, o Order) (Sent, error) {
	if g.current == nil {
		return Sent{}, errors.New("generator: nothing to send: give it a lap first")
	}
	if o.OwnTime && g.current.period == 0 {
		return Sent{}, errors.New("generator: only a replay with a period has a time of its own")
	}
	return g.send(ctx, g.current, o, nil)
}

func (g *Generator) send(ctx context.Context, s *sender, o Order, ids map[uint8]uint8) (Sent, error) {
	g.mu.Lock()
	g.running = s
	g.mu.Unlock()
	sent, err := s.run(ctx, o, ids)
	if err != nil {
		return sent, fmt.Errorf("generator: %w", err)
	}
	return sent, nil
}

// Progress returns what has been sent so far. It may be called while Run runs.
func (g *Generator) Progress() Sent {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		return Sent{}
	}
	return g.running.sent()
}

// Sequence returns how many frames have been sent so far.
func (g *Generator) Sequence() uint64 { return g.Progress().Frames }
