// SPDX-License-Identifier: Apache-2.0

// Package guardbench measures and checks the guard (bpf/guard.h) where it works: in
// eBPF, on frames that are never sent, beside sockets of this network namespace.
package guardbench

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP -type reason -type guard_class guardbench ../../../bpf/guardbench.bpf.c -- -I../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
