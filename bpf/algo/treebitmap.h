/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Tree bitmap: longest prefix match in a trie of 6 bits a step.
 *
 * W. Eatherton, G. Varghese, Z. Dittia: Tree Bitmap: Hardware/Software IP Lookups with
 * Incremental Updates. ACM CCR 34(2), 2004.
 *
 * Below the root (lpm.h), a node says by one bitmap which prefixes end in it (internal: 63 bits, of
 * lengths 0 to 5) and by another which of 64 children it has (external). Children and next hops of a
 * node lie in a row, so the ones before a bit count which one is meant. Behind a root of 13 bits,
 * prefixes of 18, 24, 30, 36, 42 and 48 bits are the longest ones of their nodes. As kept here:
 *
 *   - Most nodes have no children and are kept apart, in 3 words instead of 9 (the paper's end
 *     nodes); a node has one external bitmap for each kind of child.
 *   - Every word of the root is the place of an inner node, so nobody has to ask; those that differ in
 *     nothing are one.
 *   - The best next hop above a node is its prefix of length 0. So every node
 *     answers for itself: only the last node's internal bitmap is looked at.
 *   - Longer prefixes have lower bits, so the lowest bit set is the longest match,
 *     which needs no instruction that finds the highest one.
 *
 * Words of an inner node: external bitmap of inner children (2) and where they begin, of end
 * children (2) and where they begin, then the words of an end node: internal bitmap
 * (2) and the number of its first next hop.
 */
#ifndef MINNE_ALGO_TREEBITMAP_H
#define MINNE_ALGO_TREEBITMAP_H

#include "lpm.h"

#define ALGO_TBM_STRIDE 6
#define ALGO_TBM_INNER_WORDS 9
#define ALGO_TBM_END_WORDS 3
#define ALGO_TBM_INTERNAL 6 /* where an inner node's words of an end node begin */

/* Inner nodes on the longest way. */
#define ALGO_TBM4_DEPTH 4
#define ALGO_TBM6_DEPTH 20

/* algo_tbm_number is the number of the best next hop for the path, the next 6 bits of an address, in a node whose
 * words of an end node begin at a place. */
ALGO_INLINE algo_u32 algo_tbm_number(struct algo_table t, algo_u32 at, algo_u32 path)
{
	algo_u32 longest = algo_word(t, at), others = algo_word(t, at + 1), first = algo_word(t, at + 2);
	algo_u32 bit = (algo_u32)1 << (path >> 1);
	algo_u32 found = (algo_u32)1 << (path >> 2) | (algo_u32)0x10000 << (path >> 3) |
			 (algo_u32)0x1000000 << (path >> 4) | (algo_u32)0x10000000 << (path >> 5) |
			 (algo_u32)1 << 30;
	/* All ones unless a prefix of 5 bits matches; then the other ones don't count. */
	algo_u32 shorter = (algo_u32)algo_opaque((longest >> (path >> 1) & 1) - 1);

	found &= others;
	bit = (bit & ~shorter) - 1; /* all ones when shorter */
	found = ((found & -found) - 1) & shorter;
	return first + algo_lpm_ones(longest & bit, others & found);
}

/* algo_tbm_before counts the children before one in a bitmap: its bit in its word, which is the lower one, or
 * the upper one when upper is 1. */
ALGO_INLINE algo_u32 algo_tbm_before(algo_u32 lower, algo_u32 word, algo_u32 upper, algo_u32 bit)
{
	return algo_lpm_ones(word & (bit - 1), lower & (0 - upper));
}

/* algo_tbm_step goes from an inner node to the child for a path. It returns the place of an inner node, or 0 when
 * the way ends: then at is where the internal bitmap is, and down whether it is a child's. */
