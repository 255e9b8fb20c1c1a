// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"minne/internal/testing/nativetest"
)

// native compiles testdata/search.c once for each set of flags.
var native = struct {
	sync.Mutex
	programs map[string]string
}{programs: map[string]string{}}

// searcher is the C program, compiled with these flags.
func searcher(t *testing.T, flags ...string) string {
	t.Helper()
	native.Lock()
	defer native.Unlock()
	name := fmt.Sprint(flags)
	if native.programs[name] == "" {
		program, err := nativetest.Compile(scratch, "../../../..", "testdata/search.c", flags...)
		if err != nil {
			t.Fatal(err)
		}
		native.programs[name] = program
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

// search looks keys up by the C program, which may get more arguments; it also tells nodes looked at and ns per lookup.
func search(t *testing.T, program, how string, words []uint32, keys []Key, more ...string) (answers []uint32, visits, ns float64) {
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
	c := exec.Command(program, append([]string{how, img, list}, more...)...)
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
