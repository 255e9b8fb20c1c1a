// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
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

// randomRouted returns n uniformly random IPv4 addresses for which the table has a route.
func randomRouted(table []netip.Prefix, n int, random *rand.Rand) []netip.Addr {
	covered := ranges(table)
	out := make([]netip.Addr, 0, n)
	for len(out) < n {
		a := random.Uint32()
		// The last range that begins at or before a.
		i, found := slices.BinarySearchFunc(covered, a, func(r [2]uint32, a uint32) int {
			switch {
			case r[0] < a:
				return -1
			case r[0] > a:
				return 1
			}
			return 0
		})
		if !found {
			i--
		}
		if i >= 0 && a <= covered[i][1] {
			out = append(out, addr4(a))
		}
	}
	return out
}

// ranges returns the address ranges that IPv4 prefixes cover, in order and apart from each other.
func ranges(table []netip.Prefix) (out [][2]uint32) {
	var all [][2]uint32
	for _, p := range table {
		if p.Addr().Is4() {
			first := number4(p.Addr())
			all = append(all, [2]uint32{first, first | uint32(1<<(32-p.Bits())-1)})
		}
	}
	slices.SortFunc(all, func(a, b [2]uint32) int { return int(int64(a[0]) - int64(b[0])) })
	for _, r := range all {
		if n := len(out); n > 0 && r[0] <= out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], r[1])
		} else {
			out = append(out, r)
		}
	}
	return out
}

func number4(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func addr4(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

// insideOf returns n addresses, each a random host of another of the IPv6 prefixes, in random order.
func insideOf(table []netip.Prefix, n int, random *rand.Rand) []netip.Addr {
	out := make([]netip.Addr, 0, n)
	for len(out) < n {
		for _, i := range random.Perm(len(table)) {
			if p := table[i]; p.Addr().Is6() && len(out) < n {
				out = append(out, randomHost(p, random))
			}
		}
	}
	return out
}

func randomHost(p netip.Prefix, random *rand.Rand) netip.Addr {
	a := p.Addr().As16()
	for bit := p.Bits(); bit < 128; bit++ {
		if random.Uint32()&1 == 1 {
			a[bit/8] |= 0x80 >> (bit % 8)
		}
	}
	return netip.AddrFrom16(a)
}
