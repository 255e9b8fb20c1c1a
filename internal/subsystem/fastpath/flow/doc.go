// SPDX-License-Identifier: Apache-2.0

// Package flow is user space's half of the flow table: what the fast path remembers
// of connections whose first packets the kernel has evaluated. bpf/flow.h says what the
// table looks like and how packets use it; docs/design/flow-table.md why.
//
// The table lives in eBPF arrays that the caller maps into memory (Memory). This
// package gives it its size and its secret, ends flows that have been silent for too long
// (Sweep), makes all of them invalid at once (Invalidate), and reads them: Stats, Walk
// and, by two looks, Rates. What a flow had counted when it ended, a Listener is told. It reads and writes while packets flow. It takes no locks: a
// side's number is taken out by one compare and exchange, and whoever takes out that of direction 0 owns
// the flow.
package flow
