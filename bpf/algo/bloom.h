/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Bloom filter and counting Bloom filter: whether a key may be in a set. "No" is always right.
 *
 * B. H. Bloom: Space/Time Trade-offs in Hash Coding with Allowable Errors. CACM 13(7), 1970.
 * L. Fan, P. Cao, J. Almeida, A. Broder: Summary Cache. IEEE/ACM ToN 8(3), 2000 (counters of 4 bits).
 * F. Putze, P. Sanders, J. Singler: Cache-, Hash- and Space-Efficient Bloom Filters. WEA 2007 (blocks).
 * P. Dillinger, P. Manolios: Bloom Filters in Probabilistic Verification. FMCAD 2004 (enhanced double hashing).
 *
 * A place is a bit, or a counter of 4 bits that stays at 15 once it has got there: who knows
 * what it would have counted. A key has as many places as the image has hashes. Classic: anywhere.
 * Blocked: all in one block of 16 words, a cache line, so that a lookup waits for memory
 * once; this costs some false positives.
 *
 * Keys are bytes, up to 64. Their hash is MurmurHash3 (x86, 32 bits; A. Appleby) under two seeds, in
 * one pass; 32-bit multiplications only. Its seeds don't protect against who
 * makes up keys of more than 4 bytes so that they collide: what is looked up for strangers must bear false positives.
 *
 *	struct bloom f = bloom_open(table);
 *	bloom_has(f, bloom_hash(f, key, length))
 *	counting_has(f, h)   counting_add(f, words, h)   counting_remove(f, words, h)
 *
 * For eBPF, 64 bytes can be read at the key, whatever its length, unless the length is a constant.
 * A counting filter has one writer.
 */
#ifndef MINNE_ALGO_BLOOM_H
#define MINNE_ALGO_BLOOM_H

#include "algo.h"

#define BLOOM_KEY 64    /* longest key, bytes */
#define BLOOM_HASHES 32 /* most places of a key */
#define BLOOM_BLOCK 16  /* words of a block */
#define BLOOM_AT_ONCE 4 /* classic: places that are looked at before it is asked whether all are taken */

/* The kinds' own words of the header. */
#define BLOOM_HEAD_SEED (ALGO_HEAD_OWN + 0) /* two words */
#define BLOOM_HEAD_HASHES (ALGO_HEAD_OWN + 2)
#define BLOOM_HEAD_BLOCKS (ALGO_HEAD_OWN + 3) /* 0: classic */
#define BLOOM_HEAD_PLACES (ALGO_HEAD_OWN + 4) /* in all; blocked: a multiple of a block's */
#define BLOOM_HEAD_FIRST (ALGO_HEAD_OWN + 5)  /* word in which the places begin */
#define BLOOM_HEAD_KEYS (ALGO_HEAD_OWN + 6)   /* that were added, for people */

/* Places of a block, as a shift that leaves a number of one from a word. */
#define BLOOM_BIT_SHIFT 23     /* 512 bits */
#define BLOOM_COUNTER_SHIFT 25 /* 128 counters */

#define BLOOM_STUCK 15 /* a counter that is not counted down any more */

struct bloom {
	struct algo_table table;
	algo_u32 seed[2];
	algo_u32 hashes;
	algo_u32 blocks;
	algo_u32 places;
	algo_u32 first;
};

struct bloom_hash {
	algo_u32 a, b;
};

ALGO_INLINE struct bloom bloom_open(struct algo_table t)
{
	struct bloom f = {
		.table = t,
		.seed = { algo_word(t, BLOOM_HEAD_SEED), algo_word(t, BLOOM_HEAD_SEED + 1) },
		.hashes = algo_word(t, BLOOM_HEAD_HASHES),
		.blocks = algo_word(t, BLOOM_HEAD_BLOCKS),
		.places = algo_word(t, BLOOM_HEAD_PLACES),
		.first = algo_word(t, BLOOM_HEAD_FIRST),
	};

	if (f.hashes > BLOOM_HASHES)
		f.hashes = BLOOM_HASHES;
	return f;
}

