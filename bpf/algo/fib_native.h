/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The router's own structures (bpf/fib.h: ranges and DIR-24-8 for IPv4, staged16 for IPv6) as a native program
 * searches them: over the same images that internal/subsystem/fastpath/fib writes, in ordinary memory.
 *
 * An image begins at a multiple of 8 bytes, has a power of two of words, and FIB_SLACK bytes behind it. It is in
 * the CPU's byte order: Layout.InOrder of internal/subsystem/fastpath/fib turns one round for another CPU.
 * What the loader of the eBPF program sets, fib_native_open4 and fib_native_open6 set here, for one table of each family in
 * a translation unit; then fib4_lookup and fib6_lookup answer.
 */
#ifndef MINNE_ALGO_FIB_NATIVE_H
#define MINNE_ALGO_FIB_NATIVE_H

#ifdef __bpf__
#error "eBPF programs include fib.h itself"
#endif

#include <linux/types.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

struct fib_native {
	const void *image;
};

static struct fib_native fib4_image, fib6_image;

#define bpf_map_lookup_elem(map, key) ((void)(key), (map)->image)
#define FIB_CONSTANT static

#include "../fib.h"

#undef FIB_CONSTANT
#undef bpf_map_lookup_elem

/* fib_native_open4 says which image IPv4 lookups search: its size in words without what is behind it, its structure
 * (FIB4_RANGE or FIB4_DIRECT24) and the root's bits, as Layout.Constants of internal/subsystem/fastpath/fib tells. */
static __always_inline void fib_native_open4(const void *image, __u32 words, __u32 structure, __u32 root_bits)
{
	fib4_image.image = image;
	fib4_mask = words - 1;
	fib4_structure = structure;
	fib4_root_bits = root_bits;
}

/* fib_native_open6 says which image IPv6 lookups search. */
static __always_inline void fib_native_open6(const void *image, __u32 words)
{
	fib6_image.image = image;
	fib6_mask = words - 1;
}

#endif
