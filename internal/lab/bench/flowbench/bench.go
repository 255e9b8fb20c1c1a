// SPDX-License-Identifier: Apache-2.0

package flowbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"minne/internal/lab/statistics"
	"minne/internal/subsystem/fastpath/flow"
)

const (
	rounds   = 25
	perTrial = 1 << 16 // lookups in one trial
	budget   = 75 * time.Second
	seed     = 4
)

// sizes are the numbers of flows that are compared.
var sizes = []int{1 << 10, 1 << 16, keyCount}

// Names of the contenders in a Row.
const (
	Loop        = "loop and key alone"
	Table       = "flow table"
	TableAgain  = "flow table again" // A/A
	TableBoth   = "flow table, both directions alternating"
	TableIPv4   = "flow table, IPv4"
	TableIPv6   = "flow table, IPv6"
	Counted     = "flow table, and count the packet"
	Translated  = "flow table, count and translate"
	HashMap     = "BPF hash map"
	LRUMap      = "BPF LRU hash map"
	Chained     = "heads and chained entries"
	KnownEntry  = "entry whose number is known"
	KeyedHash   = "keyed hash"
	SipHash     = "SipHash-1-3"
	HalfSipHash = "HalfSipHash-1-3"
)

// contenders are measured at every size; those with large only at the largest.
var contenders = []struct {
	name         string
	work         int
	large        bool
	first, flows int // of the array; 0 flows: all
	direction    uint32
}{
	{name: Loop, work: workNothing},
	{name: Table, work: workLookup},
	{name: HashMap, work: workHashMap},
	{name: LRUMap, work: workLRU},
	{name: TableAgain, work: workLookup},
	{name: TableBoth, work: workLookup, direction: 2},
	{name: Counted, work: workForward},
	{name: Translated, work: workTranslate},
	{name: Chained, work: workChain},
	{name: KnownEntry, work: workKnown},
	{name: KeyedHash, work: workHash},
	{name: SipHash, work: workSipHash},
	{name: HalfSipHash, work: workHalfSipHash},
	{name: TableIPv4, work: workLookup, large: true, first: 1 << 18, flows: 1 << 18},
	{name: TableIPv6, work: workLookup, large: true, first: 3 << 18, flows: 1 << 18},
}

// Row is what one lookup of a contender costs.
type Row struct {
	Flows         int     `json:"flows"`
	Contender     string  `json:"contender"`
	NsIndependent float64 `json:"ns_independent"` // median, loop included
	NsDependent   float64 `json:"ns_dependent"`   // each key depends on the answer before

	Independent, Dependent []float64 `json:"-"` // of every round
}

// Filling is how fast flows are made, one after the other on one CPU.
type Filling struct {
	Flows     int     `json:"flows"`
	TableNs   float64 `json:"flow_table_ns"` // for both directions
	HashMapNs float64 `json:"hash_map_ns"`   // for one direction
	LRUNs     float64 `json:"lru_hash_map_ns"`
}

// Report is one interleaved measurement.
type Report struct {
	Rows    []Row         `json:"rows"`
	Filling []Filling     `json:"filling"`
	Tables  []flow.Stats  `json:"tables"`   // by size, when full
	VisitNs float64       `json:"visit_ns"` // of user space's sweep, for each flow that stays
	EndNs   float64       `json:"end_ns"`   // and for each that it ends
	Rounds  int           `json:"rounds"`
	Took    time.Duration `json:"took_ns"`
}

// Row finds the row of a contender at a size.
func (r *Report) Row(flows int, contender string) *Row {
	i := slices.IndexFunc(r.Rows, func(o Row) bool { return o.Flows == flows && o.Contender == contender })
	if i < 0 {
		return nil
	}
	return &r.Rows[i]
}

// Ratios divides a contender's time by another's in every round, without what the loop costs both of them.
func (r *Report) Ratios(flows int, a, b string) (out []float64) {
	over, under, loop := r.Row(flows, a), r.Row(flows, b), r.Row(flows, Loop)
	for i := range r.Rounds {
		out = append(out, (over.Independent[i]-loop.NsIndependent)/(under.Independent[i]-loop.NsIndependent))
	}
	return out
}

// Growth divides a contender's time at the largest size by that at the smallest in every round, loops included.
func (r *Report) Growth(contender string) (out []float64) {
	large, small := r.Row(sizes[len(sizes)-1], contender), r.Row(sizes[0], contender)
	for i := range r.Rounds {
		out = append(out, large.Independent[i]/small.Independent[i])
	}
	return out
}

// Sizes are the numbers of flows that are compared, ascending.
func Sizes() []int { return sizes }

// Measure fills tables of every size, beside the kernel's hash maps with the same keys, and times lookups of
// flows in random order.
func Measure(ctx context.Context, progress func(string)) (*Report, error) {
	start := time.Now()
	s, err := newShared()
	if err != nil {
		return nil, err
	}
	defer s.Close()
	rng := rand.New(rand.NewPCG(seed, seed))
	benchFlows(s, rng)
	report := &Report{}
	var rigs []*rig
	defer func() {
		for _, r := range rigs {
			r.close()
		}
	}()
	for _, n := range sizes {
		progress(fmt.Sprintf("making %d flows", n))
		r, err := newRig(s, flow.Size{Flows: n}, flow.DefaultTimeouts, 6, true)
		if err != nil {
			return nil, err
		}
		rigs = append(rigs, r)
		if err := report.fill(r); err != nil {
			return nil, err
		}
	}
	shuffle(s, rng)
	progress(fmt.Sprintf("measuring, up to %d rounds", rounds))
	if err := report.trials(ctx, s, rigs, start); err != nil {
		return nil, err
	}
	progress("sweeping")
	report.sweeps(rigs[len(rigs)-1])
	report.Took = time.Since(start)
	return report, nil
}

