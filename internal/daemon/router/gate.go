// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"errors"

	"minne/internal/appliance/boot"
	"minne/internal/base/plan"
	"minne/internal/subsystem/firewall"
)

// gate is the firewall on a router that boots with a filter in front of it: that
// one goes once the rules of a configuration are in place, and not before. A
// firewall that can't be put in place leaves it shut. Where there is no such filter,
// as everywhere but on the image, gate is the firewall alone.
type gate struct{ *firewall.Firewall }

// gated is the firewall of a configuration, or of none.
type gated struct {
	firewall.Desired
	configured bool
}

func renderGated(in Input) (gated, error) {
	return gated{in.Firewall, len(in.Config.Interfaces) > 0}, nil
}

func (g gate) Plan(ctx context.Context, d gated) ([]plan.Change, error) {
	return g.Firewall.Plan(ctx, d.Desired)
}

func (g gate) Apply(ctx context.Context, d gated) error {
	if err := g.Firewall.Apply(ctx, d.Desired); err != nil {
		return err
	}
	if !d.configured {
		return nil
	}
	return boot.Open(ctx)
}

// Restore opens the gate when the rules are in force, even if something beside them is missing.
func (g gate) Restore(ctx context.Context, d gated) error {
	err := g.Firewall.Restore(ctx, d.Desired)
	whole := err == nil || g.Firewall.InForce(d.Policy)
	if !d.configured || !whole {
		return err
	}
	return errors.Join(err, boot.Open(ctx))
}

// stands says why a packet might pass that the firewall denies; there is nothing to be
// said when it is in force, or shut. d is what the step of the firewall wants.
func (g gate) stands(d Desired) error {
	want, ok := d.(gated)
	if !ok {
		want.Broken = errors.New("it could not be rendered")
	}
	return g.Firewall.Stands(want.Desired)
}
