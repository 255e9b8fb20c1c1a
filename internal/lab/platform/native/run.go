// SPDX-License-Identifier: Apache-2.0

package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Any is a CPU's number that leaves it to the scheduler.
const Any = -1

// Spec is what is to be measured. Files are described in procbench/load.c; internal/lab/algo/dataset and
// internal/subsystem/fastpath/tableimage write them.
type Spec struct {
	Algorithm   string   // "bloom", "counting-bloom", "tree-bitmap", "shape-shifting", "d2fa", "hybrid", "range", "direct24", "staged16"
	Image       string   // file of the table
	Sets        []string // files of keys, or of payload for d2fa and hybrid; at most 8
	Seconds     float64  // altogether
	Repetitions int      // of each measurement; 0: 9
	CPU         int      // to stay on, or Any
	Hot         int      // keys that are looked up again and again; 0: 2048
	Huge        bool     // huge pages for the table
	Check       bool     // only answers, no times
}

// Result is what the program found out: its JSON, which procbench/main.c prints.
type Result struct {
	Machine   string   `json:"machine"` // as uname -m says
	Bits      int      `json:"bits"`    // of a pointer
	ByteOrder string   `json:"byte_order"`
	Compiler  string   `json:"compiler"`
	Clock     string   `json:"clock"` // "cpu": CPU time of the process; "wall" where the kernel counts that in ticks; "" of a check
	Algorithm string   `json:"algorithm"`
	Turned    bool     `json:"turned"` // the table was for a CPU of the other byte order
	Memory    Memory   `json:"memory"`
	Sets      []Set    `json:"sets"`    // as in the Spec
	Figures   []Figure `json:"results"` // none of a check
}

// Memory is in bytes.
type Memory struct {
	Table int64 `json:"table"`
	Keys  int64 `json:"keys"`
	State int64 `json:"state"` // of a search of patterns
	Peak  int64 `json:"peak"`  // of the whole process; 0 where the kernel does not say
}

// Set is a file of keys or payload.
type Set struct {
	Origin   string `json:"origin"`   // "random", "in-table" or "unknown"
	Count    int64  `json:"count"`    // keys or records
	Bytes    int64  `json:"bytes"`    // of a key; of all records
	Checksum string `json:"checksum"` // of all answers: dataset.Checksum
}

// Figure is one way to go through a set.
type Figure struct {
	Set         int       `json:"set"`    // index
	Access      string    `json:"access"` // "hot": the first keys again and again; "all"
	Order       string    `json:"order"`  // "independent", "dependent", "batched", "update"; of payload "stream"
	Per         string    `json:"per"`    // "key" or "byte"
	Ns          Interval  `json:"ns"`
	Repetitions []float64 `json:"repetitions"` // ns, in their order
}

// Interval is a median with its 95 % interval.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Run measures. An error is the program's own: a table that it refuses, answers that change.
func (p *Program) Run(ctx context.Context, s Spec) (Result, error) {
	var out, said bytes.Buffer
	c := exec.CommandContext(ctx, p.Path(), s.arguments()...)
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		if line, _, _ := strings.Cut(said.String(), "\n"); line != "" {
			err = errors.New(strings.TrimPrefix(line, "minne-procbench: "))
		}
		return Result{}, fmt.Errorf("minne-procbench %s: %w", s.Algorithm, err)
	}
	var r Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return Result{}, fmt.Errorf("minne-procbench %s: it printed what is no JSON: %w", s.Algorithm, err)
	}
	if len(r.Sets) != len(s.Sets) {
		return Result{}, fmt.Errorf("minne-procbench %s: it reports %d sets of keys, expected %d", s.Algorithm, len(r.Sets), len(s.Sets))
	}
	return r, nil
}

func (s Spec) arguments() []string {
	args := []string{"--json", "--seconds", strconv.FormatFloat(s.Seconds, 'f', -1, 64)}
	if s.Repetitions != 0 {
		args = append(args, "--repeat", strconv.Itoa(s.Repetitions))
	}
	if s.CPU >= 0 {
		args = append(args, "--cpu", strconv.Itoa(s.CPU))
	}
	if s.Hot != 0 {
		args = append(args, "--hot", strconv.Itoa(s.Hot))
	}
	if s.Huge {
		args = append(args, "--huge")
	}
	if s.Check {
		args = append(args, "--check")
	}
	return append(append(args, s.Algorithm, s.Image), s.Sets...)
}
