// SPDX-License-Identifier: Apache-2.0

package router

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"minne/internal/base/ipnet"
	"minne/internal/daemon/show"
	"minne/internal/model/config"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
)

// The views of interfaces, routes and neighbours, and of what becomes of packets. Their answers are the
// subsystems' own types, where there is no need for others.

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

// Interfaces is show interfaces.
var Interfaces = View[Nothing, show.InterfacesView]{
	Text: Text{Path: "interfaces", Args: "[NAME]", Short: "Show links, addresses and counters",
		Long: `Show links, addresses and counters. With the name of an interface, all about that one:
its device and what that does for the kernel, each kind of error, and what the fast
path does with it.`, Aliases: []string{"interface"}},
	Read:  readInterfaces,
	Print: only[Nothing](show.Interfaces),
}

func readInterfaces(ctx context.Context, d *Daemon, _ Nothing) (show.InterfacesView, error) {
	all, err := d.parts.interfaces(ctx)
	for i := range all {
		d.zero.fromInterface(&all[i])
	}
	return show.InterfacesView{Interfaces: all}, err
}

// FastPath is show fast-path.
var FastPath = View[Nothing, fastpath.Observed]{
	Text: Text{Path: "fast-path", Short: "Show which ports bypass the kernel, and the tables they use",
		Long: `Show which ports bypass the kernel, why others do not, and the tables they use.
For each port: the packets that it received, and those of them that the fast path
forwarded. The kernel carried the rest, or they were for the router, or dropped.
"minne show fast-path drivers" shows what network drivers can do.`},
	Read:  readFastPath,
	Print: only[Nothing](show.FastPath),
}

func readFastPath(ctx context.Context, d *Daemon, _ Nothing) (fastpath.Observed, error) {
	o, err := d.parts.fastpath.Observe(ctx)
	if err != nil {
		return o, err
	}
	d.zero.fromFastPath(&o)
	all, err := d.parts.interfaces(ctx)
	received := map[int]uint64{}
	for i := range all {
		d.zero.fromInterface(&all[i])
		received[all[i].Index] = all[i].RX.Packets
	}
	forwarded := map[int]uint64{}
	for _, t := range o.Traffic {
		forwarded[t.Index] = t.RxPackets
	}
	for i := range o.Ports {
		p := &o.Ports[i]
		p.Received, p.Forwarded = received[p.Index], forwarded[p.Index]
	}
	return o, err
}

// Bridge shows which MAC address is behind which port of a bridge.
var Bridge = View[Nothing, show.BridgeView]{
	Text: Text{Path: "bridge", Short: "Show which MAC addresses the bridges know, and behind which ports", Aliases: []string{"bridges", "mac-address-table"}},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (v show.BridgeView, err error) {
		v.Stations, err = d.parts.kernel.Stations(ctx)
		return v, err
	},
	Print: only[Nothing](show.Bridge),
}

// SpanningTree shows the spanning trees of the bridges.
var SpanningTree = View[Nothing, show.SpanningTreeView]{
	Text: Text{Path: "spanning-tree", Short: "Show the spanning trees of the bridges: root, roles and states of ports", Aliases: []string{"stp"}},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (v show.SpanningTreeView, err error) {
		v.Bridges, err = d.parts.kernel.SpanningTrees(ctx)
		return v, err
	},
	Print: only[Nothing](show.SpanningTree),
}

// Queues shows which CPU serves which queue of the ports.
var Queues = View[Nothing, show.QueuesView]{
	Text: Text{Path: "queues", Short: "Show the queues of the ports: CPUs, packets, drops", Aliases: []string{"queue"}},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (v show.QueuesView, err error) {
		v.Ports, err = d.parts.kernel.Queues(ctx)
		return v, err
	},
	Print: only[Nothing](show.Queues),
}

// Shape shows the shaped lines.
var Shape = View[Nothing, show.ShapeView]{
	Text: Text{Path: "shape", Short: "Show shaped lines and subscribers: packets, drops, delays in their queues",
		Long: `Show shaped lines, each direction with its priorities: packets sent, dropped, and marked
instead of dropped (ECN), and how long packets waited of late: the longest, the average,
and that of flows that do not fill the line. Then both directions of each subscriber.`, Aliases: []string{"sqm", "qos"}},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (v show.ShapeView, err error) {
		if v.Lines, err = d.parts.kernel.Shapes(ctx); err != nil {
			return v, err
		}
		v.Subscribers, err = d.parts.kernel.Subscribers(ctx)
		return v, err
	},
	Print: only[Nothing](show.Shape),
}

