// SPDX-License-Identifier: Apache-2.0

// Package structurebench finds out which structure of the IPv4 table is the fastest on
// this machine: what `minne bench structure` prints, and the fast path's package choice keeps.
//
// The candidates are timed in eBPF (Measure) on a generated table as large as
// the Internet's, by turns. The rule (decide): lookups that wait for each other count,
// because a packet waits for its own lookup, and
// half of the addresses lie inside the table's prefixes. The default stays unless another structure
// is surely faster, and one with a larger image must be much faster: in a router the
// table is not alone in the caches.
//
// Measuring disturbs forwarding as little as can be: no run of a program is longer than what the kernel
// takes for a round of packets, and the process that calls Measure should have the lowest
// priority (minne bench structure gives itself that).
package structurebench
