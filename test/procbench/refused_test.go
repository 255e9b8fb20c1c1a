// SPDX-License-Identifier: Apache-2.0

package procbench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"minne/internal/subsystem/fastpath/tableimage"
)

// complaint is the exit code of a program whose sanitizer found something.
const complaint = 99

// checked compiles sources with sanitizers.
func checked(out string, sources ...string) error {
	arguments := []string{"-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fsanitize=address,undefined",
		"-fno-sanitize-recover=all", "-I../../bpf", "-I../../procbench", "-o", out}
	said, err := exec.Command("clang-19", append(arguments, sources...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("clang-19: %w\n%s", err, said)
	}
	return nil
}

// watched is minne-procbench with sanitizers.
var watched = sync.OnceValues(func() (string, error) {
	sources, err := filepath.Glob("../../procbench/*.c")
	if err != nil {
		return "", err
	}
	program := filepath.Join(scratch, "watched")
	return program, checked(program, sources...)
})

// ask runs the watched program and returns its exit code and what it said.
func ask(t *testing.T, stdin []byte, arguments ...string) (code int, out, said string) {
	t.Helper()
	program, err := watched()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	c := exec.Command(program, arguments...)
	c.Env = append(os.Environ(), fmt.Sprintf("ASAN_OPTIONS=allocator_may_return_null=1:exitcode=%d", complaint), fmt.Sprintf("UBSAN_OPTIONS=exitcode=%d", complaint))
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	code = c.ProcessState.ExitCode()
	if code == complaint || strings.Contains(stderr.String(), "Sanitizer") || strings.Contains(stderr.String(), "runtime error") {
		t.Errorf("%v: the sanitizer stopped it:\n%s", arguments, &stderr)
	}
	return code, stdout.String(), stderr.String()
}

// native is the byte order of this machine.
func native() string {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return binary.LittleEndian.String()
	}
	return binary.BigEndian.String()
}

// TestWatched: sanitizers see nothing while everything is asked for and measured.
func TestWatched(t *testing.T) {
	for _, b := range benches {
		code, out, said := ask(t, nil, append([]string{"--seconds", "0", "--repeat", "1", b.algorithm, b.tables[native()]}, b.sets...)...)
		for _, want := range b.want {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d, expected checksum %s in\n%s%s", b.title(), code, want, out, said)
			}
		}
	}
}

func find(t *testing.T, algorithm string) bench {
	t.Helper()
	for _, b := range benches {
		if b.algorithm == algorithm {
			return b
		}
	}
	t.Fatalf("no question for %s", algorithm)
	return bench{}
}

