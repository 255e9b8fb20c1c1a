// SPDX-License-Identifier: Apache-2.0

package lpmbench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"minne/internal/lab/algo/lpm"
	"minne/internal/subsystem/fastpath/fib"
	"minne/internal/testing/nativetest"
)

// TestRouterStructuresNatively searches images that the router's compiler wrote into ordinary memory by the
// program's own code, compiled for this CPU.
func TestRouterStructuresNatively(t *testing.T) {
	dir := t.TempDir()
	program, err := nativetest.Compile(dir, "../../../..", "testdata/fib.c", nativetest.Checked...)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []lpm.Family{lpm.IPv4, lpm.IPv6} {
		routes := fullTable(t, f)
		reference, err := lpm.NewReference(f, routes)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(4, uint64(f)))
		keys := make([]lpm.Key, 200_000)
		var raw []byte
		for i := range keys {
			keys[i] = inside(routes[rng.IntN(len(routes))].Prefix, rng)
			if i%3 == 0 {
				keys[i] = lpm.Key{Hi: rng.Uint64(), Lo: rng.Uint64()}
			}
			raw = binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(raw, keys[i].Hi), keys[i].Lo)
		}
		list := filepath.Join(dir, "keys")
		write(t, list, raw)
		structures := fib.Structures
		if f == lpm.IPv6 {
			structures = structures[:1] // it has one only
		}
		for _, s := range structures {
			l := fib.Layout6(fib.Full)
			if f == lpm.IPv4 {
				l = fib.Layout4(s, fib.Full)
			}
			memory := make([]byte, l.ImageBytes())
			if _, err := fillFIB(f, l, memory, routes); err != nil {
				t.Fatal(err)
			}
			img := filepath.Join(dir, "image")
			write(t, img, memory)
			set := l.Constants()
			out, err := exec.Command(program, fmt.Sprint(int(f)), fmt.Sprint(set["fib4_structure"]), fmt.Sprint(set["fib4_root_bits"]), img, list).Output()
			if err != nil {
				t.Fatalf("IPv%d %v: %v", f, s, err)
			}
			for i, k := range keys {
				if got, want := binary.NativeEndian.Uint32(out[4*i:]), reference.Lookup(k); got != want {
					t.Fatalf("IPv%d %v: %v: %d, the reference says %d", f, s, k.Address(f), got, want)
				}
			}
		}
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
