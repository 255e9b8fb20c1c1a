// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The forwarding information base: which next hop has the longest prefix that
// matches an address.
//
// Two entry points, one per family, each answering a 16-bit next-hop index;
// 0 means "no route here: the kernel decides". Each family has one image, an
// mmapable array of one value that internal/subsystem/fastpath/fib compiles from the
// routes and edits in place while packets flow. The loader sets the images'
// sizes and the constants below before it loads the program
// (fib.Layout says how): a small router needs a small image.
//
// IPv4 has several structures to choose from (see fib_range.h and
// fib_direct24.h). The choice is a constant, so the verifier drops the others.

#pragma once

#include "fib_range.h"

// Values of fib4_structure.
#define FIB4_RANGE 0
#define FIB4_DIRECT24 1

// Largest images; in 32-bit words, powers of two. 8 MiB and 16 MiB.
#define FIB4_WORDS (1 << 21)
#define FIB6_WORDS (1 << 22)

// Direct stages below the root of one 64-bit half of an IPv6 address, and of an IPv4 address.
#define FIB4_STAGES 3
#define FIB6_STAGES 8

// Bits of the IPv6 address that index the root.
#define FIB6_ROOT_BITS 16

// Bits of a next hop in a leaf of 32-bit entries.
#define FIB4_HOP_BITS 16
#define FIB6_HOP_BITS 12

#ifndef FIB_CONSTANT // else compiled natively: algo/fib_native.h
#define FIB_CONSTANT const volatile

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, FIB4_WORDS * 4 + FIB_SLACK);
	__uint(max_entries, 1);
} fib4_image SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, FIB6_WORDS * 4 + FIB_SLACK);
	__uint(max_entries, 1);
} fib6_image SEC(".maps");
#endif

FIB_CONSTANT __u32 fib4_structure = FIB4_RANGE;
FIB_CONSTANT __u32 fib4_root_bits = 18;       // bits of the address that index the root
FIB_CONSTANT __u32 fib4_mask = FIB4_WORDS - 1; // words in the image, minus 1
FIB_CONSTANT __u32 fib6_mask = FIB6_WORDS - 1;

#include "fib_direct24.h"

// The word after the root holds the default route's next hop: a change of the
// default route touches nothing else.

static __always_inline __u32 fib4_range_lookup(const __u32 *image, __u32 dst)
{
	__u32 root = fib4_root_bits, mask = fib4_mask;
	__u32 desc = image[(dst >> (32 - root)) & mask];
	__u32 key = dst << root;

	for (int i = 0; i < FIB4_STAGES && FIB_KIND(desc) == FIB_DIRECT; i++) {
		__u32 stride = FIB_SIZE(desc) & 31;

		desc = image[(FIB_WORD(desc) + (key >> (32 - stride))) & mask];
		key <<= stride;
	}
	__u32 hop = desc & 0xffff;

	if (FIB_KIND(desc) == FIB_LEAF32)
		hop = fib_leaf32(image, mask, desc, key, FIB4_HOP_BITS);
	else if (desc >= FIB_ASK)
		return 0;
	if (!hop)
		hop = image[(1 << root) & mask];
	return hop;
}

// fib4_lookup answers the next-hop index of an IPv4 destination (host byte
// order), or 0 when the kernel must decide.
static __always_inline __u32 fib4_lookup(__u32 dst)
{
	__u32 zero = 0;
	const __u32 *image = bpf_map_lookup_elem(&fib4_image, &zero);

	if (!image)
		return 0;
	if (fib4_structure == FIB4_DIRECT24)
		return fib4_direct24_lookup((const __u16 *)image, dst);
	return fib4_range_lookup(image, dst);
}

// fib_stages follows direct stages and shifts the bits that they use out of the key.
static __always_inline __u32 fib_stages(const __u32 *image, __u32 mask, __u32 desc, __u64 *key)
{
	for (int i = 0; i < FIB6_STAGES && FIB_KIND(desc) == FIB_DIRECT; i++) {
		__u32 stride = FIB_SIZE(desc) & 31;

		desc = image[(FIB_WORD(desc) + (__u32)(*key >> (64 - stride))) & mask];
		*key <<= stride;
	}
	return desc;
}

