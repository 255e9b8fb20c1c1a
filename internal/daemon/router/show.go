// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/routing"
)

// The views behind "minne show". Their answers are the subsystems' own types,
// where there is no need for others.

// RouteView answers show ip route and show ipv6 route.
type RouteView struct {
	Routes     []kernel.RouteEntry `json:"routes"`               // of the kernel, which decides
	Total      int                 `json:"total"`                // before the limit of the question
	Candidates []routing.Route     `json:"candidates,omitempty"` // what routing protocols offer for the prefix asked for
}

// InterfacesView answers show interfaces.
type InterfacesView struct {
	Interfaces []kernel.Interface `json:"interfaces"`
}

// NeighborsView answers show neighbors, show arp and show ipv6 neighbors.
type NeighborsView struct {
	Neighbors []kernel.Neighbour `json:"neighbors"`
}

// DropsView answers show drops: every reason.
type DropsView struct {
	Since time.Time  `json:"counters_since,omitzero"` // when they were cleared; absent: never by this daemon
	Drops []DropView `json:"drops"`
}

// DropView is one reason of show drops with its rate.
type DropView struct {
	fastpath.ObservedReason
	PerSecond float64 `json:"per_second"` // over the last second
}

// RatesView answers show rates.
type RatesView struct {
	Rates []RateView `json:"rates"`
}

// RateView is the traffic of one interface over several windows, the latest second first.
type RateView struct {
	Name    string       `json:"name"`
	Windows []RateWindow `json:"windows"`
}

// RateWindow is an average over the last Seconds seconds.
type RateWindow struct {
	Seconds   int     `json:"seconds"`
	RxPackets float64 `json:"rx_packets_per_second"`
	TxPackets float64 `json:"tx_packets_per_second"`
	RxBits    float64 `json:"rx_bits_per_second"`
	TxBits    float64 `json:"tx_bits_per_second"`
}

// rateWindows are what ifstat2 showed, in seconds.
var rateWindows = []int{1, 5, 60}

// counters is all that rates are computed from.
type counters struct {
	interfaces []kernel.Interface
	reasons    []fastpath.ObservedReason
}

func (p parts) counters(ctx context.Context) (c counters, err error) {
	if c.interfaces, err = p.interfaces(ctx); err != nil {
		return c, err
	}
	o, err := p.fastpath.Observe(ctx)
	c.reasons = o.Reasons
	return c, err
}

// interfaces are the kernel's, with the packets that the fast path forwarded past the counters of
// those that sit on others added (a port's have them): one book, not two.
func (p parts) interfaces(ctx context.Context) ([]kernel.Interface, error) {
	all, err := p.kernel.Interfaces(ctx)
	if err != nil {
		return nil, err
	}
	o, err := p.fastpath.Observe(ctx)
	if err != nil {
		return nil, err
	}
	past := map[int]fastpath.ObservedTraffic{}
	for _, t := range o.Traffic {
		past[t.Index] = t
	}
	for i := range all {
		if t, ok := past[all[i].Index]; ok && all[i].Parent != "" {
			all[i].RX.Packets += t.RxPackets
			all[i].RX.Bytes += t.RxBytes
			all[i].TX.Packets += t.TxPackets
			all[i].TX.Bytes += t.TxBytes
		}
	}
	return all, nil
}

func viewInterfaces(ctx context.Context, d *Daemon, _ url.Values) (any, error) {
	all, err := d.parts.interfaces(ctx)
	for i := range all {
		d.zero.fromInterface(&all[i])
	}
	return InterfacesView{all}, err
}

func viewFastPath(ctx context.Context, d *Daemon, _ url.Values) (any, error) {
	o, err := d.parts.fastpath.Observe(ctx)
	d.zero.fromFastPath(&o)
	return o, err
}

// viewNeighbors answers with the ARP and ND tables, or with that of the family that the query names.
func viewNeighbors(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	all, err := d.parts.kernel.Neighbours(ctx)
	if family := query.Get("family"); family != "" {
		all = slices.DeleteFunc(all, func(n kernel.Neighbour) bool { return n.Address.Is6() != (family == "ipv6") })
	}
	return NeighborsView{all}, err
}

