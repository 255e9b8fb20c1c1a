// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The pieces that the FIB structures share: descriptors, direct stages and
// sorted leaves. internal/subsystem/fastpath/fib writes them; its package comment has the whole
// story. Here is what a reader of the image must know.
//
// The image is an array of 32-bit words in the CPU's byte order. A descriptor
// says what a block of addresses is worth:
//
//	31    29 28         20 19                0
//	+-------+-------------+------------------+
//	| kind  | size        | offset           |    offset in units of 16 bytes
//	+-------+-------------+------------------+
//
//	kind 0  next hop: the low 16 bits are its index. A descriptor of 0 means
//	        "no route but perhaps the default"; 1<<16 means "ask the kernel"
//	kind 1  leaf of 32-bit entries, size + 1 units: start | next hop, of 16 bits
//	        each for IPv4, 20 and 12 for IPv6 (larger next hops take kind 2)
//	kind 2  leaf of 64-bit entries: start (48 bits) | next hop, size + 1 units
//	kind 3  leaf of 64-bit starts and then 32-bit descriptors, size + 1 groups
//	        of 4 ranges (3 units each)
//	kind 4  direct stage: the next `size` bits of the key pick a descriptor
//
// Starts count from the first bit that the stages above have not used. They
// ascend, the first is 0, and the answer is the last one that is not above
// the key. The writer publishes a block by one aligned store of its descriptor
// and reuses memory after an RCU grace period, so a reader never waits.
//
// Every access is masked with the size of the image: the verifier needs the
// proof, and even a corrupt image can't lead outside it.

#pragma once

// Bytes behind an image, so that a small leaf may be read whole wherever a
// corrupt descriptor says that it begins.
#define FIB_SLACK 256

#define FIB_KIND(d) ((d) >> 29)
#define FIB_SIZE(d) ((d) >> 20 & 0x1ff)
#define FIB_WORD(d) (((d) & 0xfffff) << 2)

#define FIB_HOP 0
#define FIB_LEAF32 1
#define FIB_LEAF64 2
#define FIB_LEAF_DEEP 3
#define FIB_DIRECT 4

// The next-hop descriptor of addresses that the kernel decides on.
#define FIB_ASK (1 << 16)

// Whether desc is a next hop or a leaf32 of at most 4 units.
#define FIB_SMALL(d) (!((d) >> 20 & ~(FIB_LEAF32 << 9 | 3)))

// At most 2048 entries in a leaf: 11 halvings.
#define FIB_STEPS 11

// fib_opaque hides a value from the compiler, which would make a branch of a
// selection by arithmetic. Which way a key goes is a coin toss that no branch
// predictor wins, and a lost one costs as much as a cache miss.
static __always_inline __u64 fib_opaque(__u64 v)
{
	asm volatile("" : "+r"(v));
	return v;
}

// fib_below is 1 when a < b and 0 when not; a and b below 2^63.
static __always_inline __u64 fib_below(__u64 a, __u64 b)
{
	return fib_opaque(a - b) >> 63;
}

// fib_quarter is how many of the starts at p[step], p[2 * step] and p[3 * step]
// are below `above`, looking at the first `more` of them only. Their loads
// overlap; those of a binary search would wait for each other.
static __always_inline __u64 fib_quarter(const __u32 *p, __u32 step, __u64 more, __u64 above)
{
	__u64 n = (fib_opaque(p[step] - above) & (0 - more)) >> 63;

	n += (fib_opaque(p[2 * step] - above) & (1 - more)) >> 63;
	n += (fib_opaque(p[3 * step] - above) & (2 - more)) >> 63;
	return n;
}

// fib_at is the address of word `at` of what a descriptor refers to. The mask takes off kind and
// size as well: this is on every lookup's critical path.
static __always_inline const __u32 *fib_at(const __u32 *image, __u32 mask, __u32 desc, __u64 at)
{
	return (const __u32 *)((const char *)image + (((__u64)(desc << 4) + (at << 2)) & (__u64)mask << 2));
}

// fib_small32 is fib_leaf32 for a leaf of at most 16 ranges, without a branch.
static __always_inline __u32 fib_small32(const __u32 *image, __u32 mask, __u32 desc, __u32 key, __u32 hop_bits)
{
	__u64 above = (__u64)(key | ((1 << hop_bits) - 1)) + 1;
	const __u32 *p = fib_at(image, mask, desc, 0);
	__u64 more = FIB_SIZE(desc) & 3; // units of 4 ranges behind the first
	__u64 n;

	p += fib_quarter(p, 4, more, above) << 2;
	n = fib_below(p[1], above) + fib_below(p[2], above) + fib_below(p[3], above);
	return p[n] & ((1 << hop_bits) - 1);
}

// fib_leaf32 returns the next hop that covers key, whose used bits are already
// shifted out. An entry's low hop_bits are its next hop, the others its start.
static __always_inline __u32 fib_leaf32(const __u32 *image, __u32 mask, __u32 desc, __u32 key, __u32 hop_bits)
{
	__u64 above = (__u64)(key | ((1 << hop_bits) - 1)) + 1;
	__u32 at = FIB_WORD(desc);
	__u32 n = (FIB_SIZE(desc) + 1) << 2;

	for (int i = 0; i < FIB_STEPS && n > 1; i++) {
		__u32 half = n >> 1;

		at += half & -(__u32)fib_below(image[(at + half) & mask], above);
		n -= half;
	}
	return image[at & mask] & ((1 << hop_bits) - 1);
}

// fib_leaf64 is fib_leaf32 for 48-bit starts.
static __always_inline __u32 fib_leaf64(const __u64 *image, __u32 mask, __u32 desc, __u64 key)
{
	__u64 above = (key >> 16) + 1;
	__u32 at = FIB_WORD(desc) >> 1;
	__u32 n = (FIB_SIZE(desc) + 1) << 1;

	mask >>= 1;
	for (int i = 0; i < FIB_STEPS && n > 1; i++) {
		__u32 half = n >> 1;

		at += half & -(__u32)fib_below(image[(at + half) & mask] >> 16, above);
		n -= half;
	}
	return image[at & mask] & 0xffff;
}

// fib_leaf_deep searches 64-bit starts and returns the descriptor beside the hit.
static __always_inline __u32 fib_leaf_deep(const __u32 *image, __u32 mask, __u32 desc, __u64 key)
{
	const __u64 *starts = (const __u64 *)image;
	__u32 ranges = (FIB_SIZE(desc) + 1) << 2;
	__u32 first = FIB_WORD(desc) >> 1;
	__u32 mask64 = mask >> 1;
	__u32 hit = 0, n = ranges;

	for (int i = 0; i < FIB_STEPS && n > 1; i++) {
		__u32 half = n >> 1;

		if (starts[(first + hit + half) & mask64] <= key)
			hit += half;
		n -= half;
	}
	return image[((first + ranges) * 2 + hit) & mask];
}
