/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Tree bitmap, many addresses at a time, for native programs that have them.
 *
 * The lookups of a batch go down together, one stage each: while one waits for memory, the others'
 * loads are under way already. For IPv4 a stage does not branch on whether a node has a child, which
 * no predictor knows. Only prefixes longer than 24 bits, which are rare, have a branch. The ways
 * of IPv6 are longer and differ more: lookups leave the batch as they end.
 */
#ifndef MINNE_ALGO_TREEBITMAP_MANY_H
#define MINNE_ALGO_TREEBITMAP_MANY_H

#include "treebitmap.h"

#define ALGO_TBM_BATCH 32

ALGO_INLINE void algo_tbm_fetch(struct algo_table t, algo_u32 at)
{
	__builtin_prefetch(t.words + (at & t.mask));
}

/* algo_tbm4_down is where the internal bitmap for an address is, and the path in it. node is an inner node below the root. */
ALGO_INLINE algo_u32 algo_tbm4_down(struct algo_table t, algo_u32 node, algo_u32 addr, algo_u32 *path)
{
	algo_u32 first = addr << ALGO_LPM_ROOT_BITS >> 26, upper = first >> 5;
	algo_u32 second = addr << (ALGO_LPM_ROOT_BITS + ALGO_TBM_STRIDE) >> 26;
	algo_u32 bit = (algo_u32)1 << (first & 31);
	algo_u32 inner = algo_word(t, node + upper), end = algo_word(t, node + 3 + upper);
	algo_u32 child, down = 0, at = node;

	if (inner & bit) {
		node = algo_word(t, node + 2) +
		       ALGO_TBM_INNER_WORDS * algo_tbm_before(algo_word(t, node), inner, upper, bit);
		addr <<= ALGO_LPM_ROOT_BITS + ALGO_TBM_STRIDE;
		for (int i = 1; i < ALGO_TBM4_DEPTH; i++) {
			node = algo_tbm_step(t, node, addr >> 26, &at, &down);
			if (!node)
				break;
			addr <<= ALGO_TBM_STRIDE;
		}
		if (down)
			addr <<= ALGO_TBM_STRIDE;
		*path = addr >> 26;
		return at;
	}
	child = (algo_u32)algo_opaque(0 - (algo_u64)(end >> (first & 31) & 1));
	at = algo_word(t, node + 5) + ALGO_TBM_END_WORDS * algo_tbm_before(algo_word(t, node + 3), end, upper, bit);
	node += ALGO_TBM_INTERNAL;
	*path = first ^ ((first ^ second) & child);
	return node ^ ((node ^ at) & child);
}

/* algo_tbm4_batch finds the next hops of at most ALGO_TBM_BATCH addresses. */
ALGO_INLINE void algo_tbm4_batch(struct algo_table t, const algo_u32 *addrs, algo_u32 *hops, algo_u32 n)
{
	algo_u32 at[ALGO_TBM_BATCH], path[ALGO_TBM_BATCH];

	for (algo_u32 i = 0; i < n; i++) {
		at[i] = algo_word(t, ALGO_LPM_ROOT + (addrs[i] >> (32 - ALGO_LPM_ROOT_BITS)));
		algo_tbm_fetch(t, at[i]);
	}
	for (algo_u32 i = 0; i < n; i++) {
		at[i] = algo_tbm4_down(t, at[i], addrs[i], &path[i]);
		algo_tbm_fetch(t, at[i]);
	}
	for (algo_u32 i = 0; i < n; i++) {
		at[i] = algo_tbm_number(t, at[i], path[i]);
		algo_tbm_fetch(t, at[i] & ALGO_LPM_WIDE ? at[i] : at[i] >> 1);
	}
	for (algo_u32 i = 0; i < n; i++)
		hops[i] = algo_lpm_result(t, at[i]);
}

ALGO_INLINE void algo_tbm4_all(struct algo_table t, const algo_u32 *addrs, algo_u32 *hops, algo_u32 n)
{
	for (; n >= ALGO_TBM_BATCH; n -= ALGO_TBM_BATCH, addrs += ALGO_TBM_BATCH, hops += ALGO_TBM_BATCH)
		algo_tbm4_batch(t, addrs, hops, ALGO_TBM_BATCH);
	algo_tbm4_batch(t, addrs, hops, n);
}

