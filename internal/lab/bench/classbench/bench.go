// SPDX-License-Identifier: Apache-2.0

package classbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"minne/internal/lab/rulegen"
	"minne/internal/lab/statistics"
	"minne/internal/subsystem/fastpath/classify"
)

const (
	rounds   = 9
	budget   = 60 * time.Second // no round begins later, but three are always run
	perTrial = 1 << 15
	blocked  = 120_000 // addresses in the blocklist
	benchSet = 5       // number of that set
	ruleSeed = 1
	compared = 600 // rules at which the other structure is measured too
)

// sizes are the numbers of rules that are measured.
var sizes = []int{1, 100, 600, 10_000}

// Row is one policy and one kind of packets.
type Row struct {
	ID               string  `json:"id"` // classify.FAMILY.SHAPE.RULES.PACKETS[.STRUCTURE], or blocklist.FAMILY.PACKETS
	Ns               float64 `json:"ns"` // a lookup; median of the rounds, without the loop
	Spread           float64 `json:"spread"`
	Rules            int     `json:"rules,omitempty"`
	Structure        string  `json:"structure,omitempty"`
	Bytes            int     `json:"bytes"` // of the tables
	CompileMs        float64 `json:"compile_ms,omitempty"`
	SwapMs           float64 `json:"swap_ms,omitempty"`
	UpdatesPerSecond float64 `json:"updates_per_second,omitempty"` // of a set, additions and deletions by turns
}

// Report is what a measurement found.
type Report struct {
	Rows   []Row
	LoopNs float64   // of the loop around a lookup; taken off
	Again  []float64 // A/A: a trial by its repetition
	Rounds int
	Took   time.Duration
}

// contender is what takes turns.
type contender struct {
	row     Row
	program string
	tables  *classify.Tables // nil for the blocklist
	keys    []classify.Key
	trials  []float64
	swaps   []float64
}

// Measure times lookups in policies like real ones and in a blocklist. It takes about a minute and
// needs root.
func Measure(ctx context.Context, progress func(string)) (*Report, error) {
	start := time.Now()
	b, err := newBed(classify.Full)
	if err != nil {
		return nil, err
	}
	defer b.close()
	progress("compiling policies")
	all, err := policies(ctx)
	if err != nil {
		return nil, err
	}
	progress("filling a blocklist")
	sets, err := b.blocklist()
	if err != nil {
		return nil, err
	}
	progress("measuring")
	return b.trials(ctx, append(all, sets...), start)
}

// policies compiles every shape, size and family.
func policies(ctx context.Context) (all []*contender, err error) {
	for _, ipv6 := range []bool{false, true} {
		for _, shape := range rulegen.Shapes {
			for _, n := range sizes {
				if ctx.Err() != nil {
					return nil, errors.New("interrupted")
				}
				more, err := policy(shape, n, ipv6, classify.Split)
				if err != nil {
					return nil, err
				}
				all = append(all, more...)
				if n != compared {
					continue
				}
				if more, err = policy(shape, n, ipv6, classify.CrossProduct); err != nil {
					return nil, err
				}
				all = append(all, more...)
			}
		}
	}
	return all, nil
}

func policy(shape rulegen.Shape, n int, ipv6 bool, structure classify.Structure) (both []*contender, err error) {
	rules := rulegen.Rules(shape, n, ipv6, ruleSeed)
	var tables *classify.Tables
	var compile []float64
	for range 3 {
		begin := time.Now()
		if tables, err = classify.Compile(rules, classify.Options{Structure: structure}); err != nil {
			return nil, err
		}
		compile = append(compile, ms(begin))
	}
	program, name := "bench4", "ipv4"
	if ipv6 {
		program, name = "bench6", "ipv6"
	}
	s := tables.Stats()
	other := ""
	if structure != classify.Split {
		other = "." + structure.String()
	}
	for aim, packets := range map[rulegen.Aim]string{rulegen.Hits: "hits", rulegen.Stray: "random"} {
		both = append(both, &contender{
			row: Row{
				ID:    fmt.Sprintf("classify.%s.%v.%d.%s%s", name, shape, n, packets, other),
				Rules: n, Structure: structure.String(), Bytes: s.Bytes, CompileMs: statistics.Median(compile),
			},
			program: program,
			tables:  tables,
			keys:    rulegen.Keys(rules, perTrial, ipv6, aim, ruleSeed),
		})
	}
	return both, nil
}

