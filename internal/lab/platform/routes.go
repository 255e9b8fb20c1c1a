// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"encoding/binary"
	"fmt"
	"iter"
	"time"
	"unsafe"

	"minne/internal/lab/algo/dataset"
	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/algo/lpmbench"
	"minne/internal/lab/platform/data"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/tableimage"
)

var routeAlgorithms = []string{TreeBitmap, ShapeShifting, RangeTable, Direct24, Staged16, TrieMap, KernelFIB}

// routeKeys is how many addresses are looked up: as many as the eBPF programs have room for, but in small tables.
func routeKeys(routes int) int { return min(lpmbench.KeyCount, max(leastAsked, 2*routes)) }

// keySet are addresses of one family that are looked up.
type keySet struct {
	*set
	keys []lpm.Key
}

// routeWorkloads are the tables for routes of one family.
func (b *builder) routeWorkloads(f lpm.Family, routes []lpm.Route) error {
	if len(routes) == 0 {
		return nil
	}
	holds := fmt.Sprintf("IPv%d, %s", f, counted(len(routes), "route"))
	sets, err := b.routeKeySets(f, routes)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		algorithm, native string
		build             func(lpm.Family, []lpm.Route) (*tableimage.Image, error)
	}{
		{TreeBitmap, "tree-bitmap", lpm.TreeBitmap},
		{ShapeShifting, "shape-shifting", lpm.ShapeShifting},
	} {
		if !b.wanted(c.algorithm) {
			continue
		}
		b.step("build %s, %s", c.algorithm, holds)
		begin := time.Now()
		m, err := c.build(f, routes)
		if err != nil {
			b.missing(c.algorithm, holds, err)
			continue
		}
		w := &workload{algorithm: c.algorithm, native: c.native, holds: holds, build: time.Since(begin)}
		s := lpm.StatsOf(m)
		w.used, w.memory, w.detail = s.UsedBytes, s.ImageBytes, fmt.Sprintf("%s nodes", grouped(s.Nodes+s.Ends))
		w.inKernel = func(k *kernelSide) (contender, error) {
			return k.routes(f, sets, func(l *lpmbench.Bench) (*lpmbench.Contender, error) { return l.Image(f, m) })
		}
		if err := b.add(w, m.Bytes(binary.NativeEndian), plain(sets)); err != nil {
			return err
		}
	}
	b.routesForPeers(f, routes, holds, plain(sets))
	if b.wanted(TrieMap) {
		b.trieMap(f, routes, holds, sets)
	}
	if b.wanted(KernelFIB) {
		b.kernelRoutes(f, routes, holds, sets)
	}
	return b.routerTables(f, routes, holds, sets)
}

func plain(sets []keySet) (all []*set) {
	for _, s := range sets {
		all = append(all, s.set)
	}
	return all
}