// Subscribers shows who has which plan.
var Subscribers = View[Nothing, show.SubscribersView]{
	Text: Text{Path: "subscribers", Short: "Show subscribers: plan, speeds, addresses, traffic"},
	Read: func(ctx context.Context, d *Daemon, _ Nothing) (v show.SubscribersView, err error) {
		v.Subscribers, err = d.parts.kernel.Subscribers(ctx)
		return v, err
	},
	Print: only[Nothing](show.Subscribers),
}

// Neighbors shows the ARP and ND tables, or with a family that of one.
func Neighbors(path, family string, aliases ...string) View[Nothing, show.NeighborsView] {
	short := map[string]string{"": "Show the ARP and ND tables", "ipv4": "Show the ARP table: IPv4 neighbours and their MACs",
		"ipv6": "Show the ND table: IPv6 neighbours and their MACs"}[family]
	if strings.HasSuffix(path, "neighbors") {
		aliases = append([]string{"neighbours"}, aliases...)
	}
	return View[Nothing, show.NeighborsView]{
		Text: Text{Path: path, Short: short, Aliases: aliases},
		Read: func(ctx context.Context, d *Daemon, _ Nothing) (show.NeighborsView, error) {
			all, err := d.parts.kernel.Neighbours(ctx)
			if family != "" {
				all = slices.DeleteFunc(all, func(n kernel.Neighbour) bool { return n.Address.Is6() != (family == "ipv6") })
			}
			return show.NeighborsView{Neighbors: all}, err
		},
		Print: only[Nothing](show.Neighbors),
	}
}

// RouteQuestion asks for routes of the kernel.
type RouteQuestion struct {
	VRF      string `json:"vrf" names:"vrf" doc:"'name' of the VRF; without it, the main table"`
	Prefix   string `json:"prefix" doc:"'prefix'; an address stands for the route that packets to it take"`
	Longer   bool   `json:"longer" doc:"also the routes to parts of the prefix"`
	Protocol string `json:"protocol" doc:"'name' of who has installed the routes: bgp, ospf, babel, static or connected"`
	Limit    int    `json:"limit" flag:"limit" default:"1000" doc:"'number' of routes at most; 0 for all"`
}

// routeSources are the words for who has installed a route.
var routeSources = []string{"bgp", "ospf", "babel", "static", "connected"}

// Words reads the words behind show ip route.
func (q *RouteQuestion) Words(words []string) error {
	switch {
	case len(words) == 0:
		return nil
	case len(words) > 2:
		return fmt.Errorf("%q: expected nothing after longer-prefixes", words[2])
	case slices.Contains(routeSources, words[0]):
		q.Protocol = words[0]
		if len(words) == 2 {
			return fmt.Errorf("%q: expected a prefix before longer-prefixes", words[1])
		}
		return nil
	case !isDestination(words[0]):
		if right := config.WithoutZeros(words[0]); right != "" {
			return leadingZero(words[0], right)
		}
		return fmt.Errorf("%q: expected a prefix as 192.0.2.0/24, an address, bgp, ospf, static or connected", words[0])
	}
	q.Prefix = words[0]
	if len(words) == 2 {
		if words[1] != "longer-prefixes" {
			return fmt.Errorf("%q: expected longer-prefixes or nothing", words[1])
		}
		q.Longer = true
	}
	return nil
}

// Routes shows the kernel's routes of a family.
func Routes(word, family string) View[RouteQuestion, show.RouteView] {
	return View[RouteQuestion, show.RouteView]{
		Text: Text{Path: word + "/route", Args: "[vrf NAME] [PREFIX | ADDRESS | bgp | ospf | static | connected] [longer-prefixes]", Short: "Show routes",
			Offers: append(slices.Clone(routeSources), "longer-prefixes"),
			Long: `Show the routes that the kernel uses, with all that routing protocols offer when a
prefix is named. An address shows the route that packets to it take; a protocol shows the routes that come from it. Without vrf,
it shows the main table.`},
		Read: func(ctx context.Context, d *Daemon, q RouteQuestion) (show.RouteView, error) {
			return readRoutes(ctx, d, family, q)
		},
		Print: only[RouteQuestion](show.Routes),
	}
}

func readRoutes(ctx context.Context, d *Daemon, family string, q RouteQuestion) (v show.RouteView, err error) {
	number, bits := uint8(unix.AF_INET), 32
	if family == "ipv6" {
		number, bits = unix.AF_INET6, 128
	}
	var prefix netip.Prefix
	if q.Prefix != "" {
		if prefix, err = ipnet.Parse(q.Prefix); err != nil {
			return v, err
		}
		if prefix.Addr().BitLen() != bits {
			return v, fmt.Errorf("%s is of the other address family", q.Prefix)
		}
	}
	routes, err := d.parts.kernel.Routes(ctx, q.VRF, number, prefix.Masked(), q.Longer)
	if err != nil {
		return v, err
	}
	if q.Protocol != "" {
		routes = slices.DeleteFunc(routes, func(r kernel.RouteEntry) bool { return r.Protocol != q.Protocol })
	}
	v = show.RouteView{Routes: limited(routes, q.Limit), Total: len(routes)}
	if err := d.parts.rank(ctx, q.VRF, bits == 128, routes, v.Routes); err != nil {
		return v, err
	}
	// Candidates need a routing daemon. Without one the kernel's routes are all there is.
	if prefix.IsValid() && len(v.Routes) > 0 {
		v.Candidates, err = d.parts.routing.Route(ctx, q.VRF, v.Routes[0].Prefix, false)
	}
	return v, err
}

