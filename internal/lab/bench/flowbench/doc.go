// SPDX-License-Identifier: Apache-2.0

// Package flowbench measures and checks the flow table where it works: in eBPF,
// beside the kernel's own hash maps with the same keys.
//
// No packets and no network are involved. One run of a program goes through an
// array of keys; short trials of all contenders alternate, so that a machine that slows
// down slows all of them.
package flowbench

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP flowbench ../../../../bpf/flowbench.bpf.c -- -I../../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
