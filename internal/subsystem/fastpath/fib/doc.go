// SPDX-License-Identifier: Apache-2.0

// Package fib compiles routes into flat images that the fast path's eBPF program
// searches (bpf/fib.h). It does no I/O: the image is memory that the caller maps.
//
// # The image
//
// A 64-bit word of address (IPv4 in its upper half; IPv6 one half at a time) is
// used up from the left. The root, a direct stage of 16 to 20 bits, gives a
// 32-bit descriptor: a next hop; or a leaf, a sorted array of ranges, each worth
// one next hop; or a further direct stage. Blocks of addresses with few ranges
// become leaves, crowded ones stages whose width follows the crowd, so a lookup
// costs two or three dependent cache misses whatever the table looks like, and
// never more than a fixed number of steps. An IPv6 /64 that holds longer
// prefixes refers to a tree of its own over the second half of the address.
// DIR-24-8 is there beside it, to compare.
//
// A result of 0 from the root, a leaf or a stage means the default route, which
// is one word of its own: changing it touches nothing else. Local routes (the
// kernel's local table) are painted over all others.
//
// # Updates
//
// The routes are kept in a tree of the image's own shape (tree.go): short
// prefixes in each stage, the rest in a sorted list per block. An edit marks the
// blocks whose answers it may change; Publish describes each marked block anew
// (build.go): a sweep over its list gives the ranges (ranges.go), which are
// written to free memory and then linked by one aligned store of the block's
// descriptor. When only next hops change, which is what BGP does most, the leaf
// is edited in place. Every address goes from its old answer to its new one at
// once; no lookup ever meets a half-written block.
//
// What is unlinked is retired, and reused only after a grace period that the
// caller provides (memory.go). A stage that has become too small or too large for
// its routes is built anew as a whole.
//
// When the image is full, blocks that can't be described answer 0 ("the kernel
// decides") instead of something old, and ErrFull is returned.
package fib
