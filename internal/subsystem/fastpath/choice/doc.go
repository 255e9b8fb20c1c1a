// SPDX-License-Identifier: Apache-2.0

// Package choice finds out which structure of the IPv4 table is the fastest on this
// machine, and keeps the answer: what `fast-path.structure: auto` means.
//
// The candidates are timed in eBPF (Measure) on a generated table as large as
// the Internet's, by turns. Figures and decision lie in a file of the instance's state
// directory (Store), with what they depend on (Key): on another machine they say
// nothing, and after another kernel or another release they are to be measured again.
//
// The rule (decide): lookups that wait for each other count, because a packet waits for its own lookup, and
// half of the addresses lie inside the table's prefixes. The default stays unless another structure
// is surely faster, and one with a larger image must be much faster: in a router the
// table is not alone in the caches. A structure whose image takes more than a
// 32nd of the memory is no candidate, for while tables are exchanged two of them
// stand side by side; the default always is one.
//
// Measuring disturbs forwarding as little as can be: no run of a program is longer than what the kernel
// takes for a round of packets, and the process that calls Measure should have the lowest
// priority (minne bench structure gives itself that).
package choice
