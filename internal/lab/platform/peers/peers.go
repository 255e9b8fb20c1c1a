// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Task is what a peer does, and so which inputs it takes.
type Task string

// The tasks.
const (
	IPv4     Task = "ipv4"     // longest prefix match
	IPv6     Task = "ipv6"     // the same
	Patterns Task = "patterns" // which patterns occur in each record of a payload
	Filter   Task = "filter"   // whether a key is probably of a set
)

// Peer is a library's way to do a task.
type Peer struct {
	Name      string `json:"name"`    // of the library
	Version   string `json:"version"` // as it tells itself
	Algorithm string `json:"algorithm"`
	Task      Task   `json:"task"`
	// Slow is why a quick measurement leaves it out; empty if it does not.
	Slow string `json:"slow,omitempty"`
	// Huge is whether it can be asked for huge pages.
	Huge    bool `json:"huge,omitempty"`
	program string
}

func (p Peer) String() string {
	if strings.HasPrefix(p.Algorithm, strings.ToLower(p.Name)) {
		return p.Algorithm
	}
	return p.Name + " " + p.Algorithm
}

// known are the programs that there may be, and what each does.
var known = []struct {
	program string
	peers   []Peer
}{
	{"minne-peer-dpdk", []Peer{
		{Name: "DPDK", Algorithm: "rte_fib-2", Task: IPv4, Huge: true},
		{Name: "DPDK", Algorithm: "rte_fib-4", Task: IPv4, Huge: true},
		{Name: "DPDK", Algorithm: "rte_lpm", Task: IPv4, Huge: true, Slow: "rte_lpm_add goes through all routes of a length: minutes for a full table"},
		{Name: "DPDK", Algorithm: "rte_fib6", Task: IPv6, Huge: true},
	}},
	{"minne-peer-hyperscan", []Peer{{Name: "Hyperscan", Algorithm: "hyperscan", Task: Patterns}}},
	{"minne-peer-re2", []Peer{{Name: "RE2", Algorithm: "re2-set", Task: Patterns}}},
	{"minne-peer-go", []Peer{
		{Name: "bart", Algorithm: "bart-4", Task: IPv4},
		{Name: "bart", Algorithm: "bart-6", Task: IPv6},
		{Name: "bart", Algorithm: "bart-fast-4", Task: IPv4},
		{Name: "bart", Algorithm: "bart-fast-6", Task: IPv6},
		{Name: "bits-and-blooms", Algorithm: "bloom", Task: Filter},
		{Name: "xorfilter", Algorithm: "xor8", Task: Filter},
		{Name: "xorfilter", Algorithm: "binary-fuse8", Task: Filter},
	}},
}

// Available returns the peers whose programs are in a directory, where scripts/peers.sh puts them. A program that
// is there but does not run, because its library has gone, is an error beside those that do.
func Available(ctx context.Context, dir string) ([]Peer, error) {
	var (
		all    []Peer
		broken []string
	)
	for _, k := range known {
		program := filepath.Join(dir, k.program)
		if _, err := os.Stat(program); err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, program, "--version").CombinedOutput()
		if err != nil {
			broken = append(broken, fmt.Sprintf("%s --version: %v: %s", program, err, strings.TrimSpace(string(out))))
			continue
		}
		versions := strings.Split(strings.TrimSpace(string(out)), "\n")
		for _, p := range k.peers {
			p.Version, p.program = version(versions, p.Name), program
			all = append(all, p)
		}
	}
	if broken != nil {
		return all, fmt.Errorf("%s; make it again: scripts/peers.sh", strings.Join(broken, "; "))
	}
	return all, nil
}

// version is the line that begins with a library's name, without it, or the first line.
func version(lines []string, name string) string {
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+" ") })
	if at < 0 {
		return lines[0]
	}
	return strings.TrimPrefix(lines[at], name+" ")
}