/* bloom_fits tells whether a header makes sense; per_word is 32 for bits and 8 for counters. */
ALGO_INLINE int bloom_fits(struct algo_table t, algo_u32 per_word)
{
	algo_u32 hashes = algo_word(t, BLOOM_HEAD_HASHES), blocks = algo_word(t, BLOOM_HEAD_BLOCKS);
	algo_u32 places = algo_word(t, BLOOM_HEAD_PLACES), first = algo_word(t, BLOOM_HEAD_FIRST);
	algo_u32 used = algo_word(t, ALGO_HEAD_USED), words = places / per_word + !!(places % per_word);

	if (!hashes || hashes > BLOOM_HASHES || !places || first < ALGO_HEAD_END || first > used || words > used - first)
		return 0;
	return !blocks || (words % BLOOM_BLOCK == 0 && words / BLOOM_BLOCK == blocks && first % BLOOM_BLOCK == 0);
}

ALGO_INLINE algo_u32 bloom_turn(algo_u32 v, algo_u32 by)
{
	return v << by | v >> (32 - by);
}

ALGO_INLINE algo_u32 bloom_scramble(algo_u32 word)
{
	return bloom_turn(word * 0xcc9e2d51U, 15) * 0x1b873593U;
}

ALGO_INLINE algo_u32 bloom_finish(algo_u32 h)
{
	h = (h ^ h >> 16) * 0x85ebca6bU;
	h = (h ^ h >> 13) * 0xc2b2ae35U;
	return h ^ h >> 16;
}

/* bloom_block takes 4 bytes of a key, the first one the lowest. */
ALGO_INLINE void bloom_block(struct bloom_hash *h, algo_u32 word)
{
	word = bloom_scramble(word);
	h->a = bloom_turn(h->a ^ word, 13) * 5 + 0xe6546b64U;
	h->b = bloom_turn(h->b ^ word, 13) * 5 + 0xe6546b64U;
}

/* bloom_end takes the last 0 to 3 bytes, as a word that is otherwise 0. */
ALGO_INLINE struct bloom_hash bloom_end(struct bloom_hash h, algo_u32 word, algo_u32 length)
{
	word = bloom_scramble(word);
	h.a = bloom_finish(h.a ^ word ^ length);
	h.b = bloom_finish(h.b ^ word ^ length);
	return h;
}

/* bloom_hash_word is the hash of a key of 4 bytes. */
ALGO_INLINE struct bloom_hash bloom_hash_word(struct bloom f, algo_u32 word)
{
	struct bloom_hash h = { f.seed[0], f.seed[1] };

	bloom_block(&h, word);
	return bloom_end(h, 0, 4);
}

/* bloom_hash is the hash of a key; of a longer one than BLOOM_KEY only the first bytes count. */
ALGO_INLINE struct bloom_hash bloom_hash(struct bloom f, const algo_u8 *key, algo_u32 length)
{
	struct bloom_hash h = { f.seed[0], f.seed[1] };
	algo_u32 i, tail = 0;

	if (length > BLOOM_KEY)
		length = BLOOM_KEY;
	for (i = 0; i < BLOOM_KEY / 4 && i < length >> 2; i++)
		bloom_block(&h, (algo_u32)key[4 * i] | (algo_u32)key[4 * i + 1] << 8 |
					(algo_u32)key[4 * i + 2] << 16 | (algo_u32)key[4 * i + 3] << 24);
	for (i = length & ~3U; i < BLOOM_KEY && i < length; i++)
		tail |= (algo_u32)key[i] << 8 * (i & 3);
	return bloom_end(h, tail, length);
}

/* bloom_range brings a hash evenly into 0 .. n - 1. */
ALGO_INLINE algo_u32 bloom_range(algo_u32 hash, algo_u32 n)
{
	return (algo_u32)((algo_u64)hash * n >> 32);
}

/* bloom_next goes to the next place of a key: classic; enhanced double hashing. */
ALGO_INLINE void bloom_next(struct bloom_hash *h, algo_u32 i)
{
	h->a += h->b;
	h->b += i + 1;
}

