// SPDX-License-Identifier: Apache-2.0

package openloop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
	"minne/internal/lab/traffic"
)

// Setup is the rig to build.
type Setup struct {
	Device  device.Spec
	Traffic pattern.Pattern
	Lanes   int            // generators, each with a receive queue of the device; 0 is 1
	Table   []netip.Prefix // the device's routes through its right-hand port; none is one network of each family
	Means   device.Means
}

// Rig is a tester with a device between its ports.
type Rig struct {
	generators []generator // by lane
	sink       *traffic.Sink
	sides      [2]side
	streams    map[uint8]stream
	subject    result.Subject
	replay     bool // frames of a capture, which carry no stamps
	ownTime    bool // … at its own pace
	place      placement
	threads    []int // pids of the device's receive threads
	both       bool  // directions
	timed      bool
	hops       int // by which the device lowers the TTL
	macBytes   int // of the destination MAC that are the same in all frames that arrive
	quiet      time.Duration

	inTester func(func() error) error        // runs a function in the tester's namespace
	hold     func(ctx context.Context) error // keeps the device where it was placed
	facts    result.Device
	tester   result.Tester
	notes    []string
	device   *device.Device // nil between network cards
	closers  []func() error // run last to first
}

// generator is what sends: a program that makes frames in the driver, or a socket.
type generator interface {
	SetLap(traffic.Lap) error
	SetReplay(frames []traffic.Recorded, period time.Duration) error
	Run(context.Context, traffic.Order) (traffic.Sent, error)
	Progress() traffic.Sent
}

// How frames are sent, as reports call it.
const (
	byProgram = "XDP live frames"
	bySocket  = "AF_PACKET socket"
)

// Names of the tester's ports.
const leftPort, rightPort = "left", "right"

// Networks of the rig by side. Hosts that traffic comes from and goes to are in the
// wider ones; the device reaches them through next hops in the narrow ones.
var (
	portNetworks = [2][]netip.Prefix{device.InAddresses, device.OutAddresses}
	hostNetworks = [2][]netip.Prefix{device.InHosts, device.OutHosts}
)

// nextHops is how many next hops of each family are behind a port: a table that
// is spread over many can't be merged to almost nothing.
const nextHops = 64

// Start builds the rig out of namespaces, with the device in it and ready. The caller closes it.
func Start(ctx context.Context, s Setup) (*Rig, error) {
	cpus, err := machine.Allowed()
	if err != nil {
		return nil, err
	}
	place, err := place(cpus, max(1, s.Lanes))
	if err != nil {
		return nil, err
	}
	return start(ctx, s, place)
}

