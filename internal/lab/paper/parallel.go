// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/machine"
	"minne/internal/lab"
	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
	"minne/internal/lab/traffic"
)

// parallel is a closed loop on several processors at once: on each of them a
// generator sends, the device forwards and the sink counts, in turn. All ports
// have a queue for every processor, as network cards with multi-queue do, so
// nothing is handed from one processor to another; what they still share (locks,
// caches, memory, counters) is what keeps all of them from being as fast as so many.
//
//	generators ──── tx ▶ in  device  out ▶ rx ──── sink
//
// With no device the cable goes from tx to rx.
type parallel struct {
	lab        *lab.Lab
	device     *device.Device // of a cable it has no node
	sink       *traffic.Sink
	cpus       []int
	generators []*traffic.Generator // one for each processor; its number is its stream
	route      traffic.Route
	expect     traffic.Expect
}

// Nodes and ports of the rig.
const (
	sender, counter = "generator", "sink"
	txPort, rxPort  = "tx", "rx"
)

// newParallel builds the rig with a load for every processor. The caller closes it.
func newParallel(ctx context.Context, means device.Means, d device.Spec, cpus []int) (*parallel, error) {
	silent := func(node, name string) lab.Port { return lab.Port{Node: node, Name: name, Silent: true} }
	t := lab.Topology{Nodes: []lab.Node{{Name: sender}, {Name: counter}}}
	if d.Kind == device.None {
		t.Links = []lab.Link{{A: silent(sender, txPort), B: silent(counter, rxPort), Queues: len(cpus)}}
	} else {
		t.Nodes = append(t.Nodes, lab.Node{Name: "device"})
		t.Links = []lab.Link{
			{A: silent(sender, txPort), B: lab.Port{Node: "device", Name: device.In}, Queues: len(cpus)},
			{A: lab.Port{Node: "device", Name: device.Out}, B: silent(counter, rxPort), Queues: len(cpus)},
		}
	}
	l, err := lab.Start(ctx, t)
	if err != nil {
		return nil, err
	}
	p := &parallel{lab: l, cpus: cpus}
	if err := p.build(ctx, means, d); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *parallel) build(ctx context.Context, means device.Means, d device.Spec) (err error) {
	if p.sink, err = traffic.NewSink(); err != nil {
		return err
	}
	index, mac, err := p.lab.Node(counter).Port(rxPort)
	if err != nil {
		return err
	}
	if err := p.lab.Node(counter).Do(func() error { return p.sink.Attach(index) }); err != nil {
		return err
	}
	if p.route.Port, p.route.From, err = p.lab.Node(sender).Port(txPort); err != nil {
		return err
	}
	var node *lab.Running
	if d.Kind != device.None {
		node = p.lab.Node("device")
	}
	if p.device, err = d.Start(ctx, node, around(p.route.From, mac), means); err != nil {
		return err
	}
	if err := p.device.AwaitReady(ctx); err != nil {
		return err
	}
	p.expect = traffic.Expect{TTL: 64 - uint8(d.Hops()), MAC: mac, MACBytes: 6}
	p.route.To, err = p.device.Target(0, mac)
	return err
}

// around is what is around the device: a host on either side, and a network behind it. All is IPv4.
func around(left, right net.HardwareAddr) device.Wiring {
	port := func(name string, addresses, hosts []netip.Prefix, mac net.HardwareAddr) device.Port {
		return device.Port{
			Name: name, Addresses: addresses[:1], Routes: hosts[:1],
			Stations: []device.Station{{Address: addresses[0].Addr().Next(), MAC: mac}},
		}
	}
	return device.Wiring{Ports: []device.Port{
		port(device.In, device.InAddresses, device.InHosts, left),
		port(device.Out, device.OutAddresses, device.OutHosts, right),
	}}
}

// load sets the traffic: the same pattern for each processor, each time drawn anew.
func (p *parallel) load(traffics pattern.Pattern) error {
	for len(p.generators) < len(p.cpus) {
		g, err := traffic.NewGenerator()
		if err != nil {
			return err
		}
		p.generators = append(p.generators, g)
	}
	for i, g := range p.generators {
		drawn := traffics
		drawn.Seed += uint64(i)
		lap, err := drawn.Lap(pattern.Ends{Forward: pattern.Direction{
			IPv4: pattern.Networks{Stream: uint8(i), Sources: device.InHosts[0], Destinations: device.OutHosts[:1]},
		}})
		if err != nil {
			return err
		}
		if err := g.SetLap(lap); err != nil {
			return err
		}
	}
	return nil
}

// passed is what went through on all processors together, frames per second.
type passed struct{ sent, received float64 }