// TestRefused: what can't be right is refused by name of the reason.
func TestRefused(t *testing.T) {
	filter, d2fa, range4, tree := find(t, "bloom"), find(t, "d2fa"), find(t, "range"), find(t, "tree-bitmap")
	img, payload := filter.image.Bytes(binary.LittleEndian), d2fa.question.sets[0]
	word := func(data []byte, at int, to uint32) []byte {
		data = bytes.Clone(data)
		binary.LittleEndian.PutUint32(data[4*at:], to)
		return data
	}
	other := native()
	for order := range range4.tables {
		if order != native() {
			other = order
		}
	}
	foreign, err := os.ReadFile(range4.tables[other])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, algorithm string
		table           []byte
		set, want       string
	}{
		{"nothing", "bloom", nil, filter.sets[0], "shorter than the header"},
		{"something else", "bloom", bytes.Repeat([]byte("else"), 100), filter.sets[0], "does not begin as a table image"},
		{"later version", "bloom", word(img, 2, 9), filter.sets[0], "another version"},
		{"another algorithm's", "counting-bloom", img, filter.sets[0], "another algorithm"},
		{"odd size", "bloom", word(img, 3, 5000), filter.sets[0], "not a power of two"},
		{"huge", "bloom", word(img, 3, 1<<31), filter.sets[0], "too large"},
		{"too much in use", "bloom", word(img, 4, 1<<30), filter.sets[0], "more words in use"},
		{"a bit", "bloom", word(img, 50, ^binary.LittleEndian.Uint32(img[200:])), filter.sets[0], "wrong checksum"},
		{"cut short", "bloom", img[:len(img)-1], filter.sets[0], "cut short"},
		{"longer", "bloom", append(bytes.Clone(img), 0), filter.sets[0], "longer than its header tells"},
		{"no hashes", "bloom", resealed(t, filter.image, 8, 0), filter.sets[0], "not a Bloom filter's"},
		{"places outside", "bloom", resealed(t, filter.image, 10, 1<<31), filter.sets[0], "not a Bloom filter's"},
		{"family 5", "tree-bitmap", resealed(t, tree.image, tableimage.HeadOwn, 5), tree.sets[0], "another family"},
		{"another family's keys", "tree-bitmap", resealed(t, tree.image, tableimage.HeadOwn, 10-tree.image.Words[tableimage.HeadOwn]), tree.sets[0], "its keys are not of"},
		{"too many patterns", "d2fa", resealed(t, d2fa.image, tableimage.HeadOwn, 1<<30), d2fa.sets[0], "more than this program has room for"},
		{"of the other byte order", "range", foreign, range4.sets[0], "the other byte order"},
		{"another of the router's", "direct24", foreign, range4.sets[0], "the other byte order"},
		{"keys for payload", "d2fa", d2fa.image.Bytes(binary.LittleEndian), filter.sets[0], "mnp1"},
		{"payload for keys", "bloom", img, d2fa.sets[0], "mnk1"},
	} {
		code, _, said := ask(t, c.table, "--check", c.algorithm, "-", c.set)
		if code != 1 || !strings.Contains(said, c.want) {
			t.Errorf("%s: exit code %d, %q; expected %q", c.name, code, said, c.want)
		}
	}
	for name, c := range map[string]struct {
		set  []byte
		want string
	}{
		"cut short":          {payload[:len(payload)-4], "cut short"},
		"longer":             {append(bytes.Clone(payload), 1), "longer than its header"},
		"a record too many":  {bigEndian(payload, 1, 121), "records don't fill it"},
		"a record too long":  {bigEndian(payload, 4, 1<<31), "records don't fill it"},
		"a length like -1":   {bigEndian(payload, 4, 1<<32-1), "records don't fill it"},
		"none":               {bigEndian(payload[:16], 1, 0), "empty"},
		"records of nothing": {append([]byte("mnp1\x00\x00\x00\x01\x00\x00\x00\x04"), make([]byte, 8)...), "empty"},
	} {
		code, _, said := ask(t, c.set, "--check", "d2fa", d2fa.tables[native()], "-")
		if code != 1 || !strings.Contains(said, c.want) {
			t.Errorf("payload %s: exit code %d, %q; expected %q", name, code, said, c.want)
		}
	}
	keys := filter.question.sets[0]
	for name, c := range map[string]struct {
		set  []byte
		want string
	}{
		"of 0 bytes":  {bigEndian(keys, 1, 0), "1 to 64 bytes"},
		"of 65 bytes": {bigEndian(keys, 1, 65), "1 to 64 bytes"},
		"none":        {bigEndian(keys[:16], 2, 0), "empty"},
		"too many":    {bigEndian(keys, 2, 6001), "cut short"},
	} {
		code, _, said := ask(t, c.set, "--check", "bloom", filter.tables[native()], "-")
		if code != 1 || !strings.Contains(said, c.want) {
			t.Errorf("keys %s: exit code %d, %q; expected %q", name, code, said, c.want)
		}
	}
}

