// SPDX-License-Identifier: Apache-2.0

// Package fastpath runs the XDP program that forwards packets beside the kernel
// (bpf/router.bpf.c) and keeps its tables equal to the kernel's.
//
// It hears of the kernel's state as a rib.Listener and writes what it hears into
// maps that it shares with the program. From route to wire, each arrow an index:
//
//	prefix → next hop → (members of a group) → adjacency → port
//
// so a neighbour that changes its MAC touches one adjacency, a next hop that
// changes touches no prefix, and a route that changes touches one prefix.
//
//   - ports.go attaches the program to ports, or says why not; byhand.go takes all away
//   - program.go loads it; shared.go is the memory shared with it
//   - tables.go listens; interfaces.go, adjacency.go, hops.go and routes.go each
//     keep one of the tables; internal/subsystem/fastpath/fib compiles the prefixes
//   - settings.go and features.go hear of what rib does not tell: forwarding and
//     rp_filter per interface, and what drivers can do
//   - proving.go has a port prove that it sends; jumbo.go exchanges the program where frames have several buffers
//   - bypassed.go leaves to the kernel what would miss something else of it
//   - followed.go makes flows of connections that the program can't ask conntrack about
//   - label.go has flows labelled by patterns in their first bytes
//   - run.go asks the program about one packet; samples.go hears of drops and punts
//   - observe.go tells what is going on; bpf/reasons.h has the words for it
//
// Programs and links are pinned, so packets are forwarded while no daemon runs,
// with the tables as they were. A new daemon builds a second set of tables, and
// only when they are complete does it exchange the program under each link, in
// one step: no packet meets a half-filled table. Whether the new program is the
// same version or another makes no difference. docs/design/fast-path.md has more.
package fastpath

// The program is built twice: routerct asks conntrack through the kernel's functions for it, which
// needs BTF, and router runs on kernels without.

//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP -type reason -type stage -type label_flow router ../../../bpf/router.bpf.c -- -I../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP routerct ../../../bpf/router.bpf.c -- -I../../../bpf/include -DCONNTRACK -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
//go:generate go tool bpf2go -tags linux -target bpfel,bpfeb -cc $BPF_CLANG -strip $BPF_STRIP flowenter ../../../bpf/flowenter.bpf.c -- -I../../../bpf/include -O2 -g -Wall -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu -I/usr/include/arm-linux-gnueabihf -I/usr/include/i386-linux-gnu -I/usr/include/riscv64-linux-gnu
//go:generate $BPF_CLANG -E -P -x c -o reasons_words.go reasons.go.in
