// SPDX-License-Identifier: Apache-2.0

package procbench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// architectures that Minne is released for, as Go calls them, and qemu's emulators of them.
var architectures = []struct {
	name, emulator string
	order          binary.ByteOrder
	bits           int
}{
	{"amd64", "qemu-x86_64-static", binary.LittleEndian, 64},
	{"arm64", "qemu-aarch64-static", binary.LittleEndian, 64},
	{"arm", "qemu-arm-static", binary.LittleEndian, 32},
	{"mips", "qemu-mips-static", binary.BigEndian, 32},
	{"mipsle", "qemu-mipsel-static", binary.LittleEndian, 32},
	{"ppc64le", "qemu-ppc64le-static", binary.LittleEndian, 64},
	{"riscv64", "qemu-riscv64-static", binary.LittleEndian, 64},
}

// bench is a question's files in a directory.
type bench struct {
	question
	tables map[string]string // by byte order
	sets   []string
}

// benches are written once, for all tests.
var benches []bench

var scratch string // directory of files and programs

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "procbench"); err == nil {
		err = writeBenches()
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

func writeBenches() error {
	all, err := questions()
	if err != nil {
		return err
	}
	for i, q := range all {
		b := bench{question: q, tables: map[string]string{}}
		for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
			file := filepath.Join(scratch, fmt.Sprintf("%d.%s", i, order))
			data, err := q.table(order)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", q.algorithm, q.name, err)
			}
			if err := os.WriteFile(file, data, 0o600); err != nil {
				return err
			}
			b.tables[order.String()] = file
		}
		for j, data := range q.sets {
			file := filepath.Join(scratch, fmt.Sprintf("%d.set%d", i, j))
			if err := os.WriteFile(file, data, 0o600); err != nil {
				return err
			}
			b.sets = append(b.sets, file)
		}
		benches = append(benches, b)
	}
	return nil
}

func (b bench) title() string { return b.algorithm + ", " + b.name }

// report is what the tests need of the program's JSON.
type report struct {
	Bits      int    `json:"bits"`
	ByteOrder string `json:"byte_order"`
	Turned    bool   `json:"turned"`
	Memory    struct{ Table, Keys, State, Peak int64 }
	Sets      []struct {
		Checksum string `json:"checksum"`
	} `json:"sets"`
	Results []struct {
		Order       string    `json:"order"`
		Repetitions []float64 `json:"repetitions"`
		NS          struct {
			Median, Low, High float64
		} `json:"ns"`
	} `json:"results"`
}

func (r report) checksums() (all []string) {
	for _, s := range r.Sets {
		all = append(all, s.Checksum)
	}
	return all
}

// build compiles minne-procbench for an architecture; a warning is an error.
func build(t *testing.T, arch string) string {
	t.Helper()
	program := filepath.Join(scratch, "minne-procbench-"+arch)
	if said, err := exec.Command("sh", "../../scripts/procbench.sh", arch, program, "-Werror").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return program
}

// emulator is qemu's program for an architecture.
func emulator(t *testing.T, name string) string {
	t.Helper()
	for _, n := range []string{name, strings.TrimSuffix(name, "-static")} { // Debian 12, 13
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	t.Fatalf("%s not found: ./dev test installs it (apt-get install qemu-user-static)", name)
	return ""
}

// run runs a program that prints JSON.
func run(t *testing.T, command ...string) report {
	t.Helper()
	var out, said bytes.Buffer
	c := exec.Command(command[0], command[1:]...)
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, &said)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, &out)
	}
	return r
}

// TestArchitectures asks everything on every architecture, with tables of both byte orders.
func TestArchitectures(t *testing.T) {
	for _, a := range architectures {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			program, emulator := build(t, a.name), emulator(t, a.emulator)
			for _, b := range benches {
				if b.algorithm == "direct24" && a.name != "mips" && a.name != "amd64" {
					continue // 48 MiB: one of each byte order
				}
				for order, table := range b.tables {
					foreign := order != a.order.String()
					if foreign && b.image == nil {
						continue // TestForeignRouter
					}
					arguments := append([]string{emulator, program, "--check", "--json", b.algorithm, table}, b.sets...)
					r := run(t, arguments...)
					if got := r.checksums(); !slices.Equal(got, b.want) {
						t.Errorf("%s, table of %s: checksums %v, Go has %v", b.title(), order, got, b.want)
					}
					if r.Bits != a.bits || r.ByteOrder != strings.TrimSuffix(strings.ToLower(a.order.String()), "endian") {
						t.Errorf("%s: it tells of %d bits, %s-endian", a.name, r.Bits, r.ByteOrder)
					}
					if r.Turned != foreign {
						t.Errorf("%s, table of %s: turned: %v", b.title(), order, r.Turned)
					}
				}
			}
			measures(t, emulator, program)
		})
	}
}

// measures lets the program measure a little, one question of each algorithm.
func measures(t *testing.T, command ...string) {
	t.Helper()
	ways := map[string]int{"bloom": 4, "counting-bloom": 6, "tree-bitmap": 6, "shape-shifting": 4, "d2fa": 1, "hybrid": 1, "range": 4, "staged16": 4}
	done := map[string]bool{}
	for _, b := range benches {
		if done[b.algorithm] || ways[b.algorithm] == 0 || b.name == "IPv6" && b.algorithm == "tree-bitmap" {
			continue
		}
		done[b.algorithm] = true
		table := b.tables[binary.LittleEndian.String()]
		if b.image == nil {
			table = b.tables[nativeOf(t, command).String()]
		}
		arguments := append(slices.Clone(command), "--json", "--seconds", "0.05", "--hot", "100", b.algorithm, table, b.sets[0])
		r := run(t, arguments...)
		if len(r.Results) != ways[b.algorithm] {
			t.Errorf("%s: %d results, expected %d", b.title(), len(r.Results), ways[b.algorithm])
		}
		for _, m := range r.Results {
			least, most := slices.Min(m.Repetitions), slices.Max(m.Repetitions)
			if len(m.Repetitions) != 9 || least <= 0 || !(least <= m.NS.Low && m.NS.Low <= m.NS.Median && m.NS.Median <= m.NS.High && m.NS.High <= most) {
				t.Errorf("%s, %s: the figure does not fit its repetitions: %+v", b.title(), m.Order, m)
			}
		}
	}
	if len(done) != len(ways) {
		t.Errorf("measured %v, expected %v", done, ways)
	}
}

// nativeOf is the byte order of the architecture that a command runs on.
func nativeOf(t *testing.T, command []string) binary.ByteOrder {
	t.Helper()
	for _, a := range architectures {
		if strings.HasSuffix(command[len(command)-1], "-"+a.name) {
			return a.order
		}
	}
	t.Fatalf("%v: of no architecture", command)
	return nil
}