// try sends as fast as it goes on the first n processors.
func (p *parallel) try(ctx context.Context, n int, duration time.Duration) (passed, error) {
	expect := map[uint8]traffic.Expect{}
	for i := range n {
		expect[uint8(i)] = p.expect
	}
	if err := p.sink.ExpectStreams(expect); err != nil {
		return passed{}, err
	}
	sent, errs := make([]traffic.Sent, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { sent[i], errs[i] = p.send(ctx, i, duration) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return passed{}, err
	}
	arrived, err := p.drain(sent)
	if err != nil {
		return passed{}, err
	}
	var sum passed
	for i, s := range sent {
		a := arrived[uint8(i)]
		if a.Wrong() != "" {
			return passed{}, fmt.Errorf("%s forwards wrongly: %s", p.device, a.Wrong())
		}
		sum.sent += float64(s.Frames) / s.Elapsed.Seconds()
		sum.received += float64(a.Received) / s.Elapsed.Seconds()
	}
	return sum, ctx.Err()
}

// send runs the i-th generator on its processor.
func (p *parallel) send(ctx context.Context, i int, duration time.Duration) (sent traffic.Sent, err error) {
	err = p.lab.Node(sender).Do(func() (err error) {
		var one unix.CPUSet
		one.Set(p.cpus[i])
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			return fmt.Errorf("pin to CPU %d: %w", p.cpus[i], err)
		}
		sent, err = p.generators[i].Run(ctx, traffic.Order{Routes: map[uint8]traffic.Route{uint8(i): p.route}, Duration: duration})
		if err == nil && (sent.Frames == 0 || sent.Elapsed <= 0) {
			err = fmt.Errorf("the generator on CPU %d sent nothing: is the port up?", p.cpus[i])
		}
		return err
	})
	return sent, err
}

// drain reads the counters as soon as all has arrived or nothing more comes.
func (p *parallel) drain(sent []traffic.Sent) (map[uint8]traffic.Arrived, error) {
	before := uint64(0)
	for quiet := 0; ; quiet++ {
		arrived, err := p.sink.Read()
		if err != nil {
			return nil, err
		}
		missing, now := uint64(0), uint64(0)
		for i, s := range sent {
			a := arrived[uint8(i)]
			missing += a.Lost(s.Frames)
			now += a.Received
		}
		if now != before {
			before, quiet = now, 0
		}
		if missing == 0 || quiet == 10 {
			return arrived, nil
		}
		time.Sleep(3 * time.Millisecond)
	}
}

// forwardsItself sees that a fast path is what forwards, once the caches are warm.
func (p *parallel) forwardsItself(ctx context.Context) error {
	if p.device.Forwarder(false) != device.ByFastPath {
		_, err := p.try(ctx, len(p.cpus), 100*time.Millisecond)
		return err
	}
	return lab.Until(ctx, time.Minute, "the fast path to forward everything", func() error {
		before, err := p.device.Node().KernelForwarded(false)
		if err != nil {
			return lab.Hopeless{Err: err}
		}
		const length = 100 * time.Millisecond
		rate, err := p.try(ctx, len(p.cpus), length)
		if err != nil {
			return lab.Hopeless{Err: err}
		}
		after, err := p.device.Node().KernelForwarded(false)
		if err != nil {
			return lab.Hopeless{Err: err}
		}
		if after-before > lab.LeftByChance(uint64(rate.sent*length.Seconds())) {
			return fmt.Errorf("%d packets were left to the kernel", after-before)
		}
		return nil
	})
}

// Close removes the rig.
func (p *parallel) Close() error {
	var errs []error
	for _, g := range p.generators {
		errs = append(errs, g.Close())
	}
	if p.sink != nil {
		errs = append(errs, p.sink.Close())
	}
	return errors.Join(append(errs, p.lab.Close())...)
}

// grown is what all processors do against one.
type grown struct {
	result.Comparison
	all []passed // trials of all processors
}

// grow measures one processor, all, and one again, in rounds, and enters the
// comparison. What was measured counts even when ctx ends the rounds early.
func (e *experiment) grow(ctx context.Context, p *parallel, name string, traffics pattern.Pattern) (g grown, err error) {
	if err := p.load(traffics); err != nil {
		return g, err
	}
	if err := p.forwardsItself(ctx); err != nil {
		return g, err
	}
	e.session.Step("closed loop on 1 and on %d processors: %s, %s", len(p.cpus), name, traffics)
	g.Subject = traffics.Subject("")
	g.A, g.B = name+", 1 processor", fmt.Sprintf("%s, %d processors", name, len(p.cpus))
	var one, all, ratios, same []float64
	for range e.pace.turns {
		var round [3]passed
		for j, n := range []int{1, len(p.cpus), 1} {
			if round[j], err = p.try(ctx, n, e.pace.turn/2); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
		g.all = append(g.all, round[1])
		if round[0].received <= 0 || round[2].received <= 0 {
			continue
		}
		before := math.Sqrt(round[0].received * round[2].received)
		one, all = append(one, before), append(all, round[1].received)
		ratios, same = append(ratios, round[1].received/before), append(same, round[2].received/round[0].received)
	}
	if len(ratios) == 0 {
		return g, err
	}
	g.RateA, g.RateB, g.Rounds = statistics.Median(one), statistics.Median(all), len(ratios)
	g.Ratio, g.SameSame = statistics.Interval(ratios), statistics.Interval(same)
	g.Verdict = verdict(g.Comparison)
	e.session.Update(func(r *result.Result) { r.Comparisons = append(r.Comparisons, g.Comparison) })
	return g, err
}

// tooFew is why what needs several processors could not be run.
const tooFew = "it needs two processors or more, and this machine gives one"

// severalProcessors returns the processors, or none, with the rows marked, where
// there is but one. The note says what of the paper's four could not be run.
func (e *experiment) severalProcessors(four string, rows ...string) ([]int, error) {
	cpus, err := machine.Allowed()
	if err != nil {
		return nil, err
	}
	if len(cpus) < 2 {
		for _, row := range rows {
			e.missing(row, tooFew)
		}
		return nil, nil
	}
	e.session.Note(fmt.Sprintf("\"All processors\" are %d here, of one machine that sends, receives and counts; the paper had %s.", len(cpus), four))
	if len(cpus) < 4 {
		e.session.Note("Four processors could not be run: this machine has too few.")
	}
	return cpus, nil
}
