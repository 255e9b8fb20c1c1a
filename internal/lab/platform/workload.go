// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"minne/internal/lab/algo/dataset"
)

// hotKeys are the keys that are looked up repeatedly when what they need shall be in the caches.
const hotKeys = 2048

// workload is a table and what it is asked.
type workload struct {
	algorithm string // as people call it
	native    string // as minne-procbench calls it; empty: it does not have it
	holds     string
	sets      []*set
	table     string // file of the table
	used      int    // bytes that mean something
	memory    int    // bytes allocated
	build     time.Duration
	detail    string
	inKernel  func(*kernelSide) (contender, error) // loads it in eBPF; nil: there is no such program
}

func (w *workload) name() string { return w.algorithm + " (" + w.holds + ")" }

// set is keys or payload, and what the right answers are.
type set struct {
	name     string // "random", "in table", "payload"
	origin   dataset.Origin
	file     string
	checksum string
}

// store writes a file into the directory of the run.
func store(dir, name string, content []byte) (string, error) {
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return "", fmt.Errorf("write a table for minne-procbench: %w", err)
	}
	return file, nil
}

// wrongAnswer is the error of an answer that differs from the reference's.
type wrongAnswer struct{ where, what, keys, got, want string }

func (e *wrongAnswer) Error() string {
	return fmt.Sprintf("wrong answers: %s, %s, %s keys: checksum %s, the reference's is %s. No figure of this run counts",
		e.what, e.where, e.keys, e.got, e.want)
}
