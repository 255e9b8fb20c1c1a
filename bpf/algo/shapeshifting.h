/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Shape-shifting trie: longest prefix match in few and small nodes that take the shape of the table.
 *
 * H. Song, J. Turner, J. Lockwood: Shape Shifting Tries for Faster IP Route Lookup. IEEE
 * ICNP 2005.
 *
 * A node holds up to 31 nodes of a binary trie, of any shape, numbered breadth first, their top
 * node 0. Its words:
 *
 *   0, 1  shape, 62 bits from the lowest of word 1 on: bit 2 n says whether n's child for an address bit of 0 is in
 *         the node as well, bit 2 n + 1 the other. The k-th bit set belongs to number k.
 *   2     external bitmap: bit k says whether there is a further node at the k-th bit
 *         of the shape that is not set
 *   3     internal bitmap: bit 30 - n says whether a prefix ends in n. So the lowest bit set is the longest match
 *   4     where the further nodes begin, one behind the other; behind them are the next hops, in the order
 *         of the internal bitmap's bits. ALGO_LPM_WIDE: one to a word (lpm.h)
 *
 * A word of the root (lpm.h) is the place of a node, with ALGO_SST_NODE added, or the number of a next hop.
 */
#ifndef MINNE_ALGO_SHAPESHIFTING_H
#define MINNE_ALGO_SHAPESHIFTING_H

#include "lpm.h"

#define ALGO_SST_SIZE 31
#define ALGO_SST_NODE_WORDS 5
#define ALGO_SST_NODE 0x40000000U

/* Bits of an address behind the root, and one step that finds that there is nothing further. */
#define ALGO_SST4_STEPS (32 - ALGO_LPM_ROOT_BITS + 1)
#define ALGO_SST6_STEPS (128 - ALGO_LPM_ROOT_BITS + 1)

/* algo_sst_walk is the next hop of an address in two halves, left-aligned, in at most so many steps. */
ALGO_INLINE algo_u32 algo_sst_walk(struct algo_table t, algo_u64 hi, algo_u64 lo, int steps, algo_u32 *visits)
{
	algo_u32 desc = algo_word(t, ALGO_LPM_ROOT + (algo_u32)(hi >> (64 - ALGO_LPM_ROOT_BITS)));
	algo_u32 node = desc & ~ALGO_SST_NODE, top = (algo_u32)1 << (ALGO_SST_SIZE - 1);
	algo_u32 path = top, number = 0; /* the bits of the internal bitmap on the way through the node; where it has led to */
	/* The node of the longest match so far: its internal bitmap before the match, its external one, and what lies below. */
	algo_u32 before = 0, beside = 0, results = 0;
	algo_u64 shape;

	if (!(desc & ALGO_SST_NODE))
		return algo_lpm_result(t, node);
	hi = hi << ALGO_LPM_ROOT_BITS | lo >> (64 - ALGO_LPM_ROOT_BITS);
	lo <<= ALGO_LPM_ROOT_BITS;
	shape = algo_double(t, node);
	if (visits)
		++*visits;
	for (int i = 0; i < steps; i++) {
		algo_u32 place = number << 1 | (algo_u32)(hi >> 63);
		algo_u64 upto = shape << ((63 - place) & 63);
		algo_u32 ones = algo_lpm_ones((algo_u32)(upto >> 32), (algo_u32)upto);

		hi = hi << 1 | lo >> 63;
		lo <<= 1;
		if (upto >> 63) { /* the next point is in the node as well */
			number = ones & 31;
			path |= top >> number;
			continue;
		}

		algo_u32 external = algo_word(t, node + 2), internal = algo_word(t, node + 3);
		algo_u32 below = algo_word(t, node + 4);
		algo_u32 bit = (algo_u32)1 << ((place - ones) & 31);

		path &= internal;
		if (path) {
			before = internal & ((path & -path) - 1);
			beside = external;
			results = below;
		}
		if (!(external & bit))
			break;
		node = (below & ~ALGO_LPM_WIDE) + ALGO_SST_NODE_WORDS * algo_ones(external & (bit - 1));
		shape = algo_double(t, node);
		path = top;
		number = 0;
		if (visits)
			++*visits;
	}
	if (!results)
		return 0;
	results += ALGO_SST_NODE_WORDS * algo_ones(beside);
	if (!(results & ALGO_LPM_WIDE))
		results <<= 1;
	return algo_lpm_result(t, results + algo_ones(before));
}

/* algo_sst4_lookup is the next hop of an IPv4 address (host byte order), or 0. */
ALGO_INLINE algo_u32 algo_sst4_lookup(struct algo_table t, algo_u32 addr)
{
	return algo_sst_walk(t, (algo_u64)addr << 32, 0, ALGO_SST4_STEPS, 0);
}

/* algo_sst4_visited is algo_sst4_lookup that adds the nodes it looked at. */
ALGO_INLINE algo_u32 algo_sst4_visited(struct algo_table t, algo_u32 addr, algo_u32 *visits)
{
	return algo_sst_walk(t, (algo_u64)addr << 32, 0, ALGO_SST4_STEPS, visits);
}

/* The same for IPv6, whose address comes in two halves. */
ALGO_INLINE algo_u32 algo_sst6_lookup(struct algo_table t, algo_u64 hi, algo_u64 lo)
{
	return algo_sst_walk(t, hi, lo, ALGO_SST6_STEPS, 0);
}

ALGO_INLINE algo_u32 algo_sst6_visited(struct algo_table t, algo_u64 hi, algo_u64 lo, algo_u32 *visits)
{
	return algo_sst_walk(t, hi, lo, ALGO_SST6_STEPS, visits);
}

#endif