// start builds the rig with its parts placed on processors.
func start(ctx context.Context, s Setup, place placement) (*Rig, error) {
	l, err := lab.Start(ctx, topology(s.Device, len(place.generators)))
	if err != nil {
		return nil, err
	}
	tester := l.Node("tester")
	r := &Rig{
		place: place, hops: s.Device.Hops(), macBytes: 6, quiet: drainQuiet,
		inTester: tester.Do, closers: []func() error{l.Close},
	}
	if err := r.build(ctx, l, s); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// topology cables the tester with the device, or, when that is a cable, with itself.
// Ports have a queue for each lane.
func topology(d device.Spec, lanes int) lab.Topology {
	silent := func(name string) lab.Port { return lab.Port{Node: "tester", Name: name, Silent: true} }
	t := lab.Topology{Nodes: []lab.Node{{Name: "tester"}}}
	if d.Kind == device.None {
		t.Links = []lab.Link{{A: silent(leftPort), B: silent(rightPort), Queues: lanes}}
		return t
	}
	t.Nodes = append(t.Nodes, lab.Node{Name: "device"})
	t.Links = []lab.Link{
		{A: silent(leftPort), B: lab.Port{Node: "device", Name: device.In}, Queues: lanes},
		{A: silent(rightPort), B: lab.Port{Node: "device", Name: device.Out}, Queues: lanes},
	}
	return t
}

func (r *Rig) build(ctx context.Context, l *lab.Lab, s Setup) (err error) {
	tester := l.Node("tester")
	for i, name := range []string{leftPort, rightPort} {
		r.sides[i].name = name
		if r.sides[i].index, r.sides[i].mac, err = tester.Port(name); err != nil {
			return err
		}
	}
	if err := r.equip(byProgram); err != nil {
		return err
	}
	var node *lab.Running
	if s.Device.Kind != device.None {
		node = l.Node("device")
	}
	if s.Device.Hops() > 0 {
		r.macBytes = 5 // the last tells next hops apart
	}
	if r.device, err = s.Device.Start(ctx, node, r.wiring(s.Table), s.Means); err != nil {
		return err
	}
	if err := r.device.AwaitReady(ctx); err != nil {
		return err
	}
	for i := range r.sides {
		if r.sides[i].nextHop, err = r.device.Target(i, r.sides[1-i].mac); err != nil {
			return err
		}
	}
	r.hold = func(ctx context.Context) error { return r.holdDevice(ctx, l) }
	if r.facts, err = r.device.Facts(ctx); err != nil {
		return err
	}
	r.describe(l)
	return r.Load(s.Traffic)
}

// equip loads the tester's programs and attaches the sink to both ports.
func (r *Rig) equip(transmit string) (err error) {
	r.tester.Transmit = transmit
	for range r.place.generators {
		if transmit == bySocket {
			r.generators = append(r.generators, traffic.NewSocketGenerator())
			continue
		}
		g, err := traffic.NewGenerator()
		if err != nil {
			return err
		}
		r.generators = append(r.generators, g)
		r.closers = append(r.closers, g.Close)
	}
	if r.sink, err = traffic.NewSink(); err != nil {
		return err
	}
	r.closers = append(r.closers, r.sink.Close)
	for _, s := range r.sides {
		if err := r.inTester(func() error { return r.sink.Attach(s.index) }); err != nil {
			return err
		}
	}
	return nil
}

// wiring is what is around the device.
func (r *Rig) wiring(table []netip.Prefix) device.Wiring {
	var w device.Wiring
	for i, name := range []string{device.In, device.Out} {
		p := device.Port{Name: name, Addresses: portNetworks[i], Stations: r.stations(i), Routes: hostNetworks[i]}
		if i == 1 && len(table) > 0 {
			p.Routes = table
		}
		w.Ports = append(w.Ports, p)
	}
	return w
}

// stations are the next hops behind a side: all of them are the tester's port,
// whose MAC they have but for its last byte.
func (r *Rig) stations(i int) (out []device.Station) {
	if r.hops == 0 {
		return []device.Station{{Address: portNetworks[i][0].Addr().Next(), MAC: r.sides[i].mac}}
	}
	for _, network := range portNetworks[i] {
		a := network.Addr()
		for range 8 {
			a = a.Next() // the first ones are the ports' own
		}
		for n := range nextHops {
			mac := append(net.HardwareAddr(nil), r.sides[i].mac...)
			mac[5] = byte(n)
			out = append(out, device.Station{Address: a, MAC: mac})
			a = a.Next()
		}
	}
	return out
}

// holdDevice ties the device's receive threads to its processor. It is asked
// before every trial, because a router that reloads its program gets new threads.
func (r *Rig) holdDevice(ctx context.Context, l *lab.Lab) error {
	r.threads = nil
	tester := l.Node("tester")
	for _, s := range r.sides {
		at := []int{r.place.sink}
		if r.device.Node() == nil { // the cable's ends are the tester's own
			at = r.place.device
		} else if r.place.sink < 0 {
			continue
		}
		if _, err := thread(ctx, tester, s.name, at...); err != nil {
			return err
		}
	}
	if r.device.Node() == nil {
		return nil
	}
	for _, port := range []string{device.In, device.Out} {
		pids, err := thread(ctx, r.device.Node(), port, r.place.device...)
		if err != nil {
			return err
		}
		r.threads = append(r.threads, pids...)
	}
	return nil
}

// describe fills in what a report says of the tester.
func (r *Rig) describe(l *lab.Lab) {
	r.tester = result.Tester{
		Topology: "tester and device in namespaces, joined by veth pairs",
		Mode:     "open loop",
		Transmit: r.tester.Transmit, Receive: r.sink.Receive(r.sides[1].index), Batch: traffic.Batch, CPUs: r.place.describe(),
	}
	for _, s := range r.sides {
		r.tester.Ports = append(r.tester.Ports, result.Port{Name: s.name, Driver: "veth", Role: "generator and sink"})
	}
	r.notes = append(r.notes, "The device's ports are veth interfaces with a ring of 256 frames and no line rate: throughput is what its processors forward.")
	if r.place.sink < 0 {
		r.notes = append(r.notes, "Counting arrived frames takes a share of the device's processor.")
	}
}

// Name is the device's name as figures refer to it.
func (r *Rig) Name() string { return r.facts.Name }

// Facts describes the device.
func (r *Rig) Facts() result.Device { return r.facts }

// Tester describes the equipment.
func (r *Rig) Tester() result.Tester { return r.tester }

// Notes are what a reader must know to judge the figures.
func (r *Rig) Notes() []string { return r.notes }

// Device is the device in its namespace; nil between network cards.
func (r *Rig) Device() *device.Device { return r.device }

// LineRate returns the most frames per second that the ports can carry in all
// directions that are used, for frames of a mean size with FCS: every frame is
// preceded by 8 bytes of preamble and followed by a gap of 12. 0 means that
// there is no such limit (veth).
func (r *Rig) LineRate(meanSize float64) float64 {
	if r.tester.LineRate == 0 {
		return 0
	}
	rate := r.tester.LineRate / (8 * (meanSize + 20))
	if r.both {
		rate *= 2
	}
	return rate
}

// Close takes everything down.
func (r *Rig) Close() error {
	var errs []error
	for i := len(r.closers) - 1; i >= 0; i-- {
		errs = append(errs, r.closers[i]())
	}
	r.closers = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("take the rig down: %w", err)
	}
	return nil
}
