// SPDX-License-Identifier: Apache-2.0

package bloom

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is testdata/filter.c, compiled so that every wrong access or undefined operation ends it.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "bloom")
	if err == nil {
		program = filepath.Join(dir, "filter")
		err = compile(program)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func compile(out string) error {
	for _, name := range []string{"clang-19", "clang", "gcc", "cc"} {
		if _, err := exec.LookPath(name); err != nil {
			continue
		}
		said, err := exec.Command(name, "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fsanitize=address,undefined",
			"-fno-sanitize-recover=all", "-I../../../../bpf/algo", "-I../../../testing/nativetest", "-o", out, "testdata/filter.c").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s testdata/filter.c: %w\n%s", name, err, said)
		}
		return nil
	}
	return fmt.Errorf("no C compiler found: looked for clang-19, clang, gcc and cc; ./dev test installs one")
}

// step is something to be done with a key; testdata/filter.c says what there is.
type step struct {
	what byte
	key  []byte
}

// obey lets the C program do steps with an image and returns its answers and the image behind them.
func obey(t *testing.T, words []uint32, list []step, more ...string) (answers []bool, after []uint32) {
	t.Helper()
	var raw, out, said bytes.Buffer
	for _, s := range list {
		raw.Write([]byte{s.what, byte(len(s.key))})
		raw.Write(s.key)
	}
	table, err := binary.Append(nil, binary.NativeEndian, words)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	img, steps := filepath.Join(dir, "image"), filepath.Join(dir, "list")
	for name, data := range map[string][]byte{img: table, steps: raw.Bytes()} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(program, append([]string{img, steps}, more...)...)
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if out.Len() != len(list)+len(table) {
		t.Fatalf("%d bytes came back, expected %d", out.Len(), len(list)+len(table))
	}
	for _, a := range out.Next(len(list)) {
		answers = append(answers, a == 1)
	}
	after = make([]uint32, len(words))
	if _, err := binary.Decode(out.Bytes(), binary.NativeEndian, after); err != nil {
		t.Fatal(err)
	}
	return answers, after
}
