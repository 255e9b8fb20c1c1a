// SPDX-License-Identifier: Apache-2.0

// Package traffic makes and judges packets in eBPF: a Generator that sends XDP
// live frames out of ports, and a Sink that checks and counts them where they
// arrive.
//
// What a generator sends is a Lap, a sequence of packets that it walks through
// again and again (or recorded frames, see SetReplay); how it sends them is an
// Order. Sequence numbers, time stamps and checksums are written anew for every
// frame. A generator uses the core that calls Run and no other; several of them
// on several cores may send at once, and their streams are told apart by id.
//
// Both act in the network namespace of the calling thread, which must stay the
// same for one call: callers lock it (the lab's Node.Do does). The programs and
// the layout of what they share with this package are in bpf/lab.bpf.c.
package traffic

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP lab ../../../bpf/lab.bpf.c -- -I../../../bpf/include -O2 -Wall -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