ALGO_INLINE algo_u32 algo_tbm_step(struct algo_table t, algo_u32 node, algo_u32 path, algo_u32 *at, algo_u32 *down)
{
	algo_u32 upper = path >> 5, bit = (algo_u32)1 << (path & 31);
	algo_u32 inner = algo_word(t, node + upper), end = algo_word(t, node + 3 + upper);

	if (inner & bit)
		return algo_word(t, node + 2) +
		       ALGO_TBM_INNER_WORDS * algo_tbm_before(algo_word(t, node), inner, upper, bit);
	*down = !!(end & bit);
	*at = node + ALGO_TBM_INTERNAL;
	if (end & bit)
		*at = algo_word(t, node + 5) +
		      ALGO_TBM_END_WORDS * algo_tbm_before(algo_word(t, node + 3), end, upper, bit);
	return 0;
}

ALGO_INLINE algo_u32 algo_tbm4_walk(struct algo_table t, algo_u32 addr, algo_u32 *visits)
{
	algo_u32 node = algo_word(t, ALGO_LPM_ROOT + (addr >> (32 - ALGO_LPM_ROOT_BITS)));
	algo_u32 at = node, down = 0;

	addr <<= ALGO_LPM_ROOT_BITS;
	for (int i = 0; i < ALGO_TBM4_DEPTH; i++) {
		if (visits)
			++*visits;
		node = algo_tbm_step(t, node, addr >> 26, &at, &down);
		if (!node)
			break;
		addr <<= ALGO_TBM_STRIDE;
	}
	addr <<= ALGO_TBM_STRIDE & (0 - down);
	if (visits)
		*visits += down;
	return algo_lpm_result(t, algo_tbm_number(t, at, addr >> 26));
}

/* algo_tbm6_walk is algo_tbm4_walk for the two halves of an IPv6 address. */
ALGO_INLINE algo_u32 algo_tbm6_walk(struct algo_table t, algo_u64 hi, algo_u64 lo, algo_u32 *visits)
{
	algo_u32 node = algo_word(t, ALGO_LPM_ROOT + (algo_u32)(hi >> (64 - ALGO_LPM_ROOT_BITS)));
	algo_u32 at = node, down = 0;

	hi = hi << ALGO_LPM_ROOT_BITS | lo >> (64 - ALGO_LPM_ROOT_BITS);
	lo <<= ALGO_LPM_ROOT_BITS;
	for (int i = 0; i < ALGO_TBM6_DEPTH; i++) {
		if (visits)
			++*visits;
		node = algo_tbm_step(t, node, (algo_u32)(hi >> 58), &at, &down);
		if (!node)
			break;
		hi = hi << ALGO_TBM_STRIDE | lo >> (64 - ALGO_TBM_STRIDE);
		lo <<= ALGO_TBM_STRIDE;
	}
	if (down)
		hi = hi << ALGO_TBM_STRIDE | lo >> (64 - ALGO_TBM_STRIDE);
	if (visits)
		*visits += down;
	return algo_lpm_result(t, algo_tbm_number(t, at, (algo_u32)(hi >> 58)));
}

/* algo_tbm4_lookup is the next hop of an IPv4 address (host byte order), or 0. */
ALGO_INLINE algo_u32 algo_tbm4_lookup(struct algo_table t, algo_u32 addr)
{
	return algo_tbm4_walk(t, addr, 0);
}

/* algo_tbm4_visited is algo_tbm4_lookup that adds the nodes it looked at. */
ALGO_INLINE algo_u32 algo_tbm4_visited(struct algo_table t, algo_u32 addr, algo_u32 *visits)
{
	return algo_tbm4_walk(t, addr, visits);
}

/* The same for IPv6, whose address comes in two halves. */
ALGO_INLINE algo_u32 algo_tbm6_lookup(struct algo_table t, algo_u64 hi, algo_u64 lo)
{
	return algo_tbm6_walk(t, hi, lo, 0);
}

ALGO_INLINE algo_u32 algo_tbm6_visited(struct algo_table t, algo_u64 hi, algo_u64 lo, algo_u32 *visits)
{
	return algo_tbm6_walk(t, hi, lo, visits);
}

#endif
