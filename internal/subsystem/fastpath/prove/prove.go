// SPDX-License-Identifier: Apache-2.0

// Package prove finds out whether a port sends what an XDP program redirects to it: it has a program redirect a frame and
// asks the kernel what the driver made of it. Frames that a driver does not take are lost without a word, so a port is not
// trusted before.
//
// The frame is one that no bridge and no switch passes on, and that nobody understands: for the group address of the
// nearest bridge (IEEE 802.1Q table 8-1), of the EtherType for experiments (IEEE 802 section 9.2.4).
package prove

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"minne/internal/base/thread"
)

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP -type answer prove ../../../../bpf/prove.bpf.c -- -I../../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu

// ErrUnknown wraps the reason why this kernel can't be asked: it is older than Linux 5.18 or has no BTF.
var ErrUnknown = errors.New("this kernel can't be asked whether ports send redirected frames")

// tries is how many frames a driver may drop, as for a full queue, before it is believed that it sends none.
const tries = 5

// Frame is what is sent: its first 6 bytes are the destination, the next 6 the source, the next 2 the EtherType.
func Frame(source [6]byte) []byte {
	frame := make([]byte, 60)
	copy(frame, []byte{0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e})
	copy(frame[6:], source[:])
	copy(frame[12:], []byte{0x88, 0xb5})
	copy(frame[14:], "minne asks whether this port sends")
	return frame
}

// Failure says on which processors a port does not send.
type Failure struct {
	CPUs  []int
	All   bool       // on all that were asked
	Errno unix.Errno // of the driver; 0 where it gave none
}

func (f *Failure) Error() string {
	text := "a frame that a program redirected to it was not sent"
	if !f.All {
		var numbers []string
		for _, n := range f.CPUs {
			numbers = append(numbers, fmt.Sprint(n))
		}
		text += " from CPU " + strings.Join(numbers, ", ")
	}
	if f.Errno != 0 {
		text += " (" + f.Errno.Error() + ")"
	}
	return text
}

// Prover is the programs, loaded.
type Prover struct {
	objects proveObjects
	hears   link.Link
}

// Open loads the programs. The error is ErrUnknown where that can't be done.
func Open() (*Prover, error) {
	p := &Prover{}
	if err := loadProveObjects(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	var err error
	if p.hears, err = link.AttachTracing(link.TracingOptions{Program: p.objects.ProveAnswer}); err != nil {
		p.objects.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return p, nil
}

// Close unloads the programs.
func (p *Prover) Close() error { return errors.Join(p.hears.Close(), p.objects.Close()) }

// Port redirects a frame to a port of this network namespace on each of the processors. The error is a *Failure where it
// is not sent, and ErrUnknown where that can't be found out.
func (p *Prover) Port(ifindex int, source [6]byte, cpus []int) error {
	o := &p.objects
	if err := o.ProvePort.Put(uint32(0), uint32(ifindex)); err != nil {
		return fmt.Errorf("let a program redirect to link %d: %w", ifindex, err)
	}
	answers := make([]proveAnswer, ebpf.MustPossibleCPU())
	for n := range answers {
		answers[n].Ifindex = uint32(ifindex)
	}
	if err := o.ProveAnswers.Put(uint32(0), answers); err != nil {
		return err
	}
	f := &Failure{}
	for _, cpu := range cpus {
		sent, reason, err := from(o, cpu, Frame(source))
		if err != nil {
			return err
		}
		if !sent {
			f.CPUs, f.Errno = append(f.CPUs, cpu), reason
		}
	}
	if f.All = len(f.CPUs) == len(cpus); len(f.CPUs) > 0 {
		return f
	}
	return nil
}

// from sends on one processor.
func from(o *proveObjects, cpu int, frame []byte) (sent bool, reason unix.Errno, err error) {
	release, err := thread.Stay(cpu)
	if err != nil {
		return false, 0, err
	}
	defer release()
	for range tries {
		_, err := o.ProveSend.Run(&ebpf.RunOptions{Data: frame, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, Repeat: 1, BatchSize: 1})
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
			return false, 0, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		if err != nil {
			return false, 0, err
		}
		answers := make([]proveAnswer, ebpf.MustPossibleCPU())
		if err := o.ProveAnswers.Lookup(uint32(0), &answers); err != nil {
			return false, 0, err
		}
		if answers[cpu].Sent > 0 {
			return true, 0, nil
		}
		reason = unix.Errno(-answers[cpu].Error)
	}
	return false, reason, nil
}
