// SPDX-License-Identifier: Apache-2.0

// Package bloombench runs the Bloom filters of bpf/algo inside the kernel: it checks
// every answer against Go's and times them.
package bloombench

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP bloombench ../../../../bpf/bloombench.bpf.c -- -I../../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