// limited are the first of a list, all for 0.
func limited[T any](all []T, limit int) []T {
	if limit > 0 && limit < len(all) {
		return all[:limit]
	}
	return all
}

// leadingZero refuses a prefix or an address with one.
func leadingZero(word, right string) error {
	return fmt.Errorf("%q has a number with a leading zero, which some programs read as octal: did you mean %s?", word, right)
}

// isDestination says whether a word is a prefix or an address.
func isDestination(word string) bool {
	_, err := ipnet.Parse(word)
	return err == nil
}

// DropsQuestion asks why packets did not take the fast path.
type DropsQuestion struct {
	Reason string `json:"reason" names:"reason" doc:"'name' of the only reason to show"`
	All    bool   `json:"-" flag:"all" doc:"also reasons that have not happened"`
}

// Drops is show drops.
var Drops = View[DropsQuestion, show.DropsView]{
	Text: Text{Path: "drops", Args: "[REASON]", Short: "Show why packets were dropped or punted to the kernel",
		Long: `Show why packets were dropped by the fast path, and why others were punted to the kernel,
with counts, the rate over the last second and what to look at. With a reason, that one alone.`},
	Read: readDrops,
	Print: func(w io.Writer, q DropsQuestion, v show.DropsView) error {
		return show.Drops(w, v, q.All || q.Reason != "")
	},
}

func readDrops(ctx context.Context, d *Daemon, q DropsQuestion) (v show.DropsView, err error) {
	samples, err := d.sampler.history(ctx)
	if err != nil {
		return v, err
	}
	// The counts are those of now: a sample may be a second old.
	now, err := d.sampler.take(ctx)
	if err != nil {
		return v, err
	}
	samples = append(samples, sample[counters]{time.Now(), now})
	last := samples[len(samples)-1]
	earlier := map[string]uint64{}
	var seconds float64
	if first, ok := before(samples, time.Second); ok {
		seconds = last.at.Sub(first.at).Seconds()
		for _, r := range first.value.reasons {
			earlier[r.Reason] = r.Count
		}
	}
	all := make([]show.DropView, 0, len(last.value.reasons))
	for _, r := range last.value.reasons {
		v := show.DropView{ObservedReason: r}
		if seconds > 0 {
			v.PerSecond = rate(earlier[r.Reason], r.Count, seconds)
		}
		all = append(all, v)
	}
	since := d.zero.fromDrops(all)
	if q.Reason != "" {
		names := make([]string, len(all))
		for i, v := range all {
			names[i] = v.Reason
		}
		at := slices.Index(names, q.Reason)
		if at < 0 {
			return v, noSuch(q.Reason, "no reason has the name", names)
		}
		all = all[at : at+1]
	}
	return show.DropsView{Since: since, Drops: all}, nil
}

// Rates is show rates.
var Rates = View[Nothing, show.RatesView]{
	Text: Text{Path: "rates", Short: "Show interface rates over 1, 5 and 60 seconds",
		Long: `Show interface rates over 1, 5 and 60 seconds. The router counts only while somebody
asks: the longer windows appear when it has been asked for as long.`},
	Read:  readRates,
	Print: only[Nothing](show.Rates),
}

// readRates answers with each interface's traffic over the windows that the history covers.
func readRates(ctx context.Context, d *Daemon, _ Nothing) (v show.RatesView, err error) {
	samples, err := d.sampler.history(ctx)
	if err != nil {
		return v, err
	}
	last := samples[len(samples)-1]
	all := make([]show.RateView, 0, len(last.value.interfaces))
	for _, i := range last.value.interfaces {
		v := show.RateView{Name: i.Name}
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
	return show.RatesView{Rates: all}, nil
}

// rateBetween is the average traffic of an interface between two samples; not ok when it is new.
func rateBetween(first, last sample[counters], now kernel.Interface) (w show.RateWindow, ok bool) {
	seconds := last.at.Sub(first.at).Seconds()
	for _, then := range first.value.interfaces {
		if then.Index == now.Index {
			return show.RateWindow{
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
