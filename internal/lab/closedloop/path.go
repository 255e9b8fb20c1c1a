// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/traffic"
)

// Path is a way from the generator to the sink.
type Path struct {
	Name string // of the device: what figures call it

	rig       *Rig
	device    *device.Device // of a cable it has no node
	forwarder device.Forwarder
	route     traffic.Route
	hops      int
	sink      net.HardwareAddr
	macBytes  int // of the sink's MAC that all frames have
	back      *leg
}

// leg is that of replies (streamReply) through a device: from the sink's side to the generator's.
type leg struct {
	route traffic.Route
	mac   net.HardwareAddr // of the generator's side, where they arrive
}

// newPath finds out what frames through a device look like.
func (r *Rig) newPath(p Place, d *device.Device, generatorPort, entry string) (*Path, error) {
	path := &Path{Name: p.Device.String(), rig: r, device: d, forwarder: p.Device.Forwarder(entry == slowPort), hops: p.Device.Hops(), macBytes: 6}
	if path.hops > 0 {
		path.macBytes = 5 // which of the next hops was chosen is in the last one
	}
	var err error
	if path.route.Port, path.route.From, err = r.lab.Node(generatorNode).Port(generatorPort); err != nil {
		return nil, err
	}
	if _, path.sink, err = r.lab.Node(sinkNode).Port(p.Name); err != nil {
		return nil, err
	}
	path.route.To = path.sink
	if path.hops > 0 {
		_, path.route.To, err = d.Node().Port(entry)
	}
	return path, err
}

// Trial is the result of sending frames along one path.
type Trial struct {
	PerFrame float64 // ns, without interruptions
	Sent     traffic.Sent
	Arrived  traffic.Arrived // of all streams together, without latencies
	Lost     uint64
}

// Try sends frames and judges what arrives. gap is the longest time that 64 frames may take
// before they count as interrupted; 0 lets all count.
func (p *Path) Try(ctx context.Context, load *Load, frames int, gap time.Duration) (Trial, error) {
	frames = load.whole(frames)
	return p.evaluated(ctx, load, traffic.Order{Frames: uint64(frames), Gap: gap, Offset: load.next(frames)})
}

// TryWhole is like Try with payloads written anew and checked, which takes the generator longer.
func (p *Path) TryWhole(ctx context.Context, load *Load, frames int) (Trial, error) {
	frames = load.whole(frames)
	return p.evaluated(ctx, load, traffic.Order{Frames: uint64(frames), Filled: true, Offset: load.next(frames)})
}

func (p *Path) evaluated(ctx context.Context, load *Load, o traffic.Order) (Trial, error) {
	t, err := p.run(ctx, load, o, p.sink, p.macBytes)
	if err == nil && t.Arrived.Wrong() != "" {
		err = fmt.Errorf("%s forwards wrongly: %s", p.Name, t.Arrived.Wrong())
	}
	return t, err
}

// TryVia sends frames from the load's beginning on and tells how many did not leave through the i-th next hop.
func (p *Path) TryVia(ctx context.Context, load *Load, i, frames int) (wrong uint64, err error) {
	t, err := p.run(ctx, load, traffic.Order{Frames: uint64(frames)}, hopMAC(p.sink, i), 6)
	return t.Arrived.BadMAC + t.Lost, err
}

// highest is the nice value of the sending thread, which ends with the trial.
const highest = -20

// run carries out an order with the load along the path and returns what arrived.
func (p *Path) run(ctx context.Context, load *Load, o traffic.Order, mac net.HardwareAddr, macBytes int) (Trial, error) {
	if err := p.expect(load, o.Filled, mac, macBytes); err != nil {
		return Trial{}, err
	}
	return p.send(ctx, load, o)
}

// expect forgets what arrived before and tells the sink what the load's packets look like behind the device.
func (p *Path) expect(load *Load, filled bool, mac net.HardwareAddr, macBytes int) error {
	expect := map[uint8]traffic.Expect{}
	for l := range load.together() {
		for id, bytes := range l.streams {
			e := traffic.Expect{TTL: 64 - uint8(p.hops), FrameBytes: bytes, MAC: mac, MACBytes: macBytes, Filled: filled && l == load}
			if answers(id) && p.back != nil {
				e.MAC, e.MACBytes = p.back.mac, len(p.back.mac)
			}
			expect[id] = e
		}
	}
	if load.recorded {
		expect = nil // frames without stamps are counted as others, and go no further than the sink
	}
	if err := p.rig.sink.TakeAll(load.recorded); err != nil {
		return err
	}
	return p.rig.sink.ExpectStreams(expect)
}

