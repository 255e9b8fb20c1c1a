// SPDX-License-Identifier: Apache-2.0

// Package platform measures whether a computer is fast enough for what a router
// does: longest prefix match, Bloom filters and pattern matching, each as a native
// program and in the kernel as eBPF, over tables of the size that routers have.
//
// A workload is a table with the sets of keys, or the payload, that it is asked
// with. Its answers are worked out in Go first. The native program (procbench)
// and the eBPF programs must give the same ones, by checksum, or the benchmark
// fails: a fast wrong answer is no figure.
//
// Then all ways of asking are timed in rounds, each workload once in each round and
// every other round backwards, so that a machine that is slow for a while is slow
// for all. A figure is the median over the rounds with its 95 % interval; what
// the same measurement differs from itself by (A/A) stands beside.
//
// Results are values (Result), so that those of many platforms can be merged into one table.
package platform
