// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
	"minne/internal/lab/traffic"
)

// Journal takes what a measurement finds and tells; a session of the lab is one.
type Journal interface {
	Step(format string, args ...any)
	Progress(text string, left time.Duration)
	Update(change func(*result.Result))
	Note(text string)
}

// LeastRounds is how many rounds a figure needs to mean something when the user ends it early.
const LeastRounds = 3

// Plan is what to measure with.
type Plan struct {
	Means   device.Means
	Table   []netip.Prefix // the devices' routes; none is one for each family
	Traffic []pattern.Pattern
	Rounds  int
}

// Cost measures what each device costs with each kind of traffic.
func (p Plan) Cost(ctx context.Context, j Journal, devices []device.Spec) error {
	for _, d := range devices {
		if err := p.costOf(ctx, j, d); err != nil {
			return err
		}
	}
	return nil
}

func (p Plan) costOf(ctx context.Context, j Journal, d device.Spec) (err error) {
	r, err := p.rig(ctx, j, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, t := range p.Traffic {
		load, err := r.Load(t)
		if err != nil {
			return err
		}
		j.Step("%s: cost of a packet, %s", d, t)
		c, err := Cost(ctx, Side{r.Path(placeName(0)), load}, p.Rounds, p.progress(j))
		if c.Rounds >= LeastRounds || err == nil {
			j.Update(func(r *result.Result) { r.Cost = append(r.Cost, c) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Compare measures device B against device A with each kind of traffic.
func (p Plan) Compare(ctx context.Context, j Journal, a, b device.Spec) (err error) {
	r, err := p.rig(ctx, j, a, b, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	j.Note("Each comparison also measures a second device like A: A ÷ A is the ratio of those two.")
	for _, t := range p.Traffic {
		load, err := r.Load(t)
		if err != nil {
			return err
		}
		j.Step("%s against %s, %s", b, a, t)
		side := func(i int) Side { return Side{r.Path(placeName(i)), load} }
		c, err := Against(ctx, side(0), side(1), side(2), p.Rounds, p.progress(j))
		if c.Rounds >= LeastRounds || err == nil {
			j.Update(func(r *result.Result) { r.Comparisons = append(r.Comparisons, c) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// placeName names the i-th place of a rig.
func placeName(i int) string { return string(rune('a' + i)) }

// rig builds one with these devices and describes it; of equal devices only the first is told of.
func (p Plan) rig(ctx context.Context, j Journal, devices ...device.Spec) (*Rig, error) {
	for _, t := range p.Traffic {
		if err := Supports(t); err != nil {
			return nil, err
		}
	}
	routes := p.Table
	if len(routes) == 0 {
		routes = HostRoutes()
	}
	var places []Place
	for i, d := range devices {
		j.Step("building %s, %d routes", d, len(routes))
		places = append(places, Place{Name: placeName(i), Device: d, Routes: routes})
	}
	r, err := NewRig(ctx, p.Means, places...)
	if err != nil {
		return nil, err
	}
	if err := p.describe(ctx, j, r, places); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (p Plan) describe(ctx context.Context, j Journal, r *Rig, places []Place) error {
	seen := map[device.Spec]bool{}
	for _, place := range places {
		if seen[place.Device] {
			continue
		}
		seen[place.Device] = true
		facts, err := r.Device(place.Name).Facts(ctx)
		if err != nil {
			return err
		}
		j.Update(func(r *result.Result) { r.AddDevice(facts) })
	}
	j.Update(func(res *result.Result) { res.Tester = r.Tester() })
	j.Note("Closed loop: generator, device and sink take turns on one processor, in batches of " + fmt.Sprint(traffic.Batch) +
		" frames. Figures are processor time per packet: they show what a packet costs, not what happens under overload.")
	return nil
}

// Tester describes the equipment.
func (r *Rig) Tester() result.Tester {
	t := result.Tester{
		Topology: "generator, devices side by side and sink in namespaces, joined by veth pairs",
		Mode:     "closed loop, 1 core",
		Transmit: "XDP live frames", Receive: "XDP native", Batch: traffic.Batch,
		CPUs: []string{fmt.Sprintf("generator, device and sink on CPU %d of %d", r.cpu, runtime.NumCPU())},
	}
	t.Ports = []result.Port{{Name: directPort, Driver: "veth", Role: "generator"}, {Name: directPort, Driver: "veth", Role: "sink"}}
	return t
}

// progress tells how far the rounds of one figure are.
func (p Plan) progress(j Journal) func(done int) {
	begun := time.Now()
	return func(done int) {
		left := time.Since(begun) / time.Duration(done) * time.Duration(p.Rounds-done)
		j.Progress(fmt.Sprintf("round %d of %d", done, p.Rounds), left)
	}
}