/* algo_tbm6_batch finds the next hops of at most ALGO_TBM_BATCH addresses. */
ALGO_INLINE void algo_tbm6_batch(struct algo_table t, const struct algo_address6 *addrs, algo_u32 *hops, algo_u32 n)
{
	algo_u32 node[ALGO_TBM_BATCH], at[ALGO_TBM_BATCH], path[ALGO_TBM_BATCH], going[ALGO_TBM_BATCH], left = n;
	struct algo_address6 rest[ALGO_TBM_BATCH];

	for (algo_u32 i = 0; i < n; i++) {
		going[i] = i;
		at[i] = node[i] = algo_word(t, ALGO_LPM_ROOT + (algo_u32)(addrs[i].hi >> (64 - ALGO_LPM_ROOT_BITS)));
		algo_tbm_fetch(t, node[i]);
		rest[i].hi = addrs[i].hi << ALGO_LPM_ROOT_BITS | addrs[i].lo >> (64 - ALGO_LPM_ROOT_BITS);
		rest[i].lo = addrs[i].lo << ALGO_LPM_ROOT_BITS;
		path[i] = (algo_u32)(rest[i].hi >> 58);
	}
	for (int depth = 0; depth < ALGO_TBM6_DEPTH && left; depth++) {
		algo_u32 still = 0;

		for (algo_u32 j = 0; j < left; j++) {
			algo_u32 i = going[j], down = 0, next = algo_tbm_step(t, node[i], path[i], &at[i], &down);

			algo_tbm_fetch(t, next ? next : at[i]);
			if (next || down) {
				rest[i].hi = rest[i].hi << ALGO_TBM_STRIDE | rest[i].lo >> (64 - ALGO_TBM_STRIDE);
				rest[i].lo <<= ALGO_TBM_STRIDE;
				path[i] = (algo_u32)(rest[i].hi >> 58);
			}
			node[i] = next;
			going[still] = i;
			still += next != 0;
		}
		left = still;
	}
	for (algo_u32 i = 0; i < n; i++) {
		at[i] = algo_tbm_number(t, at[i], path[i]);
		algo_tbm_fetch(t, at[i] & ALGO_LPM_WIDE ? at[i] : at[i] >> 1);
	}
	for (algo_u32 i = 0; i < n; i++)
		hops[i] = algo_lpm_result(t, at[i]);
}

ALGO_INLINE void algo_tbm6_all(struct algo_table t, const struct algo_address6 *addrs, algo_u32 *hops, algo_u32 n)
{
	for (; n >= ALGO_TBM_BATCH; n -= ALGO_TBM_BATCH, addrs += ALGO_TBM_BATCH, hops += ALGO_TBM_BATCH)
		algo_tbm6_batch(t, addrs, hops, ALGO_TBM_BATCH);
	algo_tbm6_batch(t, addrs, hops, n);
}

/* ALGO_TBM_MANY defines NAME_many, which finds the next hops of n addresses; on x86-64, where the compiler may make one
 * instruction of algo_ones only if the CPU has it, by one of two copies. */
#if defined(__x86_64__) && !defined(__POPCNT__)
#define ALGO_TBM_MANY(NAME, ADDRESS)                                                                              \
	__attribute__((target("popcnt"), unused)) static void NAME##_popcnt(struct algo_table t, const ADDRESS *addrs, \
									    algo_u32 *hops, algo_u32 n)            \
	{                                                                                                         \
		NAME##_all(t, addrs, hops, n);                                                                    \
	}                                                                                                         \
	ALGO_INLINE void NAME##_many(struct algo_table t, const ADDRESS *addrs, algo_u32 *hops, algo_u32 n)       \
	{                                                                                                         \
		if (__builtin_cpu_supports("popcnt"))                                                             \
			NAME##_popcnt(t, addrs, hops, n);                                                         \
		else                                                                                              \
			NAME##_all(t, addrs, hops, n);                                                            \
	}
#else
#define ALGO_TBM_MANY(NAME, ADDRESS)                                                                        \
	ALGO_INLINE void NAME##_many(struct algo_table t, const ADDRESS *addrs, algo_u32 *hops, algo_u32 n) \
	{                                                                                                   \
		NAME##_all(t, addrs, hops, n);                                                              \
	}
#endif

ALGO_TBM_MANY(algo_tbm4, algo_u32) /* host byte order */
ALGO_TBM_MANY(algo_tbm6, struct algo_address6)

#endif
