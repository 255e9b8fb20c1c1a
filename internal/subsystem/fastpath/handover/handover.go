// SPDX-License-Identifier: Apache-2.0

// Package handover counts frames that were lost on their way from the CPU that received them to the one that they were handed
// to: its queue was full.
package handover

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP handover ../../../../bpf/handover.bpf.c -- -I../../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu

// Counter counts for one map of CPUs, while this process has it open.
type Counter struct {
	objects handoverObjects
	hears   link.Link
}

// Count begins to count. It fails on a kernel without BTF.
func Count(cpus *ebpf.Map) (*Counter, error) {
	info, err := cpus.Info()
	if err != nil {
		return nil, fmt.Errorf("asking for the map of CPUs: %w", err)
	}
	id, ok := info.ID()
	if !ok {
		return nil, errors.New("this kernel does not number its maps (Linux 4.13 does)")
	}
	spec, err := loadHandover()
	if err != nil {
		return nil, fmt.Errorf("reading the program that counts lost frames: %w", err)
	}
	if err := spec.Variables["spread_map"].Set(uint32(id)); err != nil {
		return nil, fmt.Errorf("setting spread_map in the program that counts lost frames: %w", err)
	}
	c := &Counter{}
	if err := spec.LoadAndAssign(&c.objects, nil); err != nil {
		return nil, fmt.Errorf("loading the program that counts lost frames: %w", err)
	}
	if c.hears, err = link.AttachTracing(link.TracingOptions{Program: c.objects.SpreadEnqueue}); err != nil {
		c.objects.Close()
		return nil, fmt.Errorf("counting lost frames: %w", err)
	}
	return c, nil
}

// Lost is how many frames found no room; 0 for nil.
func (c *Counter) Lost() (sum uint64) {
	if c == nil {
		return 0
	}
	var each []uint64
	if err := c.objects.SpreadLost.Lookup(uint32(0), &each); err != nil {
		return 0
	}
	for _, n := range each {
		sum += n
	}
	return sum
}

// Close ends counting.
func (c *Counter) Close() {
	if c != nil {
		c.hears.Close()
		c.objects.Close()
	}
}
