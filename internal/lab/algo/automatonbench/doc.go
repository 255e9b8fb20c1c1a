// SPDX-License-Identifier: Apache-2.0

// Package automatonbench searches for patterns inside the kernel, in eBPF: it loads an image of
// internal/subsystem/fastpath/automaton, has bytes searched in it, and times that.
package automatonbench

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP automatonbench ../../../../bpf/automatonbench.bpf.c -- -I../../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