// blocklist fills the set: addresses, one in ten of them a network.
func (b *bed) blocklist() ([]*contender, error) {
	rng := rand.New(rand.NewPCG(ruleSeed, 0))
	world := [2]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("2000::/3")}
	var list []netip.Prefix
	for i := range blocked {
		family := i % 2
		bits := [2][2]int{{32, 24}, {128, 64}}[family][min(1, i/2%10/9)]
		p, err := rulegen.Inside(world[family], rng).Prefix(bits)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	for _, p := range list {
		if err := b.set.Add(benchSet, p); err != nil {
			return nil, err
		}
	}
	rate, err := b.updates(list)
	if err != nil {
		return nil, err
	}
	var out []*contender
	for family, name := range []string{"ipv4", "ipv6"} {
		for packets, share := range map[string]int{"clean": 0, "blocked": 1} {
			c := &contender{program: fmt.Sprintf("bench_set%d", 4+2*family), keys: make([]classify.Key, perTrial)}
			c.row = Row{ID: "blocklist." + name + "." + packets, UpdatesPerSecond: rate}
			for i := range c.keys {
				a := rulegen.Inside(world[family], rng)
				if share == 1 {
					a = rulegen.Inside(list[rng.IntN(len(list)/2)*2+family], rng)
				}
				c.keys[i] = classify.Key{Source: classify.KeyAddress(a), IPv6: family == 1, Zone: benchSet}
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// updates deletes and adds members by turns and returns how many of that a second takes.
func (b *bed) updates(list []netip.Prefix) (float64, error) {
	begin := time.Now()
	for _, p := range list {
		gone := b.set.Delete(benchSet, p)
		if err := b.set.Add(benchSet, p); err != nil {
			return 0, err
		}
		if !gone && !b.set.Has(benchSet, p) {
			return 0, fmt.Errorf("%v is not in the set", p)
		}
	}
	return 2 * float64(len(list)) / time.Since(begin).Seconds(), nil
}

// trial prepares one contender and times it twice, after a run that counts for nothing.
func (b *bed) trial(c *contender) (first, second float64, err error) {
	if c.tables != nil {
		begin := time.Now()
		if err := b.policy.Swap(c.tables); err != nil {
			return 0, 0, err
		}
		c.swaps = append(c.swaps, ms(begin))
	}
	copy(b.keys, c.keys)
	for i := range 3 {
		ns, err := b.time(c.program, 0, perTrial, false)
		if err != nil {
			return 0, 0, err
		}
		if i == 1 {
			first = ns
		}
		second = ns
	}
	return first, second, nil
}

// trials alternates all contenders and takes medians.
func (b *bed) trials(ctx context.Context, all []*contender, start time.Time) (*Report, error) {
	r := &Report{}
	var loops []float64
	for ; r.Rounds < rounds && (r.Rounds < 3 || time.Since(start) < budget); r.Rounds++ {
		for i := range all {
			if ctx.Err() != nil {
				return nil, errors.New("interrupted")
			}
			c := all[i]
			if r.Rounds%2 == 1 {
				c = all[len(all)-1-i]
			}
			first, second, err := b.trial(c)
			if err != nil {
				return nil, err
			}
			c.trials = append(c.trials, first)
			r.Again = append(r.Again, second/first)
		}
		ns, err := b.time("bench_loop", 0, perTrial, false)
		if err != nil {
			return nil, err
		}
		loops = append(loops, ns)
	}
	r.LoopNs = statistics.Median(loops)
	for _, c := range all {
		c.row.Ns = statistics.Median(c.trials) - r.LoopNs
		c.row.Spread = (statistics.Quantile(c.trials, 0.75) - statistics.Quantile(c.trials, 0.25)) / statistics.Median(c.trials)
		if c.tables != nil {
			c.row.SwapMs = statistics.Median(c.swaps)
		}
		r.Rows = append(r.Rows, c.row)
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int { return group(a) - group(b) })
	r.Took = time.Since(start)
	return r, nil
}

// group keeps packets of one kind together.
func group(r Row) int {
	n := 0
	if strings.HasPrefix(r.ID, "blocklist") {
		n = 4
	}
	if strings.Contains(r.ID, ".hits") {
		n++
	}
	return n
}

func ms(since time.Time) float64 { return float64(time.Since(since)) / float64(time.Millisecond) }

// Noise is the A/A interval: between these ratios lie 90 of 100 repetitions.
func (r *Report) Noise() (low, high float64) {
	return statistics.Quantile(r.Again, 0.05), statistics.Quantile(r.Again, 0.95)
}
