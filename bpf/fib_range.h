// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The pieces that the FIB structures share: descriptors, direct stages and
// sorted leaves. internal/fastpath/fib writes them; its doc.go has the whole
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
//	kind 1  leaf of 32-bit entries: start (16 bits) | next hop, size + 1 units
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

#define FIB_KIND(d) ((d) >> 29)
#define FIB_SIZE(d) ((d) >> 20 & 0x1ff)
#define FIB_WORD(d) (((d) & 0xfffff) << 2)

#define FIB_HOP 0
#define FIB_LEAF32 1
#define FIB_LEAF64 2
#define FIB_LEAF_DEEP 3
#define FIB_DIRECT 4

// At most 2048 entries in a leaf: 11 halvings.
#define FIB_STEPS 11

// Zero when a > b, all ones when a <= b; a and b below 2^63. No branch, so
// nothing to mispredict: which half a key falls into is a coin toss.
#define FIB_IF_LE(a, b) ((__u64)((__s64)((__u64)(a) - (__u64)(b) - 1) >> 63))

// fib_leaf32 returns the next hop that covers key, whose used bits are already
// shifted out (only the top 16 bits count).
static __always_inline __u32 fib_leaf32(const __u32 *image, __u32 mask, __u32 desc, __u32 key)
{
	__u32 bound = key | 0xffff;
	__u32 at = FIB_WORD(desc);
	__u32 n = (FIB_SIZE(desc) + 1) << 2;

	for (int i = 0; i < FIB_STEPS && n > 1; i++) {
		__u32 half = n >> 1;

		at += half & FIB_IF_LE(image[(at + half) & mask], bound);
		n -= half;
	}
	return image[at & mask] & 0xffff;
}

// fib_leaf64 is fib_leaf32 for 48-bit starts.
static __always_inline __u32 fib_leaf64(const __u64 *image, __u32 mask, __u32 desc, __u64 key)
{
	__u64 bound = key >> 16;
	__u32 at = FIB_WORD(desc) >> 1;
	__u32 n = (FIB_SIZE(desc) + 1) << 1;

	mask >>= 1;
	for (int i = 0; i < FIB_STEPS && n > 1; i++) {
		__u32 half = n >> 1;

		at += half & FIB_IF_LE(image[(at + half) & mask] >> 16, bound);
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