// benchFlows makes distinct flows, IPv4 and IPv6 by turns, every fourth of them translated.
func benchFlows(s *shared, rng *rand.Rand) {
	for i := range s.pairs {
		n := rng.Uint64()
		k := flow.Key{
			Source:      netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}),
			Destination: netip.AddrFrom4([4]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}),
			SourcePort:  uint16(n >> 32), DestinationPort: 443, Zone: 1, Protocol: 6,
		}
		if i&1 == 1 {
			k.Source = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 5: byte(i >> 16), 6: byte(i >> 8), 7: byte(i), 15: byte(n >> 48)})
			k.Destination = netip.AddrFrom16([16]byte{0x20, 1, 4: byte(n), 5: byte(n >> 8), 6: byte(n >> 16), 7: byte(n >> 24), 15: 1})
		}
		reply := k.Reply(2)
		if i%4 < 2 { // both families alike
			reply.DestinationPort = uint16(n >> 16)
		}
		s.pairs[i] = pair{key: [2][5]uint64{k.Words(), reply.Words()}}
	}
}

// shuffle puts the flows of every size into random order, so that they are not looked up in the order in which
// they were made. What only the largest table has is sorted by family: IPv4 in the second quarter of
// the array and before, IPv6 in the last quarter and before.
func shuffle(s *shared, rng *rand.Rand) {
	from := 0
	for _, n := range sizes {
		part := s.pairs[from:n]
		rng.Shuffle(len(part), func(a, b int) { part[a], part[b] = part[b], part[a] })
		from = n
	}
	slices.SortStableFunc(s.pairs[sizes[1]:], func(a, b pair) int { return int(a.key[0][4]>>56) - int(b.key[0][4]>>56) })
}

// fill makes the flows of a rig and of its rivals, and notes the numbers of the table's.
func (report *Report) fill(r *rig) error {
	n := r.size.Flows
	ns := map[int]float64{}
	for _, work := range []int{workInsert, workFillHashMap, workFillLRU, workFillChain} {
		got, err := r.do("bench", 0, work, run{count: uint32(n), mask: keyCount - 1, now: uint32(flow.Now())})
		if err != nil {
			return err
		}
		ns[work] = float64(got.ns) / float64(n)
	}
	report.Filling = append(report.Filling, Filling{n, ns[workInsert], ns[workFillHashMap], ns[workFillLRU]})
	if _, err := r.do("answer", 0, workLookup, run{count: uint32(n), mask: keyCount - 1}); err != nil {
		return err
	}
	for i := range n {
		r.shared.pairs[i].number[0] = uint32(r.shared.answers[i])
	}
	counts, err := r.counts()
	if err != nil {
		return err
	}
	report.Tables = append(report.Tables, r.table.Stats(counts))
	return nil
}

// trials alternates all contenders at all sizes.
func (report *Report) trials(ctx context.Context, s *shared, rigs []*rig, start time.Time) error {
	for round := range rounds {
		if round >= 5 && time.Since(start) > budget {
			break
		}
		for at := range rigs {
			if round%2 == 1 { // back again: nobody always comes after the same other
				at = len(rigs) - 1 - at
			}
			// Loaded anew, at other addresses: a loop that falls badly into the CPU's predictors may take
			// twice as long, so one load must not stand for all.
			rigs[at].unload()
			if err := report.trial(ctx, rigs[at], round); err != nil {
				return err
			}
		}
		report.Rounds++
	}
	for i := range report.Rows {
		row := &report.Rows[i]
		row.NsIndependent, row.NsDependent = statistics.Median(row.Independent), statistics.Median(row.Dependent)
	}
	return nil
}

// trial measures each contender once at one size.
func (report *Report) trial(ctx context.Context, r *rig, round int) error {
	n := r.size.Flows
	for at := range contenders {
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if round%2 == 1 {
			at = len(contenders) - 1 - at
		}
		c := contenders[at]
		if c.large && n != keyCount {
			continue
		}
		c.flows = cmp.Or(c.flows, n)
		// The first lookups count for nothing: the caches still hold the predecessor's tables.
		order := run{first: uint32(round * perTrial / 2), mask: uint32(c.flows - 1), direction: c.direction, now: uint32(flow.Now())}
		var ns [2]float64
		for _, dependent := range []uint32{0, 1} {
			order.dependent = dependent
			order.count = perTrial
			if _, err := r.doFrom(c.work, c.first, order); err != nil {
				return err
			}
			order.first += order.count
			got, err := r.doFrom(c.work, c.first, order)
			if err != nil {
				return err
			}
			order.first += order.count
			ns[dependent] = float64(got.ns) / perTrial
		}
		row := report.Row(n, c.name)
		if row == nil {
			report.Rows = append(report.Rows, Row{Flows: n, Contender: c.name})
			row = &report.Rows[len(report.Rows)-1]
		}
		row.Independent, row.Dependent = append(row.Independent, ns[0]), append(row.Dependent, ns[1])
	}
	return nil
}

// doFrom runs work on the flows behind `base`.
func (r *rig) doFrom(work, base int, order run) (run, error) {
	order.base = uint32(base)
	return r.do("bench", 0, work, order)
}

// sweeps times user space's visits of a full table: all flows stay, then all end.
func (report *Report) sweeps(r *rig) {
	now := flow.Now()
	begin := time.Now()
	s := r.table.Sweep(now, r.size.Flows)
	report.VisitNs = float64(time.Since(begin).Nanoseconds()) / float64(s.Visited)
	r.table.Invalidate()
	begin = time.Now()
	s = r.table.Sweep(now, r.size.Flows)
	report.EndNs = float64(time.Since(begin).Nanoseconds()) / float64(max(s.Ended, 1))
}
