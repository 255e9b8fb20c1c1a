// SPDX-License-Identifier: Apache-2.0

// Package benchrun is the user-space side of bpf/bench_run.h: one run of a
// benchmark's program, which makes thousands of lookups in a call and times them
// inside the kernel.
package benchrun

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Run mirrors struct run of bpf/bench_run.h; what nobody sets or reads here has no name. It lies in memory that is shared with the program.
type Run struct {
	first, count, dependent, _ uint32
	ns, _                      uint64
}

// frame is what a program runs on; it looks at none of it.
var frame [64]byte

const xdpPass = 2

func (r *Run) call(objs *ebpf.Collection, program string) error {
	code, err := objs.Programs[program].Run(&ebpf.RunOptions{Data: frame[:]})
	if err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	if code != xdpPass {
		return fmt.Errorf("run %s: it returned %d", program, code)
	}
	return nil
}

// Time runs a program for count keys (at most 1 << 23) from key number first on, round the array of
// keys; the result is nanoseconds per key. When dependent, each key depends on the answer before.
func (r *Run) Time(objs *ebpf.Collection, program string, first, count uint32, dependent bool) (float64, error) {
	*r = Run{first: first, count: count}
	if dependent {
		r.dependent = 1
	}
	if err := r.call(objs, program); err != nil {
		return 0, err
	}
	if r.ns == 0 {
		return 0, errors.New("a run took no time")
	}
	return float64(r.ns) / float64(count), nil
}

// Check runs a program that leaves its answers for the first count keys.
func (r *Run) Check(objs *ebpf.Collection, program string, count int) error {
	*r = Run{count: uint32(count)}
	return r.call(objs, program)
}
