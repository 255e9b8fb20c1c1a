// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/openloop"
	"minne/internal/lab/pattern"
	"minne/internal/lab/result"
	"minne/internal/lab/session"
	"minne/internal/lab/trial"
)

// Plan is what to measure.
type Plan struct {
	Devices []device.Spec
	Traffic []pattern.Pattern // each with its frame size or mix
	Table   []netip.Prefix    // routes of the devices behind the right-hand port; none is one network a side
	Cards   *openloop.Cards   // network cards instead of namespaces; then there is one device, "external"
	Means   device.Means
	Lanes   int // generators, each with a receive queue of the device; 0 is 1
	Methods []Method
	WarmUp  time.Duration // before each traffic; 0 is trial.Options' own
}

// Method measures one figure.
type Method struct {
	Name string
	Run  func(ctx context.Context, t *Target) error
}

// Target is a device with traffic that is ready to be measured.
type Target struct {
	Session *session.Session
	Rig     *openloop.Rig
	Tester  *trial.Engine
	Subject result.Subject
	MaxLoad float64 // greatest load worth offering, frames per second

	// What earlier methods found for this target; 0 when they didn't run.
	NDR, PDR float64

	traffic pattern.Pattern
	cable   *cable
}

// Run measures everything of the plan. What was found so far is in the session's
// result, whatever the error.
func (p Plan) Run(ctx context.Context, s *session.Session) error {
	c := &cable{plan: p, session: s}
	defer c.close()
	devices := p.Devices
	if p.Cards != nil {
		devices = []device.Spec{{Kind: "external"}}
	}
	for _, d := range devices {
		if err := p.device(ctx, s, c, d); err != nil {
			return err
		}
	}
	return nil
}

// device measures one device with every traffic.
func (p Plan) device(ctx context.Context, s *session.Session, c *cable, d device.Spec) (err error) {
	s.Step("building the rig around %s", d)
	rig, err := p.rig(ctx, d, p.Traffic[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	s.Update(func(r *result.Result) { r.AddDevice(rig.Facts()); r.Tester = rig.Tester() })
	for _, note := range rig.Notes() {
		s.Note(note)
	}
	for _, traffic := range p.Traffic {
		if err := p.target(ctx, s, c, rig, traffic); err != nil {
			return fmt.Errorf("%s, %s: %w", d, traffic, err)
		}
	}
	return nil
}

func (p Plan) rig(ctx context.Context, d device.Spec, traffic pattern.Pattern) (*openloop.Rig, error) {
	setup := openloop.Setup{Device: d, Traffic: traffic, Lanes: p.Lanes, Table: p.Table, Means: p.Means}
	if p.Cards != nil {
		return openloop.StartCards(ctx, *p.Cards, setup)
	}
	return openloop.Start(ctx, setup)
}

// target runs all methods on one device and traffic.
func (p Plan) target(ctx context.Context, s *session.Session, c *cable, rig *openloop.Rig, traffic pattern.Pattern) error {
	if err := rig.Load(traffic); err != nil {
		return err
	}
	t := &Target{Session: s, Rig: rig, Subject: rig.Subject(), traffic: traffic, cable: c}
	limit, err := rig.MaxRate(ctx)
	if err != nil {
		return err
	}
	t.MaxLoad = limit
	if line := rig.LineRate(t.Subject.MeanSize); line > 0 {
		t.MaxLoad = min(limit, line)
	}
	t.Tester = trial.NewEngine(rig, trial.Options{Record: s.Record, WarmUp: p.WarmUp, MaxLoad: t.MaxLoad, Traffic: t.what(), Device: rig.Name()})
	defer t.noteDisturbed()
	s.Update(func(r *result.Result) { r.Tester.MaxRate = max(r.Tester.MaxRate, limit) })
	withdraw := figures(s)
	for _, m := range p.Methods {
		s.Step("%s: %s, %s", rig.Name(), t.what(), m.Name)
		err := m.Run(ctx, t)
		if wrong := (*trial.WrongError)(nil); errors.As(err, &wrong) {
			withdraw()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// figures notes which figures there are. What it returns takes later ones away again, those of
// a device that turned out to forward wrongly; the trials behind them stay.
func figures(s *session.Session) (withdraw func()) {
	var before result.Result
	s.Update(func(r *result.Result) { before = *r })
	return func() {
		s.Update(func(r *result.Result) {
			r.Throughput, r.Loss, r.BackToBack, r.Latency = before.Throughput, before.Loss, before.BackToBack, before.Latency
			r.Recovery, r.Soak, r.MRR, r.Energy = before.Recovery, before.Soak, before.MRR, before.Energy
		})
	}
}

// what names the traffic for people.
func (t *Target) what() string {
	if t.Subject.FrameSize > 0 {
		return fmt.Sprintf("%s, %d bytes", t.Subject.Traffic, t.Subject.FrameSize)
	}
	return t.Subject.Traffic + ", sizes " + t.Subject.Mix
}

// noteDisturbed tells how many trials the machine spoilt.
func (t *Target) noteDisturbed() {
	if c := t.Tester.Counts(); c.Disturbed > 0 {
		t.Session.Note(fmt.Sprintf("%s, %s: %d of %d trials were disturbed by the machine in every repetition; what they lost counts all the same.",
			t.Rig.Name(), t.what(), c.Disturbed, c.Trials))
	}
}

// progress is what a method tells meanwhile.
func (t *Target) progress(text string, left time.Duration) { t.Session.Progress(text, left) }
