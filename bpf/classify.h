// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The packet classifier: which rule of the policy comes first for a packet.
//
// internal/fastpath/classify compiles the rules; its doc.go has the whole story.
// The image is an mmapable array of one value that holds two buffers of 32-bit
// words in the CPU's byte order. classify_active says which one packets are judged
// by: it is read once for a packet, so no packet meets a mix of two policies. The
// writer fills the other buffer while nobody can be reading it and then stores
// the new number.
//
// A lookup has three parts:
//
//   1. Each field becomes a class: addresses and ports by trees of ranges, the kind
//      of packet by a table.
//   2. Two tables join the classes of kind and ports to a transport class.
//   3. Up to three graphs lead from the zone pair by the classes to a rule; the
//      first of their rules gives the verdict.
//
// Every access is masked with the size of a buffer: the verifier needs the proof,
// and even a corrupt image can't lead outside it.
//
// A program may set CLASSIFY_WORDS before it includes this; the loader sets the map's size and
// classify_mask (classify.Layout says how).

#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

// 32-bit words in a buffer, a power of two. 8 MiB.
#define CLASSIFY_WORDS (1 << 21)

// Bytes behind the buffers, so that a leaf or node may be read whole wherever it begins.
#define CLASSIFY_SLACK 64

// Bits of a key's kind above the protocol number.
#define CLASSIFY_SYN 0x100      // of TCP: SYN and neither ACK, FIN nor RST
#define CLASSIFY_FRAGMENT 0x200 // a fragment behind the first

// What a packet is judged by, in host byte order. An IPv4 address stands in the upper half of
// the first word.
struct classify_key {
	__u64 src[2];
	__u64 dst[2];
	__u16 sport;
	__u16 dport; // of ICMP: type << 8 | code
	__u16 kind;  // protocol number, or with CLASSIFY_SYN, or with CLASSIFY_FRAGMENT
	__u8 zone;   // pair
	__u8 ipv6;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, 2 * CLASSIFY_WORDS * 4 + CLASSIFY_SLACK);
	__uint(max_entries, 1);
} classify_image SEC(".maps");

// Number of the buffer, 0 or 1.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} classify_active SEC(".maps");

const volatile __u32 classify_mask = CLASSIFY_WORDS - 1; // words in a buffer, minus 1

// Words of the header.
#define CLASSIFY_HEAD_SPORT 0
#define CLASSIFY_HEAD_DPORT 1
#define CLASSIFY_HEAD_KINDS 2
#define CLASSIFY_HEAD_FIRST 3
#define CLASSIFY_HEAD_SECOND 4
#define CLASSIFY_HEAD_VERDICTS 5
#define CLASSIFY_HEAD_FAMILY 8
#define CLASSIFY_FAMILY_WORDS 8

#define CLASSIFY_FAMILY_SRC 0
#define CLASSIFY_FAMILY_DST 1
#define CLASSIFY_FAMILY_ZONES 2
#define CLASSIFY_FAMILY_DEEP 3

// Descriptors of trees: kind, width of a stage, place in units of 64 bytes.
#define CLASSIFY_KIND(d) ((d) >> 30)
#define CLASSIFY_LEAF 1
#define CLASSIFY_STAGE 2
#define CLASSIFY_UNIT(d) (((d) & 0xffffff) << 4)
#define CLASSIFY_STAGES 13
#define CLASSIFY_DEEP 0x8000

// References of graphs: kind, dimension, place in words; or a rule's number.
#define CLASSIFY_TABLE 1
#define CLASSIFY_RUNS 2
#define CLASSIFY_PLACE(r) ((r) & 0xfffffff)
#define CLASSIFY_NO_RULE 0x3fffffff
#define CLASSIFY_STEPS 15

// classify_opaque hides a value from the compiler, which would make a branch of a selection by
// arithmetic; no predictor wins that one (as fib_opaque).
static __always_inline __u64 classify_opaque(__u64 v)
{
	asm volatile("" : "+r"(v));
	return v;
}

// classify_at is the address of a word of the buffer.
static __always_inline const __u32 *classify_at(const char *buffer, __u32 word)
{
	return (const __u32 *)(buffer + ((__u64)(word & classify_mask) << 2));
}

// classify_leaf is the value of the last of up to seven ranges that does not start behind the key.
// The starts have 63 bits: the sign of a difference is its bit 63.
static __always_inline __u32 classify_leaf(const char *buffer, __u32 desc, __u64 key)
{
	const __u64 *starts = (const __u64 *)classify_at(buffer, CLASSIFY_UNIT(desc));
	__u64 behind = 0;

	key >>= 1;
	for (int i = 0; i < 6; i++)
		behind += classify_opaque(key - starts[i]) >> 63;
	return ((const __u16 *)(starts + 6))[behind & 7];
}