/* Blocked: the top bits of a word that is multiplied on and on number the places in the block. */
#define BLOOM_MULTIPLY 0x9e3779b9U

/* bloom_line is the word in which the block of a key begins. */
ALGO_INLINE algo_u32 bloom_line(struct bloom f, struct bloom_hash h)
{
	return f.first + bloom_range(h.a, f.blocks) * BLOOM_BLOCK;
}

/* bloom_has tells whether the key with a hash may have been added: 1, or certainly not: 0. */
ALGO_INLINE algo_u32 bloom_has(struct bloom f, struct bloom_hash h)
{
	algo_u32 i;

	if (f.blocks) {
		algo_u32 line = bloom_line(f, h), all = 1;

		for (i = 0; i < BLOOM_HASHES && i < f.hashes; i++) {
			algo_u32 place = h.b >> BLOOM_BIT_SHIFT;

			all &= algo_word(f.table, line + (place >> 5)) >> (place & 31);
			h.b *= BLOOM_MULTIPLY;
		}
		return all;
	}
	/* Some at a time: which of them is the first one that is not set, no branch predictor knows. */
	for (i = 0; i < BLOOM_HASHES && i < f.hashes;) {
		algo_u32 all = 1, j;

		for (j = 0; j < BLOOM_AT_ONCE && i < f.hashes; j++, i++) {
			algo_u32 place = bloom_range(h.a, f.places);

			all &= algo_word(f.table, f.first + (place >> 5)) >> (place & 31);
			bloom_next(&h, i);
		}
		if (!all)
			return 0;
	}
	return 1;
}

/* counting_at is where the next counter of a key is, its lowest bit in the word told by shift; then goes on. */
ALGO_INLINE algo_u32 counting_at(struct bloom f, algo_u32 line, struct bloom_hash *h, algo_u32 i, algo_u32 *shift)
{
	algo_u32 place;

	if (f.blocks) {
		place = h->b >> BLOOM_COUNTER_SHIFT;
		h->b *= BLOOM_MULTIPLY;
	} else {
		place = bloom_range(h->a, f.places);
		bloom_next(h, i);
	}
	*shift = (place & 7) << 2;
	return line + (place >> 3);
}

ALGO_INLINE algo_u32 counting_line(struct bloom f, struct bloom_hash h)
{
	return f.blocks ? bloom_line(f, h) : f.first;
}

/* counting_has is bloom_has for a counting filter. */
ALGO_INLINE algo_u32 counting_has(struct bloom f, struct bloom_hash h)
{
	algo_u32 i, shift, line = counting_line(f, h);

	for (i = 0; i < BLOOM_HASHES && i < f.hashes; i++) {
		algo_u32 at = counting_at(f, line, &h, i, &shift);

		if (!(algo_word(f.table, at) >> shift & 15))
			return 0;
	}
	return 1;
}

/* counting_change adds one to each counter of a key, or takes one from it when by is all ones; words are the table's,
 * to be written. */
ALGO_INLINE void counting_change(struct bloom f, algo_u32 *words, struct bloom_hash h, algo_u32 by)
{
	algo_u32 i, shift, line = counting_line(f, h);

	for (i = 0; i < BLOOM_HASHES && i < f.hashes; i++) {
		algo_u32 at = counting_at(f, line, &h, i, &shift) & f.table.mask;
		algo_u32 count = words[at] >> shift & 15;

		/* 15 stays; 0 has nothing to be taken: only in a broken image. */
		if (count == BLOOM_STUCK || (!count && by != 1))
			continue;
		words[at] += by << shift;
	}
}

ALGO_INLINE void counting_add(struct bloom f, algo_u32 *words, struct bloom_hash h)
{
	counting_change(f, words, h, 1);
}

/* counting_remove takes a key back that was added as often; it returns 0 and does nothing when it was certainly not. */
ALGO_INLINE algo_u32 counting_remove(struct bloom f, algo_u32 *words, struct bloom_hash h)
{
	if (!counting_has(f, h))
		return 0;
	counting_change(f, words, h, (algo_u32)-1);
	return 1;
}

#endif
