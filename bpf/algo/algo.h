/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What the algorithms of packet processing have in common: C99 that compiles
 * natively, for any CPU, and for eBPF.
 *
 * Each algorithm searches a table image: an array of 32-bit words in the CPU's byte
 * order, flat, with places told as numbers of words, so that it can be read from a file,
 * linked in or lie in an eBPF array. internal/subsystem/fastpath/tableimage writes it. Values narrower than a
 * word are packed by shifts, wider ones are two words, the upper half first; so a
 * table for a CPU of the other byte order is the same words, each turned round.
 *
 * Whatever the words say, a lookup ends and reads nothing outside the image: its
 * size is a power of two, every access is masked with it, and every loop is bounded by a
 * constant. That is also what eBPF's verifier wants to see. What a header can tell to be
 * broken is refused before (image.h, for native programs).
 */
#ifndef MINNE_ALGO_H
#define MINNE_ALGO_H

#ifdef __bpf__
#include <linux/types.h>
typedef __u8 algo_u8;
typedef __u16 algo_u16;
typedef __u32 algo_u32;
typedef __u64 algo_u64;
#else
#include <stdint.h>
typedef uint8_t algo_u8;
typedef uint16_t algo_u16;
typedef uint32_t algo_u32;
typedef uint64_t algo_u64;
#endif

#define ALGO_INLINE static inline __attribute__((always_inline, unused))

/* The header of an image, in words. */
#define ALGO_MAGIC 0x6d6e616cU /* word 0 */
#define ALGO_VERSION 1         /* word 2 */
#define ALGO_HEAD_MAGIC 0
#define ALGO_HEAD_KIND 1
#define ALGO_HEAD_VERSION 2
#define ALGO_HEAD_WORDS 3    /* of the whole image, a power of two */
#define ALGO_HEAD_USED 4     /* words from the beginning that mean something */
#define ALGO_HEAD_CHECKSUM 5 /* CRC-32C of the words from ALGO_HEAD_OWN up to those used, as little-endian bytes */
#define ALGO_HEAD_OWN 6      /* from here to ALGO_HEAD_END the kind's own */
#define ALGO_HEAD_END 32

enum algo_kind {
	ALGO_BLOOM = 1,
	ALGO_COUNTING_BLOOM = 2,
	ALGO_D2FA = 3,
	ALGO_HYBRID = 4,
	ALGO_TREE_BITMAP = 5,  /* both families; the header says which */
	ALGO_SHAPE_SHIFTING = 6,
};

/* A table as lookups use it. */
struct algo_table {
	const algo_u32 *words;
	algo_u32 mask; /* words of the image, minus 1 */
};

ALGO_INLINE algo_u32 algo_word(struct algo_table t, algo_u32 at)
{
	return t.words[at & t.mask];
}

/* algo_double is the 64-bit value that begins at a word. */
ALGO_INLINE algo_u64 algo_double(struct algo_table t, algo_u32 at)
{
	return (algo_u64)algo_word(t, at) << 32 | algo_word(t, at + 1);
}

/* algo_ones counts bits. Not every CPU has an instruction for it, and eBPF has none. */
ALGO_INLINE algo_u32 algo_ones(algo_u32 v)
{
	v = v - (v >> 1 & 0x55555555U);
	v = (v & 0x33333333U) + (v >> 2 & 0x33333333U);
	v = (v + (v >> 4)) & 0x0f0f0f0fU;
	return v * 0x01010101U >> 24;
}

/* algo_opaque hides a value from the compiler, which would make a branch of a selection by arithmetic. */
ALGO_INLINE algo_u64 algo_opaque(algo_u64 v)
{
	__asm__ volatile("" : "+r"(v));
	return v;
}

#endif
