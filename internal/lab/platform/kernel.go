// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"time"

	"minne/internal/lab/algo/automatonbench"
	"minne/internal/lab/algo/bloombench"
	"minne/internal/lab/algo/dataset"
	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/algo/lpmbench"
	"minne/internal/subsystem/fastpath/tableimage"
)

// asking is one way to go through a set in eBPF.
type asking struct {
	set    int
	access string
	order  string
	per    string
}

// contender is a table that eBPF programs search.
type contender interface {
	// check returns the checksum of all answers to a set.
	check(set int) (string, error)
	// asks are the ways in which it can be asked.
	asks() []asking
	// time asks once, and returns ns per key or byte.
	time(asking) (float64, error)
	close()
}

// kernelSide is what eBPF contenders share.
type kernelSide struct {
	lookups *lpmbench.Bench
	// shown are the keys that lie in lookups: which set, and whether only the hot ones.
	shown    *keySet
	shownHot bool
}

func newKernelSide() (*kernelSide, error) {
	b, err := lpmbench.NewBench()
	if err != nil {
		return nil, err
	}
	return &kernelSide{lookups: b}, nil
}

func (k *kernelSide) close() { k.lookups.Close() }

// routes is a contender for longest prefix match.
func (k *kernelSide) routes(f lpm.Family, sets []keySet, load func(*lpmbench.Bench) (*lpmbench.Contender, error)) (contender, error) {
	c, err := load(k.lookups)
	if err != nil {
		return nil, err
	}
	return &routeContender{k, c, f, sets, paces{}}, nil
}

type routeContender struct {
	side   *kernelSide
	table  *lpmbench.Contender
	family lpm.Family
	sets   []keySet
	paces  paces
}

func (c *routeContender) close() { c.table.Close() }

// show lays keys where the programs find them.
func (c *routeContender) show(set int, hot bool) {
	s := &c.sets[set]
	if c.side.shown == s && c.side.shownHot == hot {
		return
	}
	c.side.shown, c.side.shownHot = s, hot
	keys := s.keys
	if hot {
		keys = keys[:min(len(keys), hotKeys)]
	}
	for at := 0; at < len(c.side.lookups.Keys); at += len(keys) {
		copy(c.side.lookups.Keys[at:], keys)
	}
}

func (c *routeContender) check(set int) (string, error) {
	c.show(set, false)
	n := len(c.sets[set].keys)
	if err := c.table.Check(n); err != nil {
		return "", err
	}
	var sum dataset.Checksum
	for _, hop := range c.side.lookups.Answers[:n] {
		sum.Add(hop)
	}
	return sum.String(), nil
}

func (c *routeContender) asks() []asking { return keyAsks(len(c.sets)) }

// keyAsks are all ways in which so many sets of keys are asked for.
func keyAsks(sets int) (all []asking) {
	for set := range sets {
		for _, access := range []string{"hot", "all"} {
			for _, order := range []string{"independent", "dependent"} {
				all = append(all, asking{set, access, order, "key"})
			}
		}
	}
	return all
}

// timedLookups are those of one run of a program, at most, and timedNs what it should take: a structure that takes 40 times
// as long as another one is not measured for 40 times as long. A run before it, as long as a quarter, brings in what
// the caches can hold of this table instead of another one's.
const (
	timedLookups = 1 << 18
	leastTimed   = 1 << 12
	timedNs      = 8e6
)

// timed is how many lookups one run has when there are so many keys, of which each takes so many ns (0: unknown): of small
// tables fewer will do.
func timed(keys int, ns float64) uint32 {
	n := min(timedLookups, max(keys, hotKeys))
	if ns == 0 {
		return uint32(min(n, leastTimed))
	}
	return uint32(max(min(n, int(timedNs/ns)), min(n, leastTimed)))
}

// lookups runs a program for some of so many keys, others each time, and returns ns per key. seen is what a key took before,
// 0 when it is the first time.
func lookups(run func(first, count uint32, dependent bool) (float64, error), keys int, dependent bool, seen *pace) (ns float64, err error) {
	if seen.ns == 0 {
		if seen.ns, err = run(0, timed(keys, 0), dependent); err != nil {
			return 0, err
		}
	}
	n := timed(keys, seen.ns)
	if _, err := run(seen.next, n/4, dependent); err != nil {
		return 0, err
	}
	seen.ns, err = run(seen.next+n/4, n, dependent)
	seen.next = (seen.next + n + n/4) % uint32(keys)
	return seen.ns, err
}

