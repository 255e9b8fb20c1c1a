// SPDX-License-Identifier: Apache-2.0

// Package fibbench measures the FIB structures where they work: in eBPF, on a
// real Internet table, beside the kernel's own lookup.
//
// Everything happens in a network namespace of its own that ends with the
// measurement. The kernel gets the whole table as routes, each structure gets it
// compiled; then short trials of all of them alternate, so that a machine that
// slows down slows all of them.
package fibbench

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP fibbench ../../../../bpf/fibbench.bpf.c -- -I../../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
