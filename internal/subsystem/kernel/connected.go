// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"minne/internal/base/plan"
	"minne/internal/model/rib"
)

// What the kernel makes by itself of an address and of a link, and does not make again when somebody
// removes it: the connected route of an address, and the IPv6 link-local address.
//
// The kernel makes them in the same breath as the address or the link that comes up, but a reader may
// look in the middle of it. So what seems to be missing is looked for again after a question that the
// kernel answers only when it is through (see Watcher.barrier).

// metricConnected6 is IP6_RT_PRIO_ADDRCONF: the metric of what the kernel makes of IPv6 addresses. Of
// IPv4 addresses it is 0.
const metricConnected6 = 256

// onNet is a network that a link is on, and the address that it is on it with.
type onNet struct {
	port    string
	index   int
	address netip.Prefix // with host bits
}

func (o onNet) metric() uint32 {
	if o.address.Addr().Is4() {
		return 0
	}
	return metricConnected6
}

// networks returns the networks of which the kernel has made a connected route in the main table. What belongs into a VRF has none
// there, and goes back into it when somebody has taken it out.
func (r *round) networks() (list []onNet) {
	for _, b := range r.bound {
		if b.link == nil || !b.link.Up || b.Down || b.Name == loopback || b.Table != 0 || r.inVRF(b.link) {
			continue
		}
		for _, a := range r.live {
			four := a.Prefix.Addr().Is4()
			if a.Index != b.link.Index || a.NoRoute || four && (a.Secondary || a.Prefix.IsSingleIP()) || !a.Auto && !slices.Contains(b.Addresses, a.Prefix) {
				continue
			}
			if !slices.ContainsFunc(list, func(o onNet) bool { return o.index == a.Index && o.address.Masked() == a.Prefix.Masked() }) {
				list = append(list, onNet{b.Name, a.Index, a.Prefix})
			}
		}
	}
	return list
}

// inVRF says whether a link's routes are in a table of their own.
func (r *round) inVRF(l *link) bool {
	return l.Master != 0 && slices.ContainsFunc(r.links, func(m link) bool { return m.Index == l.Master && m.Kind == "vrf" })
}

// unconnected returns the networks that have no connected route.
func (r *round) unconnected(ctx context.Context) ([]onNet, error) {
	all := r.networks()
	if len(all) == 0 {
		return nil, nil
	}
	found, err := r.system.connectedRoutes(ctx)
	if err != nil {
		return nil, err
	}
	type place struct {
		prefix netip.Prefix
		index  int
		metric uint32
	}
	there := map[place]bool{}
	for _, f := range found {
		for _, h := range f.Hops {
			there[place{f.Prefix, h.Interface, f.Metric}] = true
		}
	}
	return slices.DeleteFunc(all, func(o onNet) bool { return there[place{o.address.Masked(), o.index, o.metric()}] }), nil
}

// connected compares the connected routes.
func (r *round) connected(ctx context.Context) error {
	missing, err := r.unconnected(ctx)
	if err != nil || len(missing) == 0 {
		return err
	}
	if err := r.lookAgain(); err != nil {
		return err
	}
	if missing, err = r.unconnected(ctx); err != nil {
		return err
	}
	for _, m := range missing {
		words := fmt.Sprintf("connected route %s on %s", m.address.Masked(), m.port)
		r.add(plan.Change{Action: plan.Add, Object: words}, func(context.Context) error {
			err := r.system.addConnected(m)
			if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.EINVAL) && !r.still(m) {
				return nil // the link or the address went: it comes back with them
			}
			return err
		}).of(m.port, words+" was removed")
	}
	return nil
}

// still says whether an address is where it was.
func (r *round) still(m onNet) bool {
	live, err := r.system.addresses()
	return err != nil || slices.ContainsFunc(live, func(a address) bool { return a.Index == m.index && a.Prefix == m.address })
}

