// SPDX-License-Identifier: Apache-2.0

// Package mapped shares the arrays of eBPF programs with user space by memory: no
// system call is made to read or change them.
package mapped

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Memory maps the whole of an array that was made with BPF_F_MMAPABLE. The kernel
// rounds every entry up to 8 bytes. The caller gives it back by unix.Munmap.
func Memory(m *ebpf.Map) ([]byte, error) {
	entry := (int(m.ValueSize()) + 7) &^ 7
	page := os.Getpagesize()
	size := (entry*int(m.MaxEntries()) + page - 1) &^ (page - 1)
	region, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of %v: %w", size, m, err)
	}
	return region, nil
}

// View lays as many values as fit over mapped memory. T must look in Go as its struct does in C.
func View[T any](region []byte) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(region))), uintptr(len(region))/unsafe.Sizeof(one))
}