// classify_tree finds the class of a left-aligned key.
static __always_inline __u32 classify_tree(const char *buffer, __u32 desc, __u64 key)
{
	for (int i = 0; i < CLASSIFY_STAGES && CLASSIFY_KIND(desc) == CLASSIFY_STAGE; i++) {
		__u32 width = desc >> 24 & 31;

		desc = *classify_at(buffer, CLASSIFY_UNIT(desc) + (__u32)(key >> (64 - width)));
		key <<= width;
	}
	if (CLASSIFY_KIND(desc) == CLASSIFY_LEAF)
		return classify_leaf(buffer, desc, key);
	return desc & 0xffff;
}

static __always_inline __u64 classify_address(const char *buffer, __u32 head, __u32 field, const __u64 *address, __u32 ipv6)
{
	__u64 class = classify_tree(buffer, *classify_at(buffer, head + field), address[0]);

	if (ipv6 && class & CLASSIFY_DEEP) {
		__u32 roots = *classify_at(buffer, head + CLASSIFY_FAMILY_DEEP + field);

		class = classify_tree(buffer, *classify_at(buffer, roots + (class & ~CLASSIFY_DEEP)), address[1]);
	}
	return class;
}

static __always_inline __u64 classify_transport(const char *buffer, const struct classify_key *k)
{
	__u32 from = classify_tree(buffer, *classify_at(buffer, CLASSIFY_HEAD_SPORT), (__u64)k->sport << 48);
	__u32 to = classify_tree(buffer, *classify_at(buffer, CLASSIFY_HEAD_DPORT), (__u64)k->dport << 48);
	__u32 kind = *classify_at(buffer, *classify_at(buffer, CLASSIFY_HEAD_KINDS) + k->kind);
	__u32 pair = *classify_at(buffer, *classify_at(buffer, CLASSIFY_HEAD_FIRST) + kind + from) + to;
	const __u32 *two = classify_at(buffer, *classify_at(buffer, CLASSIFY_HEAD_SECOND) + (pair >> 1));

	return ((const __u16 *)two)[pair & 1];
}

// classify_runs is the reference of the run that a class lies in.
static __always_inline __u32 classify_runs(const char *buffer, __u32 ref, __u64 class)
{
	const __u32 *node = classify_at(buffer, CLASSIFY_PLACE(ref));
	const __u16 *starts = (const __u16 *)node;
	__u64 behind = 0;

	for (int i = 0; i < 7; i++)
		behind += classify_opaque(class - starts[i]) >> 63;
	return node[4 + (behind & 7)];
}

// classify_walk follows references to a rule.
static __always_inline __u32 classify_walk(const char *buffer, __u32 ref, __u64 classes)
{
	for (int i = 0; i < CLASSIFY_STEPS && ref >> 30; i++) {
		__u64 class = classes >> (ref >> 24 & 0x30) & 0xffff;

		if (ref >> 30 == CLASSIFY_TABLE)
			ref = *classify_at(buffer, CLASSIFY_PLACE(ref) + class);
		else
			ref = classify_runs(buffer, ref, class);
	}
	return ref;
}

// classify_in is classify() in a buffer that has been chosen.
static __always_inline __u32 classify_in(const char *buffer, const struct classify_key *k, __u32 ipv6)
{
	__u32 head = CLASSIFY_HEAD_FAMILY + (ipv6 ? CLASSIFY_FAMILY_WORDS : 0);
	__u64 classes = classify_address(buffer, head, CLASSIFY_FAMILY_SRC, k->src, ipv6) |
			classify_address(buffer, head, CLASSIFY_FAMILY_DST, k->dst, ipv6) << 16 |
			classify_transport(buffer, k) << 32;
	const __u32 *graphs = classify_at(buffer, *classify_at(buffer, head + CLASSIFY_FAMILY_ZONES) + k->zone * 4);
	__u32 first = CLASSIFY_NO_RULE;

	for (int i = 0; i < 3; i++) {
		__u32 rule = classify_walk(buffer, graphs[i], classes);

		first = rule < first ? rule : first;
	}
	return *classify_at(buffer, *classify_at(buffer, CLASSIFY_HEAD_VERDICTS) + (first + 1 & 0x3fffffff));
}

// classify returns the verdict on a packet; ipv6 is a constant. 0 when there is no image.
static __always_inline __u32 classify(const struct classify_key *k, __u32 ipv6)
{
	__u32 zero = 0;
	const char *buffer = bpf_map_lookup_elem(&classify_image, &zero);
	const volatile __u32 *active = bpf_map_lookup_elem(&classify_active, &zero);

	if (!buffer || !active)
		return 0;
	buffer += (__u64)(*active & 1) * (((__u64)classify_mask + 1) << 2);
	return classify_in(buffer, k, ipv6);
}
