/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What the structures for longest prefix match have in common: the root and the next hops.
 *
 * The first 13 bits of an address pick a word of the root, which lies behind the header. Next hops are numbered
 * from the beginning of the image, two to a word, the first in the lower half; or, when
 * ALGO_LPM_WIDE is added to a number, one to a word. A next hop of 0 means that there is no route.
 */
#ifndef MINNE_ALGO_LPM_H
#define MINNE_ALGO_LPM_H

#include "algo.h"

/* The kinds' own words of the header. */
#define ALGO_LPM_FAMILY (ALGO_HEAD_OWN + 0) /* 4 or 6 */
#define ALGO_LPM_ROUTES (ALGO_HEAD_OWN + 1) /* that decide something */
#define ALGO_LPM_NODES (ALGO_HEAD_OWN + 2)
#define ALGO_LPM_ENDS (ALGO_HEAD_OWN + 3)    /* tree bitmap: nodes without children */
#define ALGO_LPM_RESULTS (ALGO_HEAD_OWN + 4) /* next hops */
#define ALGO_LPM_IS_WIDE (ALGO_HEAD_OWN + 5) /* 1: next hops of 32 bits */

#define ALGO_LPM_ROOT ALGO_HEAD_END
#define ALGO_LPM_ROOT_BITS 13
#define ALGO_LPM_WIDE 0x80000000U

/* An IPv6 address: its two halves as numbers. */
struct algo_address6 {
	algo_u64 hi, lo;
};

/* algo_lpm_ones counts the bits of two words, at once where registers are wide enough. */
ALGO_INLINE algo_u32 algo_lpm_ones(algo_u32 a, algo_u32 b)
{
#if defined(__bpf__) || __SIZEOF_LONG__ == 8
	algo_u64 v = (algo_u64)a << 32 | b;

	v = v - (v >> 1 & 0x5555555555555555U);
	v = (v & 0x3333333333333333U) + (v >> 2 & 0x3333333333333333U);
	v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fU;
	return (algo_u32)(v * 0x0101010101010101U >> 56);
#else
	return algo_ones(a) + algo_ones(b);
#endif
}

/* algo_lpm_result is a next hop by its number. */
ALGO_INLINE algo_u32 algo_lpm_result(struct algo_table t, algo_u32 number)
{
	if (number & ALGO_LPM_WIDE)
		return algo_word(t, number);
	return algo_word(t, number >> 1) >> ((number & 1) << 4) & 0xffff;
}

#endif