// TestUsage: wrong command lines are told what is wrong.
func TestUsage(t *testing.T) {
	for want, line := range map[string]string{
		"nothing given: an algorithm, an image":         "",
		"quick: no algorithm of this name":              "quick a b",
		"--fast: no such option":                        "--fast bloom a b",
		"--repeat: not a number in its range":           "--repeat 0 bloom a b",
		"--seconds: not a number of seconds":            "--seconds x bloom a b",
		"--cpu: a number is missing":                    "bloom a b --cpu",
		"a: an algorithm, an image and keys or payload": "bloom a",
		"-: standard input is one file only":            "bloom - -",
		"i: too many files":                             "bloom table a b c d e f g h i",
	} {
		if code, _, said := ask(t, nil, strings.Fields(line)...); code != 2 || !strings.Contains(said, want) || !strings.Contains(said, "usage:") {
			t.Errorf("%q: exit code %d, %q; expected %q", line, code, said, want)
		}
	}
	if code, out, _ := ask(t, nil, "--help"); code != 0 || !strings.Contains(out, "usage:") {
		t.Errorf("--help: exit code %d, %q", code, out)
	}
	if code, _, said := ask(t, nil, "bloom", "/nowhere", "/nowhere"); code != 1 || !strings.Contains(said, "/nowhere: No such file") {
		t.Errorf("no file: exit code %d, %q", code, said)
	}
}

func bigEndian(data []byte, at int, to uint32) []byte {
	data = bytes.Clone(data)
	binary.BigEndian.PutUint32(data[4*at:], to)
	return data
}

// resealed is an image with a changed word and a checksum that fits.
func resealed(t *testing.T, m *tableimage.Image, at int, to uint32) []byte {
	t.Helper()
	changed := &tableimage.Image{Kind: m.Kind, Words: bytesToWords(m.Bytes(binary.LittleEndian))}
	changed.Words[at] = to
	if err := changed.Seal(); err != nil {
		t.Fatal(err)
	}
	return changed.Bytes(binary.LittleEndian)
}

func bytesToWords(b []byte) []uint32 {
	words := make([]uint32, len(b)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return words
}

// TestCorruptFiles: a file in which anything was changed is refused or answered, never read outside.
func TestCorruptFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for _, b := range benches {
		if b.algorithm == "direct24" {
			continue // its only table is larger than all others together
		}
		whole, err := os.ReadFile(b.tables[native()])
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			table := bytes.Clone(whole)
			for range 1 + rng.IntN(4) {
				table[rng.IntN(len(table))] ^= byte(1 << rng.IntN(8))
				table[rng.IntN(128)] = byte(rng.Uint32())
			}
			if rng.IntN(4) == 0 {
				table = table[:rng.IntN(len(table))]
			}
			if code, _, said := ask(t, table, "--check", b.algorithm, "-", b.sets[0]); code > 1 || code == 1 && !strings.HasPrefix(said, "minne-procbench: standard input: ") {
				t.Errorf("%s: exit code %d: %s", b.title(), code, said)
			}
			set := bytes.Clone(b.question.sets[0])
			set[rng.IntN(len(set))] ^= byte(1 << rng.IntN(8))
			set[rng.IntN(24)] = byte(rng.Uint32())
			if code, _, said := ask(t, set, "--check", b.algorithm, b.tables[native()], "-"); code > 1 {
				t.Errorf("%s: exit code %d: %s", b.title(), code, said)
			}
		}
	}
}

// TestCorruptTables changes words of tables, hundreds of times each, as if their checksums fitted.
func TestCorruptTables(t *testing.T) {
	var sources []string
	for _, name := range []string{"algorithms", "bloom", "load", "lpm", "patterns", "router"} {
		sources = append(sources, "../../procbench/"+name+".c")
	}
	spoil := filepath.Join(scratch, "spoil")
	if err := checked(spoil, append(sources, "testdata/spoil.c")...); err != nil {
		t.Fatal(err)
	}
	for i, b := range benches {
		if b.image == nil {
			continue // internal/subsystem/fastpath/fib has tests of its own
		}
		t.Run(b.title(), func(t *testing.T) {
			t.Parallel()
			said, err := exec.Command(spoil, b.algorithm, b.tables[native()], b.sets[0], "1500", fmt.Sprint(i+1)).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			var answered, refused int
			if _, err := fmt.Sscanf(string(said), "%d answered, %d refused", &answered, &refused); err != nil || answered < 300 {
				t.Errorf("it said %q", said)
			}
		})
	}
}
