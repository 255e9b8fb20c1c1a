// SPDX-License-Identifier: Apache-2.0

package fastpath

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// trustTime is how long the program trusts its tables without another sign of the daemon: long enough for one
// that is killed, upgraded or restarted with a full table; too long for an ISP's new MAC. Then the
// kernel forwards, which is slower and never stale.
const trustTime = 3 * time.Minute

// Beat lets the program trust its tables for some more time.
func (f *FastPath) Beat() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prog == nil {
		return nil
	}
	return f.prog.trustFor(trustTime)
}

// trustFor writes control.trusted. The kernel's count of ticks is known to programs alone, so one of a few
// instructions reads and writes it, in a test run.
func (p *program) trustFor(d time.Duration) error {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return fmt.Errorf("length of the kernel's tick: %w", err)
	}
	ticks := int32(d / time.Duration(max(tick.Nano(), 1)))
	beat, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "minne_beat", Type: ebpf.SocketFilter, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.FnJiffies64.Call(),
			asm.Add.Imm(asm.R0, ticks),
			asm.LoadMapValue(asm.R1, p.objects.Control.FD(), uint32(unsafe.Offsetof(routerControl{}.Trusted))),
			asm.StoreMem(asm.R1, 0, asm.R0, asm.DWord),
			asm.Mov.Imm(asm.R0, ActionPass),
			asm.Return(),
		},
	})
	if err != nil {
		return fmt.Errorf("loading the program of the daemon's heartbeat: %w", explainLoad(err))
	}
	defer beat.Close()
	if _, err := beat.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
		return fmt.Errorf("telling the fast path of the daemon: %w", err)
	}
	return nil
}