// send sends a load that is expected and waits for its end at the sink.
func (p *Path) send(ctx context.Context, load *Load, o traffic.Order) (Trial, error) {
	var t Trial
	var err error
	if t.Sent, err = p.emit(ctx, load, o); err != nil {
		return t, err
	}
	// A tail may have been left to ksoftirqd.
	for wait := 0; ; wait++ {
		if t.Arrived, err = p.rig.arrived(load); err != nil {
			return t, err
		}
		if t.Lost = t.Arrived.Lost(t.Sent.Frames); t.Lost == 0 || wait == 20 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	t.PerFrame = t.Sent.PerFrame()
	return t, ctx.Err()
}

// emit has the load's processor send it.
func (p *Path) emit(ctx context.Context, load *Load, o traffic.Order) (sent traffic.Sent, err error) {
	o.Routes = map[uint8]traffic.Route{}
	for id := range load.streams {
		o.Routes[id] = p.route
		if answers(id) && p.back != nil {
			o.Routes[id] = p.back.route
		}
	}
	err = p.rig.lab.Node(generatorNode).Do(func() (err error) {
		var one unix.CPUSet
		one.Set(load.cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			return fmt.Errorf("pin to CPU %d: %w", load.cpu, err)
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, highest); err != nil {
			return fmt.Errorf("raise the generator's priority: %w", err)
		}
		sent, err = load.generator.Run(ctx, o)
		return err
	})
	return sent, err
}

// arrived returns what the sink has seen of a load's streams together, or of recorded frames.
func (r *Rig) arrived(load *Load) (sum traffic.Arrived, err error) {
	if load.recorded {
		others, err := r.sink.Others()
		for _, o := range others {
			sum.Received += o.Frames
			sum.Bytes += o.Bytes
		}
		return sum, err
	}
	streams, err := r.sink.Read()
	for id, a := range streams {
		if _, own := load.streams[id]; !own {
			continue
		}
		sum.Received += a.Received
		sum.Bytes += a.Bytes
		sum.Duplicated += a.Duplicated
		sum.Reordered += a.Reordered
		sum.Corrupted += a.Corrupted
		sum.BadTTL += a.BadTTL
		sum.BadHeader += a.BadHeader
		sum.BadMAC += a.BadMAC
		sum.BadLength += a.BadLength
	}
	return sum, err
}

// kernelForwarded returns how many packets of both families the device's kernel has forwarded
// so far: none more may be while a fast path is measured.
func (p *Path) kernelForwarded() (uint64, error) {
	if p.forwarder == device.ByAny {
		return 0, nil
	}
	v4, err := p.device.Node().KernelForwarded(false)
	if err != nil {
		return 0, err
	}
	v6, err := p.device.Node().KernelForwarded(true)
	return v4 + v6, err
}

// AwaitFast waits until the fast path forwards every packet of the load, but for those that look unfinished by chance.
func (p *Path) AwaitFast(ctx context.Context, load *Load) error {
	for _, n := range []int{4096, max(load.packets, 4096)} { // of one flow, too, so many that some by chance are few
		err := lab.Until(ctx, time.Minute, "the fast path to forward all packets", func() error {
			before, err := p.kernelForwarded()
			if err != nil {
				return lab.Hopeless{Err: err}
			}
			t, err := p.evaluated(ctx, load, traffic.Order{Frames: uint64(n)})
			if err != nil {
				return lab.Hopeless{Err: err}
			}
			after, err := p.kernelForwarded()
			if err != nil {
				return lab.Hopeless{Err: err}
			}
			if after-before > lab.LeftByChance(uint64(n)) || t.Lost > 0 {
				return fmt.Errorf("of %d packets %d were lost and %d left to the kernel", n, t.Lost, after-before)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%w\ndaemon: %s", err, p.device.Router().Log(10))
		}
	}
	return nil
}
