// SPDX-License-Identifier: Apache-2.0

package voices

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"minne/internal/base/instance"
	"minne/internal/subsystem/fastpath"
	"minne/internal/subsystem/kernel"
	"minne/internal/testing/reference"
)

// newFastPath starts the second voice: the fast path on the ports of the process's
// own namespace, told of the kernel's state by the watcher as in the product.
func newFastPath(t *testing.T, n *network) *fastpath.FastPath {
	t.Helper()
	inst, err := instance.New("voices")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	f := fastpath.New(inst, log)
	t.Cleanup(f.Close)
	desired, err := fastpath.Render(n.config())
	if err != nil {
		t.Fatal(err)
	}
	desired.Guard.On = false // all of these odd packets are to reach the kernel, at any rate
	if err := f.Apply(t.Context(), desired); err != nil {
		t.Fatal(err)
	}
	watcher := kernel.NewWatcher(log, f)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- watcher.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("kernel watcher: %v", err)
		}
	})
	select {
	case <-watcher.Ready():
	case <-time.After(30 * time.Second):
		t.Fatal("the kernel watcher has told nothing within 30 s")
	}
	return f
}

// passAll attaches a program that passes everything to the far ends: a veth sends
// redirected frames only to a peer that has one.
func (k *bed) passAll(t *testing.T, n *network) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, fastpath.ActionPass), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	err = k.far.do(func() error {
		for i := range n.Ports {
			l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: k.base + i + 1, Flags: link.XDPDriverMode})
			if err != nil {
				return err
			}
			t.Cleanup(func() { l.Close() })
		}
		return nil
	})
	if err != nil {
		t.Fatalf("XDP on the far ends: %v", err)
	}
}

// verdict is the program's answer in the reference's words.
func verdict(v fastpath.Verdict) reference.Verdict {
	out := reference.Verdict{Reason: reference.Reason(v.Reason.String()), Port: v.Port, Frame: v.Packet}
	switch v.Action {
	case fastpath.ActionPass:
		out.Action = reference.Punt
	case fastpath.ActionRedirect:
		out.Action, out.Reason = reference.Forward, ""
	}
	return out
}
