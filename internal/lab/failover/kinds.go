// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"minne/internal/lab"
)

// Kind is a way in which an uplink falls out of use.
type Kind string

// The kinds.
const (
	Silence Kind = "silence" // the ISP drops all packets, its ports stay up
	Link    Kind = "link"    // the link goes down
	BGP     Kind = "bgp"     // the ISP's BGP daemon is killed; its kernel forwards what it can
	Off     Kind = "off"     // the operator says minne uplink isp-a off
	Flap    Kind = "flap"    // the link goes down and up again, flaps times
)

// Kinds are all of them, in the order in which they are measured.
var Kinds = []Kind{Off, Link, BGP, Silence, Flap}

// The link is down, and up again, for flapPause each time: five times within ten seconds.
const (
	flaps     = 5
	flapPause = time.Second
)

// ParseKinds takes kinds by their names; none are all.
func ParseKinds(names []string) ([]Kind, error) {
	var all []string
	for _, k := range Kinds {
		all = append(all, string(k))
	}
	var kinds []Kind
	for _, name := range names {
		if !slices.Contains(Kinds, Kind(name)) {
			return nil, fmt.Errorf("no kind of death %q; expected some of %s", name, strings.Join(all, ", "))
		}
		kinds = append(kinds, Kind(name))
	}
	if kinds == nil {
		return Kinds, nil
	}
	return kinds, nil
}

// die lets isp-a fall out of use.
func (b *Bed) die(ctx context.Context, k Kind) (err error) {
	isp := b.lab.Node("isp-a")
	switch k {
	case Silence:
		_, err = isp.Run(ctx, "nft", "table inet dead { chain in { type filter hook prerouting priority raw; drop; }; chain out { type filter hook output priority raw; drop; }; }")
	case Link:
		err = isp.SetPort("border", false)
	case BGP:
		b.bird.Kill()
	case Off:
		_, err = b.border.Command(ctx, "uplink", "isp-a", "off")
	case Flap:
		for n := range flaps {
			if n > 0 {
				err = errors.Join(err, lab.Pause(ctx, flapPause), isp.SetPort("border", true), lab.Pause(ctx, flapPause))
			}
			if err = errors.Join(err, isp.SetPort("border", false)); err != nil {
				return err
			}
		}
	}
	return err
}

// revive brings isp-a back.
func (b *Bed) revive(ctx context.Context, k Kind) (err error) {
	isp := b.lab.Node("isp-a")
	switch k {
	case Silence:
		_, err = isp.Run(ctx, "nft", "delete table inet dead")
	case Link, Flap:
		err = isp.SetPort("border", true)
	case BGP:
		b.bird, err = isp.StartBIRD(ctx, birds(b.table)["isp-a"])
	case Off:
		_, err = b.border.Command(ctx, "uplink", "isp-a", "on")
	}
	return err
}

// Ways are what was lost in each direction.
type Ways struct {
	Out lab.Outage `json:"out"` // from desk to the world: what the router decides
	In  lab.Outage `json:"in"`  // from the world to desk: what the ISPs and world decide
}

// Death is what a kind of death cost.
type Death struct {
	Kind Kind   `json:"kind"`
	Seen string `json:"seen"` // what the router said of the uplink
	Dies Ways   `json:"dies"` // until all flowed without the uplink
	Back Ways   `json:"back"` // from its return until the table is complete and all flows by it
}

// Measure lets isp-a die and come back.
func (b *Bed) Measure(ctx context.Context, k Kind) (d Death, err error) {
	d.Kind = k
	d.Dies, err = b.during(ctx, func() error {
		if err := b.die(ctx, k); err != nil {
			return err
		}
		return b.until(ctx, "the router to notice", func() error {
			u, err := b.uplink(ctx)
			if err == nil && u.State == "up" {
				err = errors.New("the uplink is up")
			}
			d.Seen = strings.TrimSuffix(u.State+": "+u.Reason, ": ")
			return err
		})
	})
	if err != nil {
		return d, fmt.Errorf("%s: %w", k, err)
	}
	d.Back, err = b.during(ctx, func() error { return errors.Join(b.revive(ctx, k), b.whole(ctx)) })
	if err != nil {
		return d, fmt.Errorf("back after %s: %w", k, err)
	}
	return d, nil
}

// during has packets flow both ways before, while and after something happens.
func (b *Bed) during(ctx context.Context, happens func() error) (w Ways, err error) {
	desk, world := b.lab.Node("desk"), b.lab.Node("world")
	out, err := lab.StartProbe(desk, world, b.outside, rate, underway)
	if err != nil {
		return w, err
	}
	in, err := lab.StartProbe(world, desk, b.inside, rate, underway)
	if err != nil {
		out.Stop()
		return w, err
	}
	flow := func() error {
		return b.until(ctx, "packets to flow both ways", func() error { return errors.Join(out.Flowing(steady), in.Flowing(steady)) })
	}
	if err = flow(); err == nil {
		err = happens()
	}
	if err == nil {
		err = errors.Join(lab.Pause(ctx, steady+underway+400*time.Millisecond), flow()) // the last second is then one of after it
	}
	w.Out, w.In = out.Stop(), in.Stop()
	return w, err
}
