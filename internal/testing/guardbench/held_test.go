// SPDX-License-Identifier: Apache-2.0

package guardbench

import (
	"fmt"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// repeatHeld runs a program exactly so many times on a frame, and returns its last answer
// and the time of one run.
//
// The kernel gives up a repeated run when a signal comes, and the eBPF library then
// begins it again: what the program counted before stays counted. The Go runtime
// sends signals to its own threads (SIGURG, to preempt), so they wait meanwhile.
func repeatHeld(program *ebpf.Program, frame []byte, times int) (code uint32, each time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, &before); err != nil {
		return 0, 0, fmt.Errorf("hold signals back: %w", err)
	}
	code, each, err = program.Benchmark(frame, times, nil)
	if restored := unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil); err == nil {
		err = restored
	}
	return code, each, err
}
