// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"fmt"
	"net"
	"net/netip"
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
	device    *device.Device // nil: a cable
	forwarder device.Forwarder
	id        int // of its stream
	port      int // the generator's, ifindex
	from, to  net.HardwareAddr
	hops      int
	sink      net.HardwareAddr
	macBytes  int // of the sink's MAC that all frames have
}

// newPath finds out what frames through a place look like. Its device is nil for the direct cable.
func (r *Rig) newPath(p Place, d *device.Device, generatorPort, entry string) (*Path, error) {
	path := &Path{
		Name: p.Device.String(), rig: r, device: d, id: len(r.paths) + 1,
		forwarder: p.Device.Forwarder(entry == slowPort), hops: p.Device.Hops(), macBytes: 6,
	}
	if d == nil {
		path.id = 0
	}
	if path.hops > 0 {
		path.macBytes = 5 // which of the next hops was chosen is in the last one
	}
	var err error
	if path.port, path.from, err = r.lab.Node(generatorNode).Port(generatorPort); err != nil {
		return nil, err
	}
	sink := r.lab.Node(sinkNode)
	index, mac, err := sink.Port(p.Name)
	if err != nil {
		return nil, err
	}
	if entry != slowPort { // whose sink is that of the usual entry
		if err := sink.Do(func() error { return r.sink.Attach(index) }); err != nil {
			return nil, err
		}
	}
	path.sink, path.to = mac, mac
	if path.hops > 0 {
		_, path.to, err = d.Node().Port(entry)
	}
	return path, err
}

// Load is what is sent along a path.
type Load struct {
	IPv6         bool
	Destinations int // how many of the loaded ones; 0 is all
	FrameBytes   int // without FCS; 0 is the least
}

func (l Load) frameBytes() int {
	switch {
	case l.FrameBytes > 0:
		return l.FrameBytes
	case l.IPv6:
		return traffic.MinFrame6
	}
	return traffic.MinFrame4
}

// Trial is the result of sending frames along one path.
type Trial struct {
	PerFrame float64 // ns, without interruptions
	Sent     traffic.Sent
	Arrived  traffic.Arrived
	Lost     uint64
}

// Try sends frames and judges what arrives. gap is the longest time that 64 frames may take
// before they count as interrupted; 0 lets all count.
func (p *Path) Try(ctx context.Context, load Load, frames int, gap time.Duration) (Trial, error) {
	s := p.stream(load)
	s.Frames, s.Gap, s.Offset = uint64(frames), gap, p.rig.offset
	p.rig.offset = (p.rig.offset + frames) % traffic.MaxDestinations
	t, err := p.run(ctx, s, p.sink, p.macBytes)
	if err == nil && t.Arrived.Wrong() != "" {
		err = fmt.Errorf("%s forwards wrongly: %s", p.Name, t.Arrived.Wrong())
	}
	return t, err
}

// TryVia sends frames to the first n of the loaded IPv4 destinations and tells how many did not
// leave through the i-th next hop.
func (p *Path) TryVia(ctx context.Context, i, frames, n int) (wrong uint64, err error) {
	s := p.stream(Load{Destinations: n})
	s.Frames = uint64(frames)
	t, err := p.run(ctx, s, hopMAC(p.sink, i), 6)
	return t.Arrived.BadMAC + t.Lost, err
}

// stream returns the path's stream of a load.
func (p *Path) stream(load Load) traffic.Stream {
	s := traffic.Stream{
		ID: p.id, Port: p.port, From: p.from, To: p.to, TTL: 64,
		Source: source4, FrameBytes: load.frameBytes(), Destinations: load.Destinations,
	}
	if load.IPv6 {
		s.Source = source6
	}
	return s
}

// Sources are on the network of the devices' usual entry.
var source4, source6 = netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("2001:2:0:1::2")

// highest is the nice value of the sending thread, which ends with the trial.
const highest = -20

// run sends a stream, waits for its end at the sink, and returns what arrived.
func (p *Path) run(ctx context.Context, s traffic.Stream, mac net.HardwareAddr, macBytes int) (Trial, error) {
	r := p.rig
	expect := traffic.Expect{TTL: 64 - uint8(p.hops), FrameBytes: s.FrameBytes, MAC: mac, MACBytes: macBytes}
	if err := r.sink.Expect(s.ID, expect); err != nil {
		return Trial{}, err
	}
	var t Trial
	err := r.lab.Node(generatorNode).Do(func() (err error) {
		var one unix.CPUSet
		one.Set(r.cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			return fmt.Errorf("pin to CPU %d: %w", r.cpu, err)
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, highest); err != nil {
			return fmt.Errorf("raise the generator's priority: %w", err)
		}
		t.Sent, err = r.generator.Send(ctx, s)
		return err
	})
	if err != nil {
		return t, err
	}
	// A tail may have been left to ksoftirqd.
	for wait := 0; ; wait++ {
		if t.Arrived, err = r.sink.Arrived(s.ID); err != nil {
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

// kernelForwarded returns how many packets the device's kernel has forwarded so far: none more may
// be while a fast path is measured.
func (p *Path) kernelForwarded(ipv6 bool) (uint64, error) {
	if p.forwarder == device.ByAny {
		return 0, nil
	}
	return p.device.Node().KernelForwarded(ipv6)
}

// AwaitFast waits until the fast path forwards packets to every destination of the load.
func (p *Path) AwaitFast(ctx context.Context, load Load, destinations int) error {
	for _, n := range []int{min(destinations, 4096), destinations} {
		load.Destinations = n
		err := lab.Until(ctx, time.Minute, "the fast path to forward all packets", func() error {
			before, err := p.kernelForwarded(load.IPv6)
			if err != nil {
				return lab.Hopeless{Err: err}
			}
			t, err := p.Try(ctx, load, n, 0)
			if err != nil {
				return lab.Hopeless{Err: err}
			}
			after, err := p.kernelForwarded(load.IPv6)
			if err != nil {
				return lab.Hopeless{Err: err}
			}
			if after != before || t.Lost > 0 {
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