// What is left of the first half of an IPv6 address behind the root.
#define FIB6_REST ((1ULL << (64 - FIB6_ROOT_BITS)) - 1)

// fib6_stage follows a direct stage of so many bits. key has FIB6_REST bits.
static __always_inline __u32 fib6_stage(const __u32 *image, __u32 mask, __u32 desc, __u32 stride, __u64 *key)
{
	__u64 next = *key << stride;

	*key = next & FIB6_REST;
	return *fib_at(image, mask, desc, next >> (64 - FIB6_ROOT_BITS));
}

// fib6_perhaps follows a direct stage, or stays where it is (and loads the beginning of a leaf
// there); without a branch: whether there is a second stage is a coin toss.
static __always_inline __u32 fib6_perhaps(const __u32 *image, __u32 mask, __u32 desc, __u64 *key)
{
	__u32 is_stage = (__s32)desc >> 31;

	asm volatile("" : "+r"(is_stage)); // as fib_opaque, in 32 bits

	__u32 below = fib6_stage(image, mask, desc, FIB_SIZE(desc) & 31 & is_stage, key);

	return (desc & ~is_stage) | (below & is_stage);
}

// fib6_rare finds the next hop or FIB_ASK of what is neither a next hop nor a small leaf. key
// is left-aligned.
static __always_inline __u32 fib6_rare(const __u32 *image, __u32 mask, __u32 desc, __u64 key, __u64 lo)
{
	if (FIB_KIND(desc) == FIB_LEAF_DEEP) {
		desc = fib_leaf_deep(image, mask, desc, key);
		key = lo;
		desc = fib_stages(image, mask, desc, &key);
		if (FIB_KIND(desc) == FIB_LEAF_DEEP)
			desc = fib_leaf_deep(image, mask, desc, key);
	}
	if (FIB_KIND(desc) == FIB_LEAF64)
		return fib_leaf64((const __u64 *)image, mask, desc, key);
	if (FIB_KIND(desc) == FIB_LEAF32)
		return fib_leaf32(image, mask, desc, key >> 32, FIB6_HOP_BITS);
	return desc < FIB_ASK ? desc : FIB_ASK;
}

// fib6_lookup answers the next-hop index of an IPv6 destination, given as its
// two halves in host byte order, or 0 when the kernel must decide. The second
// half is only looked at when a prefix longer than /64 lives there.
static __always_inline __u32 fib6_lookup(__u64 hi, __u64 lo)
{
	__u32 zero = 0;
	const __u32 *image = bpf_map_lookup_elem(&fib6_image, &zero);

	if (!image)
		return 0;

	__u32 mask = fib6_mask;
	__u32 desc = image[hi >> (64 - FIB6_ROOT_BITS)];
	__u64 key = hi & FIB6_REST;
	__u32 hop;

	if (FIB_KIND(desc) == FIB_DIRECT) {
		desc = fib6_stage(image, mask, desc, FIB_SIZE(desc) & 31, &key);
		desc = fib6_perhaps(image, mask, desc, &key);
	}
	key <<= FIB6_ROOT_BITS;
	if (FIB_KIND(desc) == FIB_DIRECT)
		desc = fib_stages(image, mask, desc, &key);
	if (FIB_SMALL(desc)) {
		// A next hop or a leaf, told apart without a branch.
		__u64 is_hop = fib_opaque((__s64)((__u64)FIB_KIND(desc) - 1) >> 63);

		hop = fib_small32(image, mask, desc, key >> 32, FIB6_HOP_BITS);
		hop ^= (hop ^ desc) & is_hop;
	} else {
		hop = fib6_rare(image, mask, desc, key, lo);
	}
	if (!hop)
		hop = image[1 << FIB6_ROOT_BITS];
	return hop & 0xffff; // 0 of FIB_ASK
}
