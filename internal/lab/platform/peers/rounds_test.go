// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"minne/internal/lab/algo/dataset"
	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/fulltable"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/tableimage"
)

const (
	repetitions = 9
	keyCount    = 1 << 20
	root        = "../../../.."
)

// programs is where `scripts/peers.sh` puts peers.
func programs() string { return filepath.Join(root, "build/peers") }

// measured is a contender of a benchmark: one of Minne's own structures, by minne-procbench, or a peer.
type measured struct {
	name  string
	bytes int
	sets  []Set
	ns    map[Variant][]float64
	round func() (map[Variant]float64, error)
}

// procbench is what minne-procbench says.
type procbench struct {
	Memory  struct{ Table int }
	Sets    []Set
	Results []struct {
		Variant
		NS struct{ Median float64 }
	}
}

// own is one of Minne's structures. Each round starts the program anew.
func own(b *testing.B, program, name, algorithm, table string, used int, sets []string, flags ...string) *measured {
	b.Helper()
	args := append(append(flags, "--json", "--cpu", "1", algorithm, table), sets...)
	run := func(more ...string) (*procbench, error) {
		out, err := exec.Command(program, append(more, args...)...).Output()
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", program, algorithm, err)
		}
		var p procbench
		return &p, json.Unmarshal(out, &p)
	}
	p, err := run("--check")
	if err != nil {
		b.Fatal(err)
	}
	return &measured{name: name, bytes: used, sets: p.Sets, ns: map[Variant][]float64{}, round: func() (map[Variant]float64, error) {
		p, err := run("--seconds", "0.5")
		if err != nil {
			return nil, err
		}
		ns := map[Variant]float64{}
		for _, r := range p.Results {
			ns[r.Variant] = r.NS.Median
		}
		return ns, nil
	}}
}

// peer is a library's.
func peer(b *testing.B, p Peer, in Inputs) *measured {
	b.Helper()
	in.CPU = 1
	s, err := Open(context.Background(), p, in) // b's own ends before Cleanup
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	name := p.String()
	if in.Huge {
		name += ", huge pages"
	}
	b.Logf("%s, %s: built in %.1f s", name, p.Version, s.BuildSeconds)
	return &measured{name: name, bytes: s.Bytes, sets: s.Sets, ns: map[Variant][]float64{}, round: func() (map[Variant]float64, error) {
		list, err := s.Round(100 * time.Millisecond)
		ns := map[Variant]float64{}
		for i, v := range list {
			ns[s.Ways[i]] = v
		}
		return ns, err
	}}
}

// rounds lets all contenders take turns and shows what they took.
func rounds(b *testing.B, all []*measured) {
	b.Helper()
	for _, m := range all {
		for i := range m.sets {
			if m.sets[i].Checksum != all[0].sets[i].Checksum {
				b.Errorf("%s answers set %d otherwise than %s: %v, %v", m.name, i, all[0].name, m.sets[i], all[0].sets[i])
			}
		}
	}
	for r := range repetitions {
		for i := range all {
			m := all[(i+r)%len(all)]
			ns, err := m.round()
			if err != nil {
				b.Fatal(err)
			}
			for w, v := range ns {
				m.ns[w] = append(m.ns[w], v)
			}
		}
	}
	for _, m := range all {
		ways := make([]Variant, 0, len(m.ns))
		for w := range m.ns {
			ways = append(ways, w)
		}
		slices.SortFunc(ways, func(a, b Variant) int { return slices.Compare([]string{fmt.Sprint(a)}, []string{fmt.Sprint(b)}) })
		for _, w := range ways {
			v := slices.Sorted(slices.Values(m.ns[w]))
			b.Logf("%-32s %9d bytes  set %d %-4s %-15s %8.3f ns (%.3f to %.3f)  %8.1f M/s", m.name, m.bytes, w.Set, w.Access, w.Order,
				v[len(v)/2], v[0], v[len(v)-1], 1e3/v[len(v)/2])
		}
	}
}

