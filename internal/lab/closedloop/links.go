// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"net/netip"

	"minne/internal/lab/device"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
)

// Bridges is a rig of Minne routers that differ in one thing: which of their ports are ports of a bridge.
// There are two without bridges, since two equal routers differ, too, each with its own place in memory.
type Bridges struct {
	*Rig
	Plain, Again *Path // no bridge
	In, InSlow   *Path // the entry is a port of a bridge: the fast path, and the kernel by a second such entry
	Out          *Path // the way out is a port of a bridge
	Single       *Load // one flow of IPv4
}

// NewBridges builds the routers and waits until their fast paths forward. The caller closes the rig.
func NewBridges(ctx context.Context, means device.Means) (*Bridges, error) {
	place := func(name string, bridge ...string) Place {
		return Place{Name: name, Device: device.Spec{Kind: device.Minne}, Routes: HostRoutes(), Bridge: bridge}
	}
	in := place("in", device.In, slowPort)
	in.Slow = true
	r, err := NewRig(ctx, means, place("plain"), in, place("out", device.Out), place("again"))
	if err != nil {
		return nil, err
	}
	b := &Bridges{Rig: r, Plain: r.Path("plain"), Again: r.Path("again"), In: r.Path("in"), InSlow: r.SlowPath("in"), Out: r.Path("out")}
	if b.Single, err = r.LoadTo([]netip.Addr{device.OutHosts[0].Addr().Next()}); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, p := range []*Path{b.Plain, b.Again, b.In, b.Out} {
		if err := p.AwaitFast(ctx, b.Single); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return b, nil
}

// Extra measures by how many ns a packet through more takes longer than through plain. again is an equal device
// as plain, built once more: what those two differ by is noise.
func Extra(ctx context.Context, plain, more, again Side, n int) (longer, same result.Interval, err error) {
	r, err := alternate(ctx, n, nil, plain, more, again)
	if err != nil {
		return longer, same, err
	}
	longer, same = statistics.Extra(r.times[0], r.times[1], r.times[2])
	return longer, same, nil
}
