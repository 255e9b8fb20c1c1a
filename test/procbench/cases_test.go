// SPDX-License-Identifier: Apache-2.0

package procbench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"unsafe"

	"minne/internal/lab/algo/bloom"
	"minne/internal/lab/algo/dataset"
	"minne/internal/lab/algo/lpm"
	"minne/internal/subsystem/fastpath/automaton"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/subsystem/fastpath/tableimage"
)

// question is a table, what it is asked for, and what plain Go answers.
type question struct {
	name      string
	algorithm string
	image     *tableimage.Image                            // or, of the router's own structures:
	router    func(order binary.ByteOrder) ([]byte, error) // the file
	sets      [][]byte
	want      []string // checksum of the answers to each set
}

// table is the file of the table for a byte order.
func (q question) table(order binary.ByteOrder) ([]byte, error) {
	if q.image != nil {
		return q.image.Bytes(order), nil
	}
	return q.router(order)
}

// questions are the same each time.
var questions = sync.OnceValues(func() ([]question, error) {
	rng := rand.New(rand.NewPCG(20, 26))
	var all []question
	for _, ask := range []func(*rand.Rand) ([]question, error){filters, prefixes, patterns} {
		some, err := ask(rng)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
})

const keys = 6000

func randomBytes(n int, rng *rand.Rand) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// filter is a Bloom filter of either kind.
type filter interface {
	Add(key []byte) error
	Has(key []byte) bool
	Image() (*tableimage.Image, error)
}

func newFilter(p bloom.Parameters, counting bool) (filter, error) {
	if counting {
		return bloom.NewCounting(p)
	}
	return bloom.New(p)
}

// filters asks for keys of several lengths that are in the filter, and others.
func filters(rng *rand.Rand) ([]question, error) {
	var all []question
	for _, counting := range []bool{false, true} {
		for _, blocked := range []bool{false, true} {
			for _, length := range []int{4, 13, 16} {
				q := question{name: fmt.Sprintf("keys of %d bytes, blocked %v", length, blocked), algorithm: "bloom"}
				if counting {
					q.algorithm = "counting-bloom"
				}
				f, err := newFilter(bloom.Parameters{Keys: keys, BitsPerKey: 6, Blocked: blocked, Seed: rng.Uint64()}, counting)
				if err != nil {
					return nil, err
				}
				in, out := make([][]byte, keys), make([][]byte, keys)
				for i := range in {
					in[i], out[i] = randomBytes(length, rng), randomBytes(length, rng)
					if err := f.Add(in[i]); err != nil {
						return nil, err
					}
				}
				if q.image, err = f.Image(); err != nil {
					return nil, err
				}
				for origin, asked := range map[dataset.Origin][][]byte{dataset.InTable: in, dataset.Random: out} {
					var sum dataset.Checksum
					for _, k := range asked {
						sum.AddBool(f.Has(k))
					}
					if err := q.ask(origin, asked, sum); err != nil {
						return nil, err
					}
				}
				all = append(all, q)
			}
		}
	}
	return all, nil
}

// ask adds a set of keys with what they answer.
func (q *question) ask(origin dataset.Origin, asked [][]byte, sum dataset.Checksum) error {
	file, err := dataset.Keys(origin, asked)
	if err != nil {
		return err
	}
	q.sets, q.want = append(q.sets, file), append(q.want, sum.String())
	return nil
}

// routes are some of all lengths, many of them inside others, and addresses in and around them.
func routes(f lpm.Family, rng *rand.Rand) (routes []lpm.Route, near, anywhere []netip.Addr) {
	most, length := 32, 4
	if f == lpm.IPv6 {
		most, length = 128, 16
	}
	base := randomBytes(length, rng)
	for i := range keys {
		b := randomBytes(length, rng)
		copy(b, base[:rng.IntN(length)])
		a, _ := netip.AddrFromSlice(b)
		p := netip.PrefixFrom(a, 1+i%most).Masked()
		if i%3 == 0 { // as most are in real tables
			p = netip.PrefixFrom(a, most*3/4).Masked()
		}
		routes = append(routes, lpm.Route{Prefix: p, NextHop: 1 + rng.Uint32N(2000)})
		near = append(near, a)
		other, _ := netip.AddrFromSlice(randomBytes(length, rng))
		anywhere = append(anywhere, other)
	}
	return routes, near, anywhere
}

// prefixes asks all structures for longest prefix match, the router's own among them.
func prefixes(rng *rand.Rand) ([]question, error) {
	var all []question
	for _, f := range []lpm.Family{lpm.IPv4, lpm.IPv6} {
		routes, near, anywhere := routes(f, rng)
		reference, err := lpm.NewReference(f, routes)
		if err != nil {
			return nil, err
		}
		table := question{}
		for origin, addresses := range map[dataset.Origin][]netip.Addr{dataset.InTable: near, dataset.Random: anywhere} {
			var sum dataset.Checksum
			var asked [][]byte
			for _, a := range addresses {
				sum.Add(reference.Lookup(lpm.KeyOf(a)))
				asked = append(asked, a.AsSlice())
			}
			if err := table.ask(origin, asked, sum); err != nil {
				return nil, err
			}
		}
		for name, build := range map[string]func(lpm.Family, []lpm.Route) (*tableimage.Image, error){
			"tree-bitmap": lpm.TreeBitmap, "shape-shifting": lpm.ShapeShifting,
		} {
			m, err := build(f, routes)
			if err != nil {
				return nil, err
			}
			all = append(all, question{name: fmt.Sprintf("IPv%d", f), algorithm: name, image: m, sets: table.sets, want: table.want})
		}
		own, err := routers(f, routes)
		if err != nil {
			return nil, err
		}
		for _, q := range own {
			q.sets, q.want = table.sets, table.want
			all = append(all, q)
		}
	}
	return all, nil
}

// setter is a table of the router's.
type setter interface {
	Set(netip.Prefix, uint16) error
	Publish() error
}

// routers are the router's own structures with the routes.
func routers(f lpm.Family, routes []lpm.Route) ([]question, error) {
	compile := func(l fib.Layout, make func([]byte) (setter, error), s dataset.Structure) (func(binary.ByteOrder) ([]byte, error), error) {
		memory := aligned(int(l.ImageBytes()))
		t, err := make(memory)
		if err != nil {
			return nil, err
		}
		for _, r := range routes {
			if err := t.Set(r.Prefix, uint16(r.NextHop)); err != nil {
				return nil, err
			}
		}
		if err := t.Publish(); err != nil {
			return nil, err
		}
		return func(order binary.ByteOrder) ([]byte, error) {
			words, err := l.InOrder(memory, order)
			if err != nil {
				return nil, err
			}
			return dataset.Router(s, l.Constants()["fib4_root_bits"], words[:len(words)-slack], order)
		}, nil
	}
	var all []question
	add := func(name string, l fib.Layout, make func([]byte) (setter, error), s dataset.Structure) error {
		router, err := compile(l, make, s)
		all = append(all, question{name: fmt.Sprintf("IPv%d", f), algorithm: name, router: router})
		return err
	}
	if f == lpm.IPv6 {
		l := fib.Layout6(fib.Small)
		err := add("staged16", l, func(b []byte) (setter, error) { return fib.NewTable6(b, l, fib.Options{}) }, dataset.Staged16)
		return all, err
	}
	l := fib.Layout4(fib.Range16, fib.Small)
	if err := add("range", l, func(b []byte) (setter, error) { return fib.NewTable4(b, l, fib.Options{}) }, dataset.Range); err != nil {
		return nil, err
	}
	d := fib.Layout4(fib.Direct24, fib.Full)
	err := add("direct24", d, func(b []byte) (setter, error) { return fib.NewTable4(b, d, fib.Options{}) }, dataset.Direct24)
	return all, err
}

// slack is what lies behind an image of the router's: FIB_SLACK of bpf/fib_range.h.
const slack = 256

// aligned is memory as an eBPF array's, at a multiple of 8 bytes.
func aligned(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// words that patterns and payload are made of, so that many match.
var wordsOfPayload = []string{"GET ", "POST ", "/index", "cmd.exe", "User-Agent: ", "\r\n", "admin", "passwd", "\x90\x90\x90\x90", "BitTorrent", "0123456789", "\x00\xff"}

// patterns asks for literals and regular expressions.
func patterns(rng *rand.Rand) ([]question, error) {
	var literals, expressions []automaton.Pattern
	for i := range 400 {
		b := randomBytes(2+rng.IntN(12), rng)
		if i < len(wordsOfPayload) {
			b = []byte(wordsOfPayload[i])
		} else if i%2 == 0 {
			b = []byte(wordsOfPayload[rng.IntN(len(wordsOfPayload))] + wordsOfPayload[rng.IntN(len(wordsOfPayload))])
		}
		p, err := automaton.Literal(b)
		if err != nil {
			return nil, err
		}
		literals = append(literals, p)
	}
	for _, text := range []string{`/GET [^\r\n]*admin/`, `/cmd\.exe.*passwd/s`, `/^POST .{5,20}[0-9]{4}/s`, `/user-agent: [a-z]+/i`, `/index.*\x90{3}/s`, `/(BitTorrent|passwd)$/`, `/\x00\xff.{30}admin/s`} {
		p, err := automaton.ParsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		expressions = append(expressions, p)
	}
	records := make([][]byte, 120)
	for i := range records {
		for range rng.IntN(30) {
			records[i] = append(records[i], wordsOfPayload[rng.IntN(len(wordsOfPayload))]...)
			records[i] = append(records[i], randomBytes(rng.IntN(12), rng)...)
		}
	}
	payload, err := dataset.Payload(records)
	if err != nil {
		return nil, err
	}
	var all []question
	for _, c := range []struct {
		name, algorithm string
		patterns        []automaton.Pattern
		options         automaton.Options
	}{
		{"literals", "d2fa", literals, automaton.Options{}},
		{"expressions", "d2fa", expressions[:len(expressions)-1], automaton.Options{}}, // the last one explodes,
		{"literals", "hybrid", literals, automaton.Options{Hybrid: true}},
		{"expressions", "hybrid", expressions, automaton.Options{Hybrid: true}},
	} {
		a, err := automaton.Compile(c.patterns, c.options)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		var sum dataset.Checksum
		for _, r := range records {
			sum.AddRecord(a.Match(r))
		}
		all = append(all, question{name: c.name, algorithm: c.algorithm, image: a.Image(), sets: [][]byte{payload}, want: []string{sum.String()}})
	}
	return all, nil
}