// lookAgain reads the links and addresses when the kernel is through with what it was at.
func (r *round) lookAgain() error {
	if err := r.system.barrier(); err != nil {
		return err
	}
	live, err := r.system.addresses()
	if err == nil {
		r.live = live
	}
	return err
}

// withoutLocal returns the interfaces whose link should have an IPv6 link-local address and has none.
func (r *round) withoutLocal() (list []*bound) {
	for _, b := range r.bound {
		if b.link == nil || b.Down || b.Name == loopback || b.Kind.Name == vrf.name || !b.link.Ready {
			continue // a VRF never has one
		}
		if slices.ContainsFunc(r.live, func(a address) bool { return a.Index == b.link.Index && a.Auto }) {
			delete(r.noLocal, b.link.Index)
		} else if !r.noLocal[b.link.Index] {
			list = append(list, b)
		}
	}
	return list
}

// localTries is how often the kernel is asked for a link-local address before it counts as making none: what it makes may be
// removed at once, by the next of the up to ten rounds of "ip addr flush".
const localTries = 12

// linkLocals lets the kernel make the link-local addresses that were removed. Setting how it makes them
// (addr_gen_mode) is what brings it to make one: first to none, then back.
func (r *round) linkLocals() error {
	if len(r.withoutLocal()) == 0 {
		return nil
	}
	if err := r.lookAgain(); err != nil {
		return err
	}
	for _, b := range r.withoutLocal() {
		path := "net/ipv6/conf/" + b.sysctlName() + "/addr_gen_mode"
		mode, ok, err := r.system.setting(path)
		off, _, err2 := r.system.setting("net/ipv6/conf/" + b.sysctlName() + "/disable_ipv6")
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		const none = "1"
		if !ok || mode == none || off == "1" {
			r.noLocal[b.link.Index] = true // somebody wants none
			continue
		}
		object := "the IPv6 link-local address on " + b.Name
		r.add(plan.Change{Action: plan.Add, Object: object}, func(context.Context) error {
			for range localTries {
				if err := errors.Join(r.system.setSetting(path, none), r.system.setSetting(path, mode)); err != nil {
					return err
				}
				if err := r.lookAgain(); err != nil {
					return err
				}
				if !slices.Contains(r.withoutLocal(), b) {
					return nil
				}
			}
			r.noLocal[b.link.Index] = true // the kernel makes none for such a link
			return nil
		}).of(b.Name, object+" was removed")
	}
	return nil
}

// connectedRoutes reads the routes of the main table that the kernel made.
func (live) connectedRoutes(ctx context.Context) ([]rib.Route, error) {
	return mainRoutes(ctx, unix.RTPROT_KERNEL, "connected")
}

// barrier returns when the kernel is through with what it was doing to links, addresses and routes.
func (live) barrier() error {
	a, err := newAsker()
	if err != nil {
		return err
	}
	defer a.Close()
	return a.barrier()
}

// addConnected adds the route as the kernel makes it: in front of another to the same network.
func (live) addConnected(o onNet) error {
	a, err := newAsker()
	if err != nil {
		return err
	}
	defer a.Close()
	return a.request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, rtMsgLen, func(body []byte, w *builder) {
		four := o.address.Addr().Is4()
		body[0], body[6] = unix.AF_INET6, unix.RT_SCOPE_UNIVERSE
		if four {
			body[0], body[6] = unix.AF_INET, unix.RT_SCOPE_LINK
		}
		body[1], body[4], body[5], body[7] = uint8(o.address.Bits()), rib.TableMain, unix.RTPROT_KERNEL, unix.RTN_UNICAST
		w.address(unix.RTA_DST, o.address.Masked().Addr())
		w.attr32(unix.RTA_OIF, uint32(o.index))
		if four {
			w.address(unix.RTA_PREFSRC, o.address.Addr())
		} else {
			w.attr32(unix.RTA_PRIORITY, o.metric())
		}
	})
}
