// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/netip"
	"slices"
	"time"

	"minne/internal/subsystem/fastpath/flow"
)

// Answer is what minne show flows shows.
type Answer struct {
	Connections int    `json:"connections"` // that the router has
	Matched     int    `json:"matched"`     // of them, those that the filter chose
	Uncounted   int    `json:"uncounted"`   // of those, what the kernel does not count: they began before it was told to
	Rows        int    `json:"rows"`        // there would be without the bound
	By          string `json:"by"`
	Sort        string `json:"sort"`
	Sum         Totals `json:"sum"` // of all that matched
	Flows       []Flow `json:"flows,omitempty"`
	Hosts       []Host `json:"hosts,omitempty"`
	Zones       []Pair `json:"zones,omitempty"`
}

// Totals are what was transferred, by direction: index 0 from the opener, or the host, or the first zone, 1 towards it.
type Totals struct {
	Packets  [2]uint64 `json:"packets"`
	Bytes    [2]uint64 `json:"bytes"`             // of IP packets
	FastPath uint64    `json:"fast_path_packets"` // among the packets, both directions
	Rate     *Rate     `json:"rate,omitempty"`    // when the question asks for it
}

// Rate is Totals over a second.
type Rate struct {
	Packets [2]float64 `json:"packets_per_second"`
	Bits    [2]float64 `json:"bits_per_second"`
}

// Flow is a connection.
type Flow struct {
	Protocol    string `json:"protocol"`
	ID          uint16 `json:"icmp_id,omitempty"`
	Source      End    `json:"source"`      // who opened it
	Destination End    `json:"destination"` // who answers, after translation
	// What the other side sees in their places, where that is translated.
	TranslatedSource      *End   `json:"translated_source,omitempty"`
	TranslatedDestination *End   `json:"translated_destination,omitempty"`
	VRF                   string `json:"vrf,omitempty"`  // that it is in; "" for the main table
	From                  string `json:"from,omitempty"` // zone of the source
	To                    string `json:"to,omitempty"`   // zone of the destination
	State                 string `json:"state"`
	Left                  int    `json:"left_seconds"`    // until it ends when nobody speaks
	Path                  string `json:"path"`            // fast-path or kernel
	Label                 string `json:"label,omitempty"` // that patterns gave it (minne show labels)
	Totals
}

// Host is all connections of one address, whoever opened them.
type Host struct {
	Address     netip.Addr `json:"address"`
	VRF         string     `json:"vrf,omitempty"` // "" for the main table
	Zone        string     `json:"zone,omitempty"`
	Connections int        `json:"connections"`
	Opened      int        `json:"opened"` // among them, those that it opened
	Totals

	table uint16 // of the VRF that it is in
}

// Pair is all connections from one zone to another. A zone that is not known is "".
type Pair struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Connections int    `json:"connections"`
	Totals
}

// Table answers questions about the connections of the process's network namespace.
type Table struct {
	fast  FastPath
	zones func() map[string]string
	turn  chan struct{} // a place for the question that is being answered
	pause time.Duration
	ended *kept
	meter *Meter
}

// New returns a Table. fast may be nil, for a router without a fast path; zoneOf gives the
// zone of each interface, none without a firewall. The fast path tells the Table of flows that end.
func New(fast FastPath, zoneOf func() map[string]string) *Table {
	return &Table{fast: fast, zones: zoneOf, turn: make(chan struct{}, 1), pause: time.Second, ended: newKept(), meter: newMeter(fast)}
}

// begin waits for the question before. end lets the next one begin.
func (t *Table) begin(ctx context.Context) (z *zones, end func(), err error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if z, err = newZones(ctx, t.zones()); err != nil {
		<-t.turn
		return nil, nil, err
	}
	return z, func() { z.close(); <-t.turn }, nil
}

// each reads both sides and visits every connection.
// filter says which flows of the fast path matter; others may be taken for the kernel's alone.
func (t *Table) each(ctx context.Context, filter flow.Filter, visit func(*Connection)) (flows int, err error) {
	r, err := t.readRepeated(filter)
	if err != nil {
		return 0, err
	}
	return len(r.flows), t.join(ctx, r, visit)
}

