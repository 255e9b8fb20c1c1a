// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gaissmai/bart"

	"minne/internal/algo/image"
	"minne/internal/fulltable"
)

// structure is one of those that this package compiles.
type structure struct {
	name  string // of the C program's lookups, without the family
	build func(Family, []Route) (*image.Image, error)
}

var structures = []structure{
	{"tbm", TreeBitmap},
	{"sst", ShapeShifting},
}

// native compiles testdata/search.c once for each set of flags.
var native = struct {
	sync.Mutex
	programs map[string]string
}{programs: map[string]string{}}

// compiler is the first C compiler that there is.
func compiler(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"clang-19", "clang", "gcc", "cc"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no C compiler found: looked for clang-19, clang, gcc and cc; ./dev test installs one")
	return ""
}

// searcher is the C program, compiled with these flags.
func searcher(t *testing.T, flags ...string) string {
	t.Helper()
	native.Lock()
	defer native.Unlock()
	name := fmt.Sprint(flags)
	if native.programs[name] == "" {
		out := filepath.Join(scratch, fmt.Sprintf("search%d", len(native.programs)))
		args := append([]string{"-std=gnu99", "-Wall", "-Wextra", "-Werror", "-I../../../bpf/algo", "-o", out, "testdata/search.c"}, flags...)
		if said, err := exec.Command(compiler(t), args...).CombinedOutput(); err != nil {
			t.Fatalf("compile testdata/search.c: %v\n%s", err, said)
		}
		native.programs[name] = out
	}
	return native.programs[name]
}

// scratch holds the compiled programs until all tests have ended.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "lpm"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// search looks keys up by the C program; it also tells nodes looked at and ns per lookup.
func search(t *testing.T, program, how string, words []uint32, keys []Key) (answers []uint32, visits, ns float64) {
	t.Helper()
	dir := t.TempDir()
	img, list := filepath.Join(dir, "image"), filepath.Join(dir, "keys")
	raw := make([]byte, 0, 16*len(keys))
	for _, k := range keys {
		raw = binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(raw, k.Hi), k.Lo)
	}
	table := make([]byte, 0, 4*len(words))
	for _, w := range words {
		table = binary.NativeEndian.AppendUint32(table, w)
	}
	for name, data := range map[string][]byte{img: table, list: raw} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, said bytes.Buffer
	c := exec.Command(program, how, img, list)
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, how, err, &said)
	}
	if _, err := fmt.Sscan(said.String(), &visits, &ns); err != nil {
		t.Fatalf("%s: it said %q", how, &said)
	}
	answers = make([]uint32, len(keys))
	if _, err := binary.Decode(out.Bytes(), binary.NativeEndian, answers); err != nil {
		t.Fatal(err)
	}
	return answers, visits, ns
}

// somewhere makes keys: random ones, and ones inside prefixes, at their edges and just outside.
func somewhere(f Family, routes []Route, n int, rng *rand.Rand) []Key {
	keys := make([]Key, n)
	for i := range keys {
		r := Key{rng.Uint64(), rng.Uint64()}
		p := routes[rng.IntN(len(routes))].Prefix
		e := entry{Key: KeyOf(p.Addr()), bits: int32(p.Bits())}
		free := Key{^uint64(0), ^uint64(0)}
		if e.bits <= 64 {
			free.Hi >>= e.bits
		} else {
			free = Key{0, free.Lo >> (e.bits - 64)}
		}
		behind, _ := e.behind()
		switch i % 5 {
		case 0:
			keys[i] = r
		case 1:
			keys[i] = Key{e.Hi | r.Hi&free.Hi, e.Lo | r.Lo&free.Lo}
		case 2:
			keys[i] = e.Key
		case 3:
			keys[i] = Key{e.Hi | free.Hi, e.Lo | free.Lo}
		case 4:
			keys[i] = behind
		}
		if f == IPv4 {
			keys[i] = Key{Hi: keys[i].Hi &^ (1<<32 - 1)}
		}
	}
	return keys
}

// withHops gives prefixes random next hops 1…most.
func withHops(prefixes []netip.Prefix, most int, rng *rand.Rand) []Route {
	routes := make([]Route, len(prefixes))
	for i, p := range prefixes {
		routes[i] = Route{p, uint32(1 + rng.IntN(most))}
	}
	return routes
}

var internet = sync.OnceValues(func() (map[Family][]netip.Prefix, error) {
	v4, v6, err := fulltable.Load()
	return map[Family][]netip.Prefix{IPv4: v4, IPv6: v6}, err
})

// agree compares the C program's answers with another implementation's.
func agree(t *testing.T, s structure, f Family, routes []Route, keys []Key, flags ...string) (visits, ns float64) {
	t.Helper()
	m, err := s.build(f, routes)
	if err != nil {
		t.Fatal(err)
	}
	answers, visits, ns := search(t, searcher(t, flags...), fmt.Sprintf("%s%d", s.name, f), m.Words, keys)
	judge := new(bart.Fast[uint32])
	for _, r := range routes {
		judge.Insert(r.Prefix, r.NextHop)
	}
	for i, k := range keys {
		want, _ := judge.Lookup(k.Address(f))
		if answers[i] != want {
			t.Fatalf("%v: the lookup says %d, bart %d", k.Address(f), answers[i], want)
		}
	}
	t.Logf("%d bytes used, %.2f nodes, %.1f ns", 4*m.Words[4], visits, ns)
	return visits, ns
}

// lookups is how many keys of a full table are compared.
func lookups() int {
	if os.Getenv("MINNE_TEST_LONG") != "" {
		return 10_000_000
	}
	return 1_000_000
}

func TestFullTable(t *testing.T) {
	tables, err := internet()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range structures {
		for _, f := range []Family{IPv4, IPv6} {
			t.Run(fmt.Sprintf("%s%d", s.name, f), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, uint64(f)))
				routes := withHops(tables[f], 64, rng)
				agree(t, s, f, routes, somewhere(f, routes, lookups(), rng), "-O2")
			})
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	tables, err := internet()
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range structures {
		for _, f := range []Family{IPv4, IPv6} {
			routes := withHops(tables[f], 64, rand.New(rand.NewPCG(1, 1)))
			b.Run(fmt.Sprintf("%s%d", s.name, f), func(b *testing.B) {
				for b.Loop() {
					if _, err := s.build(f, routes); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
