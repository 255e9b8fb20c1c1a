// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"minne/internal/lab"
	"minne/internal/rib"
)

// Loader puts routes into the kernel of the calling thread's namespace.
type Loader func(ctx context.Context, routes []rib.Route) error

// routed is a rig with a Minne router in the middle.
type routed struct {
	*Rig
	minne *lab.Minne
	load  Loader
}

// config is the router's file: packets from slow are left to the kernel, those from fast are not.
func config() string {
	list := func(all []netip.Prefix) string {
		texts := make([]string, len(all))
		for i, p := range all {
			texts[i] = `"` + p.String() + `"`
		}
		return strings.Join(texts, ", ")
	}
	return fmt.Sprintf(`version: 1
system: {hostname: bench}
interfaces:
  slow: {addresses: [%s], fast-path: off}
  fast: {addresses: [%s]}
  out: {addresses: [%s]}
`, list(SlowAddresses), list(FastAddresses), list(OutAddresses))
}

// newRouted builds a rig and configures its router. Its only routes are to the connected networks.
func newRouted(ctx context.Context, binary string, load Loader) (*routed, error) {
	rig, err := NewRig(ctx)
	if err != nil {
		return nil, err
	}
	r := &routed{Rig: rig, load: load}
	if err := r.configure(ctx, binary); err != nil {
		return nil, errors.Join(err, rig.Close())
	}
	return r, nil
}

func (r *routed) configure(ctx context.Context, binary string) (err error) {
	if r.minne, err = r.Router.Minne(binary, config(), ""); err != nil {
		return err
	}
	if err := r.minne.StartDaemon(ctx); err != nil {
		return err
	}
	if _, err := r.minne.Command(ctx, "apply", r.minne.Config); err != nil {
		return fmt.Errorf("%w\ndaemon: %s", err, r.minne.Log(10))
	}
	return r.Neighbours()
}

// install puts routes to the prefixes into the router's kernel.
func (r *routed) install(ctx context.Context, prefixes []netip.Prefix) error {
	routes, err := r.Table(prefixes)
	if err != nil {
		return err
	}
	return r.Router.Do(func() error { return r.load(ctx, routes) })
}

// awaitFast waits until the fast path forwards packets to every destination of a family that is loaded.
func (r *routed) awaitFast(ctx context.Context, ipv6 bool, destinations int) error {
	for _, n := range []int{min(destinations, 4096), destinations} {
		err := lab.Until(ctx, time.Minute, "the fast path to forward all packets", func() error {
			before, err := r.KernelForwarded(ipv6)
			if err != nil {
				return lab.Hopeless{Err: err}
			}
			t, err := r.Try(ctx, Fast, ipv6, n, 0, 0)
			if err != nil {
				return lab.Hopeless{Err: err}
			}
			after, err := r.KernelForwarded(ipv6)
			if err != nil {
				return lab.Hopeless{Err: err}
			}
			if after != before || t.Lost > 0 {
				return fmt.Errorf("of %d packets %d were lost and %d left to the kernel", n, t.Lost, after-before)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%w\ndaemon: %s", err, r.minne.Log(10))
		}
	}
	return nil
}