// viewRoutes answers with the kernel's routes. The query: family ipv4 or ipv6,
// prefix (an address takes its longest match), longer, protocol, limit.
func viewRoutes(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	family, bits := uint8(unix.AF_INET), 32
	if query.Get("family") == "ipv6" {
		family, bits = unix.AF_INET6, 128
	}
	var prefix netip.Prefix
	if text := query.Get("prefix"); text != "" {
		var err error
		if prefix, err = parseDestination(text); err != nil {
			return nil, err
		}
		if prefix.Addr().BitLen() != bits {
			return nil, fmt.Errorf("%s is of the other address family", text)
		}
	}
	routes, err := d.parts.kernel.Routes(ctx, family, prefix, query.Get("longer") != "")
	if err != nil {
		return nil, err
	}
	if protocol := query.Get("protocol"); protocol != "" {
		routes = slices.DeleteFunc(routes, func(r kernel.RouteEntry) bool { return r.Protocol != protocol })
	}
	v := RouteView{Routes: routes, Total: len(routes)}
	if limit := limitOf(query); limit > 0 && limit < len(routes) {
		v.Routes = routes[:limit]
	}
	if err := d.parts.rank(ctx, bits == 128, routes, v.Routes); err != nil {
		return nil, err
	}
	// Candidates need a routing daemon. Without one the kernel's routes are all there is.
	if prefix.IsValid() && len(v.Routes) > 0 {
		v.Candidates, err = d.parts.routing.Route(ctx, v.Routes[0].Prefix, false)
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

// parseDestination takes a prefix, or an address as its full-length prefix.
func parseDestination(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked(), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q: expected an address or a prefix as 192.0.2.0/24", text)
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}

// viewDrops answers with every reason, or with that which the query names.
func viewDrops(ctx context.Context, d *Daemon, query url.Values) (any, error) {
	samples, err := d.sampler.history(ctx)
	if err != nil {
		return nil, err
	}
	last := samples[len(samples)-1]
	earlier := map[string]uint64{}
	var seconds float64
	if first, ok := before(samples, time.Second); ok {
		seconds = last.at.Sub(first.at).Seconds()
		for _, r := range first.value.reasons {
			earlier[r.Reason] = r.Count
		}
	}
	all := make([]DropView, 0, len(last.value.reasons))
	for _, r := range last.value.reasons {
		v := DropView{ObservedReason: r}
		if seconds > 0 {
			v.PerSecond = rate(earlier[r.Reason], r.Count, seconds)
		}
		all = append(all, v)
	}
	since := d.zero.fromDrops(all)
	if reason := query.Get("reason"); reason != "" {
		names := make([]string, len(all))
		for i, v := range all {
			names[i] = v.Reason
		}
		at := slices.Index(names, reason)
		if at < 0 {
			return nil, noSuch(reason, "no reason has the name", names)
		}
		all = all[at : at+1]
	}
	return DropsView{Since: since, Drops: all}, nil
}

// viewRates answers with each interface's traffic over the windows that the history covers.
func viewRates(ctx context.Context, d *Daemon, _ url.Values) (any, error) {
	samples, err := d.sampler.history(ctx)
	if err != nil {
		return nil, err
	}
	last := samples[len(samples)-1]
	all := make([]RateView, 0, len(last.value.interfaces))
	for _, i := range last.value.interfaces {
		v := RateView{Name: i.Name}
		for _, window := range rateWindows {
			first, ok := before(samples, time.Duration(window)*time.Second)
			if !ok {
				break
			}
			if w, ok := rateBetween(first, last, i); ok {
				w.Seconds = window
				v.Windows = append(v.Windows, w)
			}
		}
		all = append(all, v)
	}
	return RatesView{all}, nil
}

// rateBetween is the average traffic of an interface between two samples; not ok when it is new.
func rateBetween(first, last sample[counters], now kernel.Interface) (w RateWindow, ok bool) {
	seconds := last.at.Sub(first.at).Seconds()
	for _, then := range first.value.interfaces {
		if then.Index == now.Index {
			return RateWindow{
				RxPackets: rate(then.RX.Packets, now.RX.Packets, seconds),
				TxPackets: rate(then.TX.Packets, now.TX.Packets, seconds),
				RxBits:    8 * rate(then.RX.Bytes, now.RX.Bytes, seconds),
				TxBits:    8 * rate(then.TX.Bytes, now.TX.Bytes, seconds),
			}, true
		}
	}
	return w, false
}

// rate is the growth of a counter per second; a counter that was reset counts as still.
func rate(then, now uint64, seconds float64) float64 {
	if now < then {
		return 0
	}
	return float64(now-then) / seconds
}
