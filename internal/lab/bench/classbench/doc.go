// SPDX-License-Identifier: Apache-2.0

// Package classbench measures and checks the packet classifier and the address
// sets where they work: in eBPF, on policies like those that routers have.
package classbench

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP classbench ../../../../bpf/classbench.bpf.c -- -I../../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