// routeKeySets makes the addresses and works out the right answers.
func (b *builder) routeKeySets(f lpm.Family, routes []lpm.Route) ([]keySet, error) {
	if !b.wanted(routeAlgorithms...) {
		return nil, nil
	}
	n := routeKeys(len(routes))
	b.step("look up %s addresses of IPv%d in the reference", grouped(2*n), f)
	reference, err := lpm.NewReference(f, routes)
	if err != nil {
		return nil, err
	}
	sets := []keySet{
		{&set{name: "random", origin: dataset.Random}, data.RandomKeys(f, n, Seed)},
		{&set{name: "in table", origin: dataset.InTable}, data.KeysInTable(routes, n, Seed)},
	}
	for i, s := range sets {
		var sum dataset.Checksum
		for _, k := range s.keys {
			sum.Add(reference.Lookup(k))
		}
		s.checksum = sum.String()
		content, err := dataset.Keys(s.origin, data.KeyBytes(f, s.keys))
		if err != nil {
			return nil, err
		}
		if s.file, err = store(b.dir, fmt.Sprintf("addresses%d-%d", f, i), content); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

// routerTables are the router's own structures.
func (b *builder) routerTables(f lpm.Family, routes []lpm.Route, holds string, sets []keySet) error {
	type own struct {
		algorithm, native string
		structure         fib.Structure
		number            dataset.Structure
	}
	all := []own{{RangeTable, "range", fib.Range18, dataset.Range}, {Direct24, "direct24", fib.Direct24, dataset.Direct24}}
	if f == lpm.IPv6 {
		all = []own{{Staged16, "staged16", fib.Default, dataset.Staged16}}
	}
	for _, o := range all {
		if !b.wanted(o.algorithm) {
			continue
		}
		b.step("build %s, %s", o.algorithm, holds)
		l := fib.Layout6(fib.Full)
		if f == lpm.IPv4 {
			l = fib.Layout4(o.structure, fib.Full)
		}
		memory, used, took, err := compile(f, l, routes)
		if err != nil {
			b.missing(o.algorithm, holds, err)
			continue
		}
		set := l.Constants()
		words, rootBits := int(set["fib4_mask"])+1, set["fib4_root_bits"]
		if f == lpm.IPv6 {
			words, rootBits = int(set["fib6_mask"])+1, 16
		}
		content, err := dataset.Router(o.number, rootBits, memory[:4*words], binary.NativeEndian)
		if err != nil {
			return err
		}
		w := &workload{algorithm: o.algorithm, native: o.native, holds: holds, build: took, used: used, memory: 4 * words}
		w.inKernel = func(k *kernelSide) (contender, error) {
			return k.routes(f, sets, func(l *lpmbench.Bench) (*lpmbench.Contender, error) {
				c, _, err := l.FIB(f, o.structure, routes)
				return c, err
			})
		}
		if err := b.add(w, content, plain(sets)); err != nil {
			return err
		}
	}
	return nil
}

// trieMap is the kernel's own, which is filled as it is loaded.
func (b *builder) trieMap(f lpm.Family, routes []lpm.Route, holds string, sets []keySet) {
	w := &workload{algorithm: TrieMap, holds: holds, sets: plain(sets)}
	w.inKernel = func(k *kernelSide) (contender, error) {
		return k.routes(f, sets, func(l *lpmbench.Bench) (*lpmbench.Contender, error) {
			begin := time.Now()
			c, used, err := l.Trie(f, routes)
			w.memory = used
			b.result.Tables = append(b.result.Tables, Table{Algorithm: TrieMap, Holds: holds, Used: used, Memory: used, BuildMs: time.Since(begin).Seconds() * 1e3})
			return c, err
		})
	}
	b.workloads = append(b.workloads, w)
}

// compile fills a table of the router.
func compile(f lpm.Family, l fib.Layout, routes []lpm.Route) (memory []byte, used int, took time.Duration, err error) {
	aligned := make([]uint64, (l.ImageBytes()+7)/8)
	memory = unsafe.Slice((*byte)(unsafe.Pointer(&aligned[0])), l.ImageBytes())
	begin := time.Now()
	if f == lpm.IPv6 {
		t, err := fib.NewTable6(memory, l, fib.Options{})
		if err == nil {
			err = t.Replace(fibRoutes(routes))
		}
		if err != nil {
			return nil, 0, 0, err
		}
		return memory, t.Stats().UsedBytes, time.Since(begin), nil
	}
	t, err := fib.NewTable4(memory, l, fib.Options{})
	if err == nil {
		err = t.Replace(fibRoutes(routes))
	}
	if err != nil {
		return nil, 0, 0, err
	}
	return memory, t.Stats().UsedBytes, time.Since(begin), nil
}

func fibRoutes(routes []lpm.Route) iter.Seq[fib.Route] {
	return func(yield func(fib.Route) bool) {
		for _, r := range routes {
			if !yield(fib.Route{Prefix: r.Prefix, NextHop: uint16(r.NextHop)}) {
				return
			}
		}
	}
}