// pace is how fast one way of asking was, and which key is the next.
type pace struct {
	ns   float64
	next uint32
}

// paces are those of all ways of asking.
type paces map[asking]*pace

func (p paces) of(a asking) *pace {
	if p[a] == nil {
		p[a] = &pace{}
	}
	return p[a]
}

func (c *routeContender) time(a asking) (float64, error) {
	c.show(a.set, a.access == "hot")
	return lookups(c.table.Time, len(c.sets[a.set].keys), a.order == "dependent", c.paces.of(a))
}

// patterns is a contender for pattern matching.
func (k *kernelSide) patterns(m *tableimage.Image, payload [][]byte) (contender, error) {
	p, err := automatonbench.Load(m)
	if err != nil {
		return nil, err
	}
	return &patternContender{p, payload}, nil
}

type patternContender struct {
	program *automatonbench.Program
	payload [][]byte
}

func (c *patternContender) close() { c.program.Close() }

func (c *patternContender) asks() []asking { return []asking{{0, "all", "stream", "byte"}} }

// pass searches all records, each by itself, and tells how long the programs ran.
func (c *patternContender) pass(each func(found []int)) (took time.Duration, bytes int, err error) {
	for _, record := range c.payload {
		c.program.Begin()
		for part := record; len(part) > 0; {
			n := min(len(part), automatonbench.DataBytes)
			d, err := c.program.Feed(part[:n])
			if err != nil {
				return 0, 0, err
			}
			took, bytes, part = took+d, bytes+n, part[n:]
		}
		if err := c.program.Finish(); err != nil {
			return 0, 0, err
		}
		if each != nil {
			each(c.program.Found())
		}
	}
	return took, bytes, nil
}

func (c *patternContender) check(int) (string, error) {
	var sum dataset.Checksum
	_, _, err := c.pass(sum.AddRecord)
	return sum.String(), err
}

func (c *patternContender) time(asking) (float64, error) {
	took, bytes, err := c.pass(nil)
	if err != nil {
		return 0, err
	}
	if bytes == 0 {
		return 0, fmt.Errorf("a payload of nothing")
	}
	return float64(took.Nanoseconds()) / float64(bytes), nil
}

// filter is a contender for Bloom filters; each set has its keys, all of one length.
func (k *kernelSide) filter(m *tableimage.Image, keys [][][]byte) (contender, error) {
	b, err := bloombench.NewBench(len(keys[0][0]))
	if err != nil {
		return nil, err
	}
	f, err := b.Image(m)
	if err != nil {
		b.Close()
		return nil, err
	}
	return &filterContender{bench: b, filter: f, keys: keys, shown: -1, paces: paces{}}, nil
}

type filterContender struct {
	bench    *bloombench.Bench
	filter   *bloombench.Contender
	keys     [][][]byte
	shown    int // set whose keys lie where the programs find them; -1: none
	shownHot bool
	paces    paces
}

func (c *filterContender) close() {
	c.filter.Close()
	c.bench.Close()
}

// show lays keys where the programs find them, again and again to the end.
func (c *filterContender) show(set int, hot bool) {
	if c.shown == set && c.shownHot == hot {
		return
	}
	c.shown, c.shownHot = set, hot
	keys := c.keys[set]
	if hot {
		keys = keys[:min(len(keys), hotKeys)]
	}
	for i := range bloombench.KeyCount {
		c.bench.SetKey(i, keys[i%len(keys)])
	}
}

func (c *filterContender) check(set int) (string, error) {
	c.show(set, false)
	n := len(c.keys[set])
	if err := c.filter.Check(n); err != nil {
		return "", err
	}
	var sum dataset.Checksum
	for _, a := range c.bench.Answers[:n] {
		sum.Add(a)
	}
	return sum.String(), nil
}

func (c *filterContender) asks() []asking { return keyAsks(len(c.keys)) }

func (c *filterContender) time(a asking) (float64, error) {
	c.show(a.set, a.access == "hot")
	return lookups(c.filter.Time, len(c.keys[a.set]), a.order == "dependent", c.paces.of(a))
}