// List answers a question.
func (t *Table) List(ctx context.Context, q Question) (Answer, error) {
	z, end, err := t.begin(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer end()
	if err := z.check(&q.Filter); err != nil {
		return Answer{}, err
	}
	var since *earlier
	if q.Sort == SortRate {
		if since, err = t.look(ctx, q, z); err != nil {
			return Answer{}, err
		}
	}
	l := lister{q: q, zones: z, answer: Answer{By: q.By, Sort: q.Sort},
		hosts: map[place]*Host{}, pairs: pairs{}}
	now := time.Now()
	_, err = t.each(ctx, q.flows(), func(c *Connection) {
		l.answer.Connections++
		if q.match(c, z) {
			l.add(c, since.rate(c, now))
		}
	})
	if err == nil {
		err = z.failed
	}
	return l.finish(), err
}

// earlier is what connections had transferred some time ago.
type earlier struct {
	at     time.Time
	seed   maphash.Seed
	counts map[uint64]counts // by hash
}

// look remembers what the chosen connections have transferred, and waits for a second.
func (t *Table) look(ctx context.Context, q Question, z *zones) (*earlier, error) {
	e := earlier{at: time.Now(), seed: maphash.MakeSeed(), counts: map[uint64]counts{}}
	_, err := t.each(ctx, q.flows(), func(c *Connection) {
		if q.match(c, z) {
			e.counts[hash(e.seed, &c.Key[0])] = counts{c.Packets, c.Bytes}
		}
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(t.pause - min(time.Since(e.at), t.pause)):
	}
	return &e, nil
}

// rate is what a connection transferred since; nil when nobody looked. A connection that is younger counts from its
// beginning. A counter that shrank, as what a flow had counted was forgotten, counts as still.
func (e *earlier) rate(c *Connection, now time.Time) *Rate {
	if e == nil {
		return nil
	}
	was := e.counts[hash(e.seed, &c.Key[0])]
	seconds := now.Sub(e.at).Seconds()
	var r Rate
	for d := range 2 {
		r.Packets[d] = float64(c.Packets[d]-min(was.packets[d], c.Packets[d])) / seconds
		r.Bits[d] = 8 * float64(c.Bytes[d]-min(was.bytes[d], c.Bytes[d])) / seconds
	}
	return &r
}

// lister makes an answer of connections, one after the other.
type lister struct {
	q      Question
	zones  *zones
	answer Answer
	flows  []ranked // the top so far, and those that came since the last trim
	least  float64  // weight that a flow needs to be among the top
	hosts  map[place]*Host
	pairs  pairs
}

// ranked is a flow that may be among the top.
type ranked struct {
	weight float64
	of     Connection
	totals Totals
}

// pairs are connections by their zones.
type pairs map[[2]string]*Pair

func (all pairs) add(z *zones, c *Connection, one *Totals) {
	opener, responder := c.ends()
	key := [2]string{z.zone(opener), z.zone(responder)}
	p := all[key]
	if p == nil {
		p = &Pair{From: key[0], To: key[1]}
		all[key] = p
	}
	p.Connections++
	p.Totals.add(one, 0)
}

func (all pairs) sorted(weight func(*Pair) float64) (list []Pair) {
	for _, p := range all {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(x, y Pair) int {
		return cmp.Or(cmp.Compare(weight(&y), weight(&x)), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	return list
}

func (l *lister) add(c *Connection, rate *Rate) {
	l.answer.Matched++
	if !c.Counted {
		l.answer.Uncounted++
	}
	one := Totals{c.Packets, c.Bytes, c.Repeated[0] + c.Repeated[1], rate}
	l.answer.Sum.add(&one, 0)
	switch l.q.By {
	case ByFlow:
		l.answer.Rows++
		if w := l.weight(&one, 1); w >= l.least {
			l.flows = append(l.flows, ranked{w, *c, one})
		}
		if len(l.flows) >= 2*l.q.Top+100 {
			l.trim()
			l.least = l.flows[len(l.flows)-1].weight
		}
	case ByHost:
		opener, responder := l.q.hosts(c, l.zones)
		first, second := c.ends()
		if opener {
			h := l.host(first, &one, 0)
			h.Opened++
		}
		if responder {
			l.host(second, &one, 1)
		}
	case ByZone:
		l.pairs.add(l.zones, c, &one)
	}
}

func (l *lister) host(at place, one *Totals, end int) *Host {
	h := l.hosts[at]
	if h == nil {
		h = &Host{Address: at.address, table: at.table}
		l.hosts[at] = h
	}
	h.Connections++
	h.add(one, end)
	return h
}

// add adds a connection; end is 1 to see it from the responder's side.
func (t *Totals) add(one *Totals, end int) {
	for d := range 2 {
		t.Packets[d] += one.Packets[d^end]
		t.Bytes[d] += one.Bytes[d^end]
	}
	t.FastPath += one.FastPath
	if one.Rate == nil {
		return
	}
	if t.Rate == nil {
		t.Rate = &Rate{}
	}
	for d := range 2 {
		t.Rate.Packets[d] += one.Rate.Packets[d^end]
		t.Rate.Bits[d] += one.Rate.Bits[d^end]
	}
}

// row is a connection as a row, without its zones.
func (c *Connection) row(totals Totals) Flow {
	f := Flow{Protocol: ProtocolName(c.Key[0].Protocol), Source: c.Opener(), Destination: c.Responder(),
		State: c.State(), Left: int(c.Left / time.Second), Path: PathKernel, Label: c.Label, Totals: totals}
	f.TranslatedSource, f.TranslatedDestination = c.translations()
	if isICMP(c.Key[0].Protocol) {
		f.ID = c.Key[0].SourcePort
	}
	if c.FastPath {
		f.Path = PathFast
	}
	return f
}

// weight is what rows are sorted by.
func (l *lister) weight(t *Totals, connections int) float64 {
	switch {
	case l.q.Sort == SortConnections:
		return float64(connections)
	case l.q.Sort == SortRate && t.Rate != nil:
		return t.Rate.Bits[0] + t.Rate.Bits[1]
	}
	return float64(t.Bytes[0] + t.Bytes[1])
}

// trim keeps the top flows, in order.
func (l *lister) trim() {
	slices.SortFunc(l.flows, func(a, b ranked) int {
		x, y := &a.of.Key[0], &b.of.Key[0]
		return cmp.Or(cmp.Compare(b.weight, a.weight), x.Source.Compare(y.Source), cmp.Compare(x.SourcePort, y.SourcePort),
			x.Destination.Compare(y.Destination), cmp.Compare(x.DestinationPort, y.DestinationPort), cmp.Compare(x.Zone, y.Zone))
	})
	l.flows = l.flows[:min(l.q.Top, len(l.flows))]
}

func (l *lister) finish() Answer {
	a := &l.answer
	switch l.q.By {
	case ByFlow:
		l.trim()
		for i := range l.flows {
			f := l.flows[i].of.row(l.flows[i].totals)
			from, to := l.flows[i].of.ends()
			f.VRF, f.From, f.To = l.zones.vrfName(from.table), l.zones.zone(from), l.zones.zone(to)
			a.Flows = append(a.Flows, f)
		}
	case ByHost:
		a.Rows = len(l.hosts)
		for _, h := range l.hosts {
			a.Hosts = append(a.Hosts, *h)
		}
		slices.SortFunc(a.Hosts, func(x, y Host) int {
			return cmp.Or(cmp.Compare(l.weight(&y.Totals, y.Connections), l.weight(&x.Totals, x.Connections)), x.Address.Compare(y.Address), cmp.Compare(x.table, y.table))
		})
		a.Hosts = a.Hosts[:min(l.q.Top, len(a.Hosts))]
		for i := range a.Hosts {
			h := &a.Hosts[i]
			h.VRF, h.Zone = l.zones.vrfName(h.table), l.zones.zone(place{h.table, h.Address})
		}
	case ByZone:
		a.Rows = len(l.pairs)
		a.Zones = l.pairs.sorted(func(p *Pair) float64 { return l.weight(&p.Totals, p.Connections) })
		a.Zones = a.Zones[:min(l.q.Top, len(a.Zones))]
	}
	return *a
}