// file writes one into a directory and returns its name.
func file(b testing.TB, dir, name string, data []byte, err error) string {
	b.Helper()
	name = filepath.Join(dir, name)
	if err == nil {
		err = os.WriteFile(name, data, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return name
}

func compileProcbench(b *testing.B, dir string) string {
	b.Helper()
	program := filepath.Join(dir, "minne-procbench")
	if out, err := exec.Command("sh", filepath.Join(root, "scripts/procbench.sh"), runtime.GOARCH, program).CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	return program
}

// withHops gives the prefixes of a table next hops.
func withHops(prefixes []netip.Prefix) []lpm.Route {
	rng := rand.New(rand.NewPCG(1, 1))
	routes := make([]lpm.Route, len(prefixes))
	for i, p := range prefixes {
		routes[i] = lpm.Route{Prefix: p, NextHop: uint32(1 + rng.IntN(64))}
	}
	return routes
}

// addresses are keys of a family: all random, or random within the table's prefixes.
func addresses(routes []lpm.Route, inTable bool) [][]byte {
	rng := rand.New(rand.NewPCG(2, 2))
	keys := make([][]byte, keyCount)
	for i := range keys {
		p := routes[rng.IntN(len(routes))].Prefix
		b := p.Addr().AsSlice()
		from := 0
		if inTable {
			from = p.Bits()
		}
		for at := from; at < 8*len(b); at++ {
			if rng.Uint32()&1 == 1 {
				b[at/8] ^= 1 << (7 - at%8)
			}
		}
		keys[i] = b
	}
	return keys
}

// BenchmarkLongestPrefixMatch shows the native speed of Minne's structures on the full IPv4 table beside that of the
// peers in build/peers, in turns, with the same keys. Set 0 is random addresses, set 1 is within the table.
func BenchmarkLongestPrefixMatch(b *testing.B) {
	v4, v6, err := fulltable.Load()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range []struct {
		task   Task
		family lpm.Family
		routes []lpm.Route
	}{{IPv4, lpm.IPv4, withHops(v4)}, {IPv6, lpm.IPv6, withHops(v6)}} {
		b.Run(string(f.task), func(b *testing.B) { longestPrefixMatch(b, f.task, f.family, f.routes) })
	}
}

func longestPrefixMatch(b *testing.B, task Task, family lpm.Family, routes []lpm.Route) {
	dir := b.TempDir()
	program := compileProcbench(b, dir)
	var sets []string
	for _, o := range []dataset.Origin{dataset.Random, dataset.InTable} {
		data, err := dataset.Keys(o, addresses(routes, o == dataset.InTable))
		sets = append(sets, file(b, dir, fmt.Sprint("keys", o), data, err))
	}
	list, err := os.Create(filepath.Join(dir, "routes"))
	if err == nil {
		err = WriteRoutes(list, routes)
	}
	if err != nil {
		b.Fatal(err)
	}
	list.Close()

	var all []*measured
	for _, s := range []struct {
		name  string
		build func(lpm.Family, []lpm.Route) (*tableimage.Image, error)
	}{{"tree-bitmap", lpm.TreeBitmap}, {"shape-shifting", lpm.ShapeShifting}} {
		m, err := s.build(family, routes)
		if err != nil {
			b.Fatal(err)
		}
		table := file(b, dir, s.name, m.Bytes(binary.NativeEndian), nil)
		used := lpm.StatsOf(m).UsedBytes
		all = append(all, own(b, program, s.name, s.name, table, used, sets), own(b, program, s.name+", huge pages", s.name, table, used, sets, "--huge"))
	}
	for _, s := range []fib.Structure{fib.Default, fib.Direct24} {
		if family == lpm.IPv6 {
			break
		}
		algorithm := "range"
		if s == fib.Direct24 {
			algorithm = "direct24"
		}
		name := s.String()
		table, used := routerTable(b, dir, name, s, routes)
		all = append(all, own(b, program, name, algorithm, table, used, sets), own(b, program, name+", huge pages", algorithm, table, used, sets, "--huge"))
	}
	found, err := Available(b.Context(), programs())
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range found {
		if p.Task != task || p.Slow != "" {
			continue
		}
		in := Inputs{Table: list.Name(), Sets: sets}
		all = append(all, peer(b, p, in))
		if in.Huge = p.Huge; in.Huge {
			all = append(all, peer(b, p, in))
		}
	}
	rounds(b, all)
}

// routerTable writes a table of the router's own structures.
func routerTable(b *testing.B, dir, name string, s fib.Structure, routes []lpm.Route) (table string, used int) {
	b.Helper()
	l := fib.Layout4(s, fib.Full)
	memory := make([]byte, l.ImageBytes())
	t, err := fib.NewTable4(memory, l, fib.Options{})
	if err == nil {
		err = t.Replace(func(yield func(fib.Route) bool) {
			for _, r := range routes {
				if !yield(fib.Route{Prefix: r.Prefix, NextHop: uint16(r.NextHop)}) {
					return
				}
			}
		})
	}
	if err != nil {
		b.Fatal(err)
	}
	number := dataset.Range
	if s == fib.Direct24 {
		number = dataset.Direct24
	}
	set := l.Constants()
	words := memory[:4*(int(set["fib4_mask"])+1)]
	data, err := dataset.Router(number, set["fib4_root_bits"], words, binary.NativeEndian)
	return file(b, dir, name, data, err), t.Stats().UsedBytes
}
