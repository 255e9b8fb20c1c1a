// SPDX-License-Identifier: Apache-2.0

// Package faulty is a device that fails on purpose, by known amounts: the truth
// that the lab's generator and sink are held against in tests.
//
// It joins two ports in XDP and changes nothing on the way, like a cable, but for
// the faults it was given. It is part of the lab's tests only; no command makes one.
package faulty

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP faulty ../../../bpf/faulty.bpf.c -- -I../../../bpf/include -O2 -Wall -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu

// Faults is what a device does wrong. Those that are numbers strike one frame of so
// many, counted per direction, always at the same places: the frames n−1, 2n−1, …;
// 0 is never. Frames other than UDP and TCP over IP always pass.
type Faults struct {
	Drop      uint64 // frames lost
	Duplicate uint64 // frames sent twice
	// Frames that overtake the one before, at least 2. While this is set the device
	// holds one frame at any time (Truth.Held), so that all come a frame later.
	// A frame is duplicated without overtaking, and a held one is not lost, so
	// combine this with neither.
	Reorder   uint64
	Corrupt   uint64 // the last byte of the frame inverted
	BadTTL    uint64 // one hop too many; the checksum fits
	BadHeader uint64 // IPv4 header checksum
	BadMAC    uint64 // last byte of the destination
	// Delay is how long each frame stays, exact to a microsecond: the core spends it
	// waiting. So the rate must be below 1 ÷ Delay, and Delay at most 100 ms.
	Delay time.Duration
	// Once so many frames arrived, nothing is forwarded for OutageFor, counted
	// from the next arrival.
	OutageAt  uint64
	OutageFor time.Duration
}

const maxDelay = 100 * time.Millisecond

func (f Faults) check() error {
	switch {
	case f.Reorder == 1:
		return errors.New("one frame of 1 overtakes the one before: expected at least 2")
	case f.Reorder > 0 && (f.Duplicate > 0 || f.Drop > 0):
		return errors.New("reordering together with loss or duplicates: expected one of them at a time")
	case f.Delay < 0 || f.Delay > maxDelay:
		return fmt.Errorf("delay of %v: expected 0 to %v", f.Delay, maxDelay)
	case f.OutageFor < 0:
		return fmt.Errorf("outage of %v: expected 0 or more", f.OutageFor)
	}
	return nil
}

// Truth is what a device did in one direction, in frames.
type Truth struct {
	Arrived    uint64
	Dropped    uint64 // by Faults.Drop
	Dark       uint64 // by the outage
	Duplicated uint64
	Reordered  uint64
	Corrupted  uint64
	BadTTL     uint64
	BadHeader  uint64
	BadMAC     uint64
	Held       uint64 // still in the device
	// How long frames really stayed.
	MeanDelay, MaxDelay time.Duration
}

// Lost is how many frames did not come out of the device.
func (t Truth) Lost() uint64 { return t.Dropped + t.Dark + t.Held }

// Device joins two ports.
type Device struct {
	objs  faultyObjects
	links []link.Link
}

// Start joins two ports, given by ifindex. The calling thread must be in their
// namespace. What is behind them must take redirected frames: on a veth pair the
// far end needs a program too. The caller closes the device.
func Start(left, right int, f Faults) (*Device, error) {
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("faulty device: %w", err)
	}
	d := &Device{}
	if err := d.start(left, right, f); err != nil {
		d.Close()
		return nil, fmt.Errorf("faulty device between ports %d and %d: %w", left, right, err)
	}
	return d, nil
}

func (d *Device) start(left, right int, f Faults) error {
	spec, err := loadFaulty()
	if err != nil {
		return err
	}
	for name, value := range map[string]any{
		"side_of": [2]uint32{uint32(left), uint32(right)},
		"drop":    f.Drop, "duplicate": f.Duplicate, "reorder": f.Reorder, "corrupt": f.Corrupt,
		"bad_ttl": f.BadTTL, "bad_header": f.BadHeader, "bad_mac": f.BadMAC,
		"delay": uint64(f.Delay), "outage_at": f.OutageAt, "outage_for": uint64(f.OutageFor),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	if err := spec.LoadAndAssign(&d.objs, nil); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	for side, out := range []int{right, left} {
		twice := []*ebpf.Map{d.objs.Twice0, d.objs.Twice1}[side]
		err := errors.Join(d.objs.Once.Put(uint32(side), uint32(out)),
			twice.Put(uint32(0), uint32(out)), twice.Put(uint32(1), uint32(out)))
		if err != nil {
			return fmt.Errorf("egress port %d: %w", out, err)
		}
	}
	for _, port := range []int{left, right} {
		l, err := link.AttachXDP(link.XDPOptions{Program: d.objs.Fail, Interface: port, Flags: link.XDPDriverMode})
		if err != nil {
			return fmt.Errorf("attach to port %d: %w", port, err)
		}
		d.links = append(d.links, l)
	}
	return nil
}

// Truth returns what the device did to the frames that arrived on its left and on its right port.
func (d *Device) Truth() (left, right Truth, err error) {
	var sides [2]Truth
	for i := range sides {
		var t faultyTruth
		if err := d.objs.Truths.Lookup(uint32(i), &t); err != nil {
			return left, right, fmt.Errorf("faulty device: %w", err)
		}
		sides[i] = Truth{
			Arrived: t.Arrived, Dropped: t.Dropped, Dark: t.Dark, Duplicated: t.Duplicated, Reordered: t.Reordered,
			Corrupted: t.Corrupted, BadTTL: t.BadTtl, BadHeader: t.BadHeader, BadMAC: t.BadMac, Held: t.Held,
			MaxDelay: time.Duration(t.DelayMax),
		}
		if t.Arrived > 0 {
			sides[i].MeanDelay = time.Duration(t.DelaySum / t.Arrived)
		}
	}
	return sides[0], sides[1], nil
}

// Close takes the device out from between its ports.
func (d *Device) Close() error {
	var all []error
	for _, l := range d.links {
		all = append(all, l.Close())
	}
	d.links = nil
	if d.objs.Fail != nil {
		all = append(all, d.objs.Close())
	}
	return errors.Join(all...)
}
