// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// testRun is the part of union bpf_attr that BPF_PROG_TEST_RUN reads (include/uapi/linux/bpf.h).
type testRun struct {
	progFD      uint32
	retval      uint32
	dataSizeIn  uint32
	dataSizeOut uint32
	dataIn      uint64
	dataOut     uint64
	repeat      uint32
	duration    uint32
	ctxSizeIn   uint32
	ctxSizeOut  uint32
	ctxIn       uint64
	ctxOut      uint64
	flags       uint32
	cpu         uint32
	batchSize   uint32
	_           uint32
}

// runLive makes the system call itself: the library's Run begins again when a
// signal interrupts it, and that signal is how most orders end.
func runLive(p *ebpf.Program, frame []byte, repeat uint32, batch int) error {
	attr := testRun{
		progFD:     uint32(p.FD()),
		dataSizeIn: uint32(len(frame)),
		dataIn:     uint64(uintptr(unsafe.Pointer(&frame[0]))),
		repeat:     repeat,
		flags:      unix.BPF_F_TEST_XDP_LIVE_FRAMES,
		batchSize:  uint32(batch),
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(frame)
	if errno != 0 {
		return errno
	}
	return nil
}

// watchEvery is how often a run that should end is looked at. The program sends
// nothing more by then; what is left is to leave the kernel.
const watchEvery = time.Millisecond

// interruptWhen ends the calling thread's system call by a signal when ctx ends, or once
// over says so; it is first asked after the time that the order should take, and
// never if that is 0. A program can't end its run itself. SIGURG is what the Go
// runtime uses on its own threads and means nothing else to it.
//
// The caller has locked its thread and calls stop before it unlocks it.
func interruptWhen(ctx context.Context, after time.Duration, over func() bool) (stop func()) {
	thread := unix.Gettid()
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		var first <-chan time.Time
		if after > 0 {
			first = time.After(after)
		}
		select {
		case <-done:
			return
		case <-first:
		case <-ctx.Done():
		}
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			if ctx.Err() != nil || over() {
				unix.Tgkill(os.Getpid(), thread, unix.SIGURG) //nolint:errcheck // the thread is locked to the sender, which waits for gone
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(done); <-gone }
}
