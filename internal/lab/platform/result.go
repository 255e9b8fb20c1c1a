// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"minne/internal/base/machine"
	"minne/internal/lab/result"
)

// Schema names this version of a result's JSON. Readers refuse another one.
const Schema = "minne-platform/1"

// Result is what the benchmark found on one platform.
type Result struct {
	Schema  string          `json:"schema"`
	Name    string          `json:"name"` // of the platform, as tables of several call it
	Command []string        `json:"command"`
	Started time.Time       `json:"started"`
	Seconds float64         `json:"seconds"` // it took
	Took    []Phase         `json:"took,omitempty"`
	Minne   result.Build    `json:"minne"`
	Machine machine.Machine `json:"machine"`
	// Rounds in which workloads took turns, and Repetitions of each measurement in all of them.
	Rounds      int `json:"rounds"`
	Repetitions int `json:"repetitions"`

	Tables []Table `json:"tables"`
	Peers  []Peer  `json:"peers,omitempty"` // other projects' libraries that were asked the same
	Rows   []Row   `json:"rows"`
	// Noise are the ratios of a workload to itself, measured twice in each round.
	Noise []Noise `json:"noise,omitempty"`
	Clock Clock   `json:"clock"`
	Power Power   `json:"power"`
	// Estimate is there when it was asked for.
	Estimate *Estimate `json:"estimate,omitempty"`
	// Matrix is what two hosts transfer through this machine, when it was asked for.
	Matrix []result.Matrix `json:"matrix,omitempty"`

	Notes   []string `json:"notes,omitempty"`   // what a reader must know to judge the figures
	Missing []string `json:"missing,omitempty"` // what could not be measured, with the reason
}

// Table is a table that was searched.
type Table struct {
	Algorithm string  `json:"algorithm"`
	Holds     string  `json:"holds"`        // "IPv4, 901,899 routes"
	Used      int     `json:"used_bytes"`   // that mean something
	Memory    int     `json:"memory_bytes"` // that are allocated
	BuildMs   float64 `json:"build_ms"`     // in Go
	Detail    string  `json:"detail,omitempty"`
}

// Where a table is searched.
const (
	Native = "native"
	EBPF   = "eBPF"
	// Other is a peer's program.
	Other = "peer"
)

// Peer is another project's way to do the same.
type Peer struct {
	Algorithm string `json:"algorithm"` // as rows and tables call it
	Version   string `json:"version"`
	Family    string `json:"family"` // which part of the report it belongs to
}

// Row is one way to search a table, timed.
type Row struct {
	Algorithm string          `json:"algorithm"`
	Holds     string          `json:"holds"`
	Where     string          `json:"where"`  // Native, EBPF or Other
	Keys      string          `json:"keys"`   // "random", "in table", "payload"
	Access    string          `json:"access"` // "all", or "hot": the first ones again and again
	Order     string          `json:"order"`  // "independent", "dependent", "batched", "update", "stream"
	Per       string          `json:"per"`    // "key" or "byte"
	Ns        result.Interval `json:"ns"`     // per key or byte
	Rate      float64         `json:"rate"`   // millions of keys, or of bytes, per second
	Memory    int             `json:"memory_bytes"`
	// Cycles of the CPU per key or byte; 0 where they can't be counted.
	Cycles float64 `json:"cycles,omitempty"`
	// NanoJoules per key or byte, over what the idle machine takes; 0 where nothing tells power.
	NanoJoules float64 `json:"nanojoules,omitempty"`
	Checksum   string  `json:"checksum"` // of all answers to these keys
}

// id names the row's configuration: rows of several platforms with the same one stand in one column.
func (r Row) id() string {
	return fmt.Sprintf("%s|%s|%s|%s|%s|%s", r.Algorithm, r.Holds, r.Where, r.Keys, r.Access, r.Order)
}

// Noise is a workload against itself.
type Noise struct {
	What  string          `json:"what"`
	Ratio result.Interval `json:"ratio"`
}

// Clock is how fast the CPU ran while it was measured.
type Clock struct {
	GHz     float64 `json:"ghz,omitempty"`     // cycles by time
	Missing string  `json:"missing,omitempty"` // why it is not known
}

// Power is what the machine took.
type Power struct {
	Source  string  `json:"source,omitempty"`
	Scope   string  `json:"scope,omitempty"`
	Idle    float64 `json:"idle_w,omitempty"`
	Missing string  `json:"missing,omitempty"` // why nothing is known
}

// Read reads a result that was printed as JSON.
func Read(file string) (*Result, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w: expected what minne bench platform --json printed", file, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s: schema %q: expected %q, what minne bench platform --json printed", file, r.Schema, Schema)
	}
	return r, nil
}
