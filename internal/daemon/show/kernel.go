// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"minne/internal/base/affinity"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
	"minne/internal/subsystem/routing"
)

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

// BridgeView answers show bridge.
type BridgeView struct {
	Stations []kernel.Station `json:"stations"`
}

// SpanningTreeView answers show spanning-tree.
type SpanningTreeView struct {
	Bridges []kernel.SpanningTree `json:"bridges"`
}

// QueuesView answers show queues.
type QueuesView struct {
	Ports []kernel.PortQueues `json:"ports"`
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

// Interfaces prints links with their addresses and counters.
func Interfaces(w io.Writer, v InterfacesView) error {
	t := table{head: []string{"Interface", "!State", ">MTU", ">Speed", "Address", "|>RX packets", ">RX bytes", ">TX packets", ">TX bytes", ">Errors", ">Drops", "~Description"}}
	for _, i := range v.Interfaces {
		speed := "-"
		if i.Speed > 0 {
			speed = bits(float64(i.Speed) * 1e6)
		}
		t.row(i.Name, i.State, fmt.Sprint(i.MTU), speed, orDash(addressLines(i)),
			count(i.RX.Packets), bytes(i.RX.Bytes), count(i.TX.Packets), bytes(i.TX.Bytes),
			count(i.RX.Errors+i.TX.Errors), count(i.RX.Drops+i.TX.Drops), described(i))
	}
	return t.write(w)
}

// addressLines are the addresses of an interface, a line for each.
func addressLines(i kernel.Interface) string {
	lines := make([]string, len(i.Addresses))
	for n, a := range i.Addresses {
		lines[n] = a.String()
	}
	return strings.Join(lines, "\n")
}

// described is what kind of interface it is, and what the operator says of it.
func described(i kernel.Interface) string {
	kind := i.Detail
	if i.Parent != "" {
		kind += " on " + i.Parent
	}
	if i.Master != "" {
		kind = strings.TrimSpace(kind + " " + belongs(i))
	}
	return strings.TrimSpace(kind + "  " + i.Description)
}

// belongs says what an interface belongs to.
func belongs(i kernel.Interface) string {
	if i.MasterKind == "vrf" {
		return "in VRF " + i.Master
	}
	text := "port of " + i.Master
	if i.PortState != "" {
		text += ", " + i.PortState
	}
	return text
}

// Neighbors prints the ARP and ND tables.
func Neighbors(w io.Writer, v NeighborsView) error {
	if len(v.Neighbors) == 0 {
		_, err := fmt.Fprintln(w, "no neighbour is known")
		return err
	}
	t := table{head: []string{"Address", "Interface", "MAC", "!State"}}
	for _, n := range v.Neighbors {
		t.row(n.Address.String(), n.Interface, orDash(n.MAC), n.State)
	}
	return t.write(w)
}

// Bridge prints what the bridges know.
func Bridge(w io.Writer, v BridgeView) error {
	if len(v.Stations) == 0 {
		_, err := fmt.Fprintln(w, "no bridge, or none that knows a MAC address")
		return err
	}
	t := table{head: []string{"Bridge", ">VLAN", "MAC", "Port", "Kind", ">Age"}}
	for _, s := range v.Stations {
		vlan, age := "-", "-"
		if s.VLAN != 0 {
			vlan = fmt.Sprint(s.VLAN)
		}
		if s.Kind == "learned" {
			age = fmt.Sprintf("%.0f s", s.Age)
		}
		t.row(s.Bridge, vlan, s.MAC, s.Port, s.Kind, age)
	}
	return t.write(w)
}

// SpanningTree prints the tree of each bridge: who is the root, the way to it, and what the ports do.
func SpanningTree(w io.Writer, v SpanningTreeView) error {
	if len(v.Bridges) == 0 {
		_, err := fmt.Fprintln(w, "no bridge")
		return err
	}
	for n, b := range v.Bridges {
		if n > 0 {
			fmt.Fprintln(w)
		}
		if !b.On {
			if _, err := fmt.Fprintf(w, "%s: spanning tree off\n", b.Bridge); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s: %s\n", b.Bridge, b.ID)
		if b.IsRoot {
			fmt.Fprintln(w, "  root: this bridge")
		} else {
			fmt.Fprintf(w, "  root: %s, by port %s, cost %d\n", b.Root, orDash(b.RootPort), b.RootCost)
		}
		fmt.Fprintf(w, "  hello %g s, max age %g s, forward delay %g s\n", b.Hello, b.MaxAge, b.ForwardDelay)
		if b.Changing {
			fmt.Fprintln(w, "  topology change: MAC addresses are forgotten fast")
		}
		t := table{head: []string{"Port", "Role", "State", ">Cost", ">Priority", "Designated bridge"}}
		for _, p := range b.Ports {
			t.row(p.Port, orDash(p.Role), p.State, fmt.Sprint(p.Cost), fmt.Sprint(p.Priority), p.Designated)
		}
		if err := t.write(w); err != nil {
			return err
		}
	}
	return nil
}

// Queues prints which CPU serves each queue, and what went through it.
func Queues(w io.Writer, v QueuesView) error {
	if len(v.Ports) == 0 {
		_, err := fmt.Fprintln(w, "no port")
		return err
	}
	t := table{head: []string{"Port", ">Queue", ">RX CPU", ">RX packets", ">Share", ">RX drops", ">TX CPU", ">TX packets", ">TX drops"}}
	counted := func(n *uint64) string {
		if n == nil {
			return "-"
		}
		return count(*n)
	}
	for _, p := range v.Ports {
		var sum uint64
		for _, q := range p.Queues {
			if q.ReceivePackets != nil {
				sum += *q.ReceivePackets
			}
		}
		for _, q := range p.Queues {
			share, senders := "-", "all"
			if q.ReceivePackets != nil && sum > 0 {
				share = fmt.Sprintf("%.0f %%", 100*float64(*q.ReceivePackets)/float64(sum))
			}
			if len(q.TransmitCPUs) > 0 {
				senders = affinity.List(q.TransmitCPUs)
			}
			t.row(p.Port, fmt.Sprint(q.Number), orDash(affinity.List(q.ReceiveCPUs)), counted(q.ReceivePackets), share, counted(q.ReceiveDrops),
				senders, counted(q.TransmitPackets), counted(q.TransmitDrops))
		}
	}
	if err := t.write(w); err != nil {
		return err
	}
	for _, p := range v.Ports {
		if p.Imbalance > 0 && len(p.Queues) > 1 {
			fmt.Fprintf(w, "%s: the busiest receive queue has %.2f times the packets of an average one\n", p.Port, p.Imbalance)
		}
		if p.Control == nil {
			continue
		}
		if c := p.Control; c.Queue < 0 {
			fmt.Fprintf(w, "%s: control traffic has no queue of its own: %s\n", p.Port, c.Why)
		} else {
			fmt.Fprintf(w, "%s: on queue %d, which CPU %d serves: %s\n", p.Port, c.Queue, c.Queue, cmp.Or(strings.Join(c.Steered, ", "), "nothing"))
			for _, m := range c.Missing {
				fmt.Fprintf(w, "%s: %s (%s) arrives on any queue: %s\n", p.Port, m.Name, m.Rule, m.Why)
			}
		}
	}
	return nil
}

// routeCodes are the letters in front of routes, as FRR prints them.
var routeCodes = map[string]string{"connected": "C", "static": "S", "bgp": "B", "ospf": "O", "babel": "A", "rip": "R", "isis": "I"}

// Routes prints the routes in use, then what the routing protocols offer.
func Routes(w io.Writer, v RouteView) error {
	if len(v.Routes) == 0 {
		_, err := fmt.Fprintln(w, "no route")
		return err
	}
	fmt.Fprintln(w, "Codes: C connected, S static, B BGP, O OSPF, A Babel, K other; [distance/metric]")
	for _, r := range v.Routes {
		if err := route(w, r); err != nil {
			return err
		}
	}
	if more := v.Total - len(v.Routes); more > 0 {
		fmt.Fprintf(w, "… and %s more: name a PREFIX with longer-prefixes, or --limit 0 for all\n", count(more))
	}
	if len(v.Candidates) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nOffered by routing protocols (* in use, > in the kernel):")
	return RouteCandidates(w, v.Candidates)
}

// route prints one route, a line for each of its next hops.
func route(w io.Writer, r kernel.RouteEntry) error {
	code, ok := routeCodes[r.Protocol]
	if !ok {
		code = "K"
	}
	line := fmt.Sprintf("%s  %s", code, r.Prefix)
	if r.Source != "" {
		line += " from " + r.Source
	}
	if r.Protocol != "connected" && r.Distance != nil && r.Metric != nil {
		line += fmt.Sprintf(" [%d/%d]", *r.Distance, *r.Metric)
	}
	if len(r.NextHops) == 0 {
		_, err := fmt.Fprintf(w, "%s %s\n", line, r.Type)
		return err
	}
	for _, h := range r.NextHops {
		if _, err := fmt.Fprintln(w, line+nextHop(h, len(r.NextHops) > 1)); err != nil {
			return err
		}
		line = strings.Repeat(" ", len(line))
	}
	return nil
}

func nextHop(h kernel.NextHop, several bool) string {
	text := " is directly connected, " + h.Interface
	if h.Gateway != "" {
		text = " via " + h.Gateway + ", " + h.Interface
	}
	if several {
		text += fmt.Sprintf(", weight %d", h.Weight)
	}
	if h.Down {
		text += ", down"
	}
	return text
}

// Drops prints why packets did not take the fast path; with all also reasons that never happened.
func Drops(w io.Writer, v DropsView, all bool) error {
	if !v.Since.IsZero() {
		fmt.Fprintf(w, "Counted since %s (minne clear counters)\n\n", v.Since.Local().Format(time.DateTime))
	}
	for _, part := range []struct {
		title string
		drop  bool
	}{{"Dropped by the fast path", true}, {"Punted to the kernel", false}} {
		t := table{head: []string{">Packets", ">Rate", "Reason", "~Meaning", "~What to look at"}}
		for _, d := range v.Drops {
			if d.Drop == part.drop && (all || d.Count > 0) {
				t.row(count(d.Count), packets(d.PerSecond), d.Reason, d.Text, d.Hint)
			}
		}
		if len(v.Drops) == 1 && len(t.rows) == 0 { // asked for one, which is of the other part
			continue
		}
		fmt.Fprintf(w, "%s:\n", part.title)
		if len(t.rows) == 0 {
			fmt.Fprintln(w, "none")
		} else if err := t.write(w); err != nil {
			return err
		}
		if part.drop && len(v.Drops) != 1 {
			fmt.Fprintln(w)
		}
	}
	return nil
}

// Rates prints each interface's traffic, a row for each window.
func Rates(w io.Writer, all RatesView) error {
	t := table{head: []string{"Interface", ">Window", ">RX", ">RX rate", ">TX", ">TX rate"}}
	for _, v := range all.Rates {
		name := v.Name
		for _, window := range v.Windows {
			t.row(name, fmt.Sprintf("%d s", window.Seconds), packets(window.RxPackets), bits(window.RxBits), packets(window.TxPackets), bits(window.TxBits))
			name = ""
		}
	}
	return t.write(w)
}
