// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The packet classifier: which rule of the policy comes first for a packet.
//
// internal/subsystem/fastpath/classify compiles the rules; its package comment has the whole story.
// The image is an mmapable array of one value that holds two buffers of 32-bit
// words in the CPU's byte order. classify_active says which one is in
// force: it is read once for a packet, so no packet meets a mix of two policies. The
// writer fills the other buffer while nobody can be reading it and then stores
// the new number.
//
// A lookup has three parts:
//
//   1. Each field becomes a class: addresses by a table of their first bits and
//      search trees behind it, ports by pages, the kind of packet by a table.
//   2. Two tables join the classes of kind and ports to a transport class.
//   3. Up to three graphs lead from the zone pair by the classes to a rule; the
//      first of their rules gives the verdict.
//
// Every access is masked with the size of a buffer: the verifier needs the proof,
// and even a corrupt image can't lead outside it.
//
// The loader sets the map's size and classify_mask (classify.Layout says how).

#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

// 32-bit words in a buffer, a power of two. 8 MiB.
#define CLASSIFY_WORDS (1 << 21)

// Bytes behind the buffers, so that a node may be read whole wherever it begins.
#define CLASSIFY_SLACK 64

// Bits of a key's kind above the protocol number.
#define CLASSIFY_SYN 0x100      // of TCP: SYN and neither ACK, FIN nor RST
#define CLASSIFY_FRAGMENT 0x200 // a fragment behind the first

// The key of a packet, in host byte order. An IPv4 address stands in the upper half of
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
#define CLASSIFY_HEAD_FAMILY 16
#define CLASSIFY_FAMILY_WORDS 16

#define CLASSIFY_FAMILY_SRC 0
#define CLASSIFY_FAMILY_DST 4
#define CLASSIFY_FAMILY_ZONES 8

#define CLASSIFY_FIELD_TABLE 0 // place of the table of the first word's first bits
#define CLASSIFY_FIELD_BITS 1  // how many bits
#define CLASSIFY_FIELD_DEEP 2  // place of the roots of second words' trees

// An entry of the table: the place of a tree's root, or a class, or the number of a tree of second words.
#define CLASSIFY_IS_TREE (1ULL << 31)
#define CLASSIFY_DEEP 0x8000
#define CLASSIFY_LEVELS 12

// References of graphs: kind, dimension, place in words; or a rule's number.
#define CLASSIFY_TABLE 1
#define CLASSIFY_RUNS 2
#define CLASSIFY_NO_RULE 0x3fffffff
#define CLASSIFY_STEPS 15

// A value in each of four lanes of 16 bits, of which values use 15.
#define CLASSIFY_LANES 0x0001000100010001ULL
#define CLASSIFY_TOPS 0x8000800080008000ULL

// classify_opaque hides a value from the compiler, which would make a branch of a selection by
// arithmetic; no predictor wins that one (as fib_opaque).
static __always_inline __u64 classify_opaque(__u64 v)
{
	asm volatile("" : "+r"(v));
	return v;
}

// A buffer, and its words minus 1.
struct classify_buffer {
	const char *at;
	__u64 mask;
};

// classify_at is the address of a word of the buffer.
static __always_inline const __u32 *classify_at(struct classify_buffer b, __u64 word)
{
	return (const __u32 *)(b.at + ((word & b.mask) << 2));
}

// classify_half is a 16-bit entry of the buffer.
static __always_inline __u64 classify_half(struct classify_buffer b, __u64 entry)
{
	return *(const __u16 *)(b.at + ((entry & (b.mask << 1 | 1)) << 1));
}

// classify_search finds the class of a word of an address in a search tree: three comparisons a level
// and no branch but the loop's. The starts have 63 bits: the sign of a difference is its bit 63.
static __always_inline __u64 classify_search(struct classify_buffer b, __u64 root, __u64 key)
{
	const __u32 *r = classify_at(b, root);
	__u64 nodes = r[0], values = r[1], levels = r[2], at = 0;

	for (__u32 i = 0; i < CLASSIFY_LEVELS && i < levels; i++) {
		const __u64 *starts = (const __u64 *)classify_at(b, (nodes + at) << 3);
		__u64 behind = classify_opaque(key - starts[0]) >> 63;

		behind += classify_opaque(key - starts[1]) >> 63;
		behind += classify_opaque(key - starts[2]) >> 63;
		at = at * 4 + 4 - behind;
	}
	return classify_half(b, values + at);
}

// classify_address is the class of an address, without its second word for IPv4.
static __always_inline __u64 classify_address(struct classify_buffer b, __u32 field, const __u64 *address, __u32 ipv6)
{
	__u32 width = *classify_at(b, field + CLASSIFY_FIELD_BITS) & 31;
	__u64 class = *classify_at(b, *classify_at(b, field + CLASSIFY_FIELD_TABLE) + (address[0] >> 1 >> (63 - width)));

	if (class & CLASSIFY_IS_TREE)
		class = classify_search(b, class & ~CLASSIFY_IS_TREE, address[0] << width >> width);
	if (ipv6 && class & CLASSIFY_DEEP) {
		__u64 roots = *classify_at(b, field + CLASSIFY_FIELD_DEEP);

		class = (class & ~CLASSIFY_DEEP) << 1 | address[1] >> 63;
		class = classify_search(b, roots + class * 4, address[1] << 1 >> 1);
	}
	return class;
}

static __always_inline __u64 classify_port(struct classify_buffer b, __u32 head, __u32 port)
{
	return classify_half(b, *classify_at(b, *classify_at(b, head) + (port >> 8)) + (port & 0xff));
}

static __always_inline __u64 classify_transport(struct classify_buffer b, const struct classify_key *k)
{
	__u32 from = classify_port(b, CLASSIFY_HEAD_SPORT, k->sport);
	__u32 to = classify_port(b, CLASSIFY_HEAD_DPORT, k->dport);
	__u32 kind = *classify_at(b, *classify_at(b, CLASSIFY_HEAD_KINDS) + k->kind);
	__u32 pair = *classify_at(b, *classify_at(b, CLASSIFY_HEAD_FIRST) + kind + from);

	return classify_half(b, *classify_at(b, CLASSIFY_HEAD_SECOND) * 2 + pair + to);
}

// classify_class is the class that a reference asks for.
static __always_inline __u64 classify_class(__u64 ref, __u64 classes)
{
	return classes >> (ref >> 24 & 0x30) & 0x7fff;
}

// classify_runs is the reference of the run that a class lies in. Starts are compared four at a
// time: the top bit of each lane stays where a start is not behind the class.
static __always_inline __u64 classify_runs(struct classify_buffer b, __u64 place, __u64 class)
{
	const __u32 *node = classify_at(b, place & 0xffffff8);
	const __u64 *starts = (const __u64 *)node;
	__u64 lanes = class * CLASSIFY_LANES | CLASSIFY_TOPS;
	__u64 n = ((lanes - starts[0]) >> 15 & CLASSIFY_LANES) + ((lanes - starts[1]) >> 15 & CLASSIFY_LANES);

	return node[4 + (n * CLASSIFY_LANES >> 48 & 7)];
}

// classify_walk follows references to a rule.
static __always_inline __u64 classify_walk(struct classify_buffer b, __u64 ref, __u64 classes)
{
	for (int i = 0; i < CLASSIFY_STEPS && ref >> 30; i++) {
		if (ref >> 30 == CLASSIFY_TABLE)
			ref = *classify_at(b, (ref & 0xfffffff) + classify_class(ref, classes));
		else
			ref = classify_runs(b, ref, classify_class(ref, classes));
	}
	return ref;
}

// classify_in is classify() in a buffer that has been chosen.
static __always_inline __u32 classify_in(struct classify_buffer b, const struct classify_key *k, __u32 ipv6)
{
	__u32 head = CLASSIFY_HEAD_FAMILY + (ipv6 ? CLASSIFY_FAMILY_WORDS : 0);
	__u64 classes = classify_address(b, head + CLASSIFY_FAMILY_SRC, k->src, ipv6) |
			classify_address(b, head + CLASSIFY_FAMILY_DST, k->dst, ipv6) << 16 |
			classify_transport(b, k) << 32;
	const __u32 *graphs = classify_at(b, *classify_at(b, head + CLASSIFY_FAMILY_ZONES) + k->zone * 4);
	__u64 first = CLASSIFY_NO_RULE;

	for (int i = 0; i < 3; i++) {
		__u64 ref = graphs[i];

		if (ref >> 30) // as good as always for a graph, or never
			ref = classify_walk(b, ref, classes);

		__u64 sooner = classify_opaque(0 - ((ref - first) >> 63));

		first ^= (first ^ ref) & sooner;
	}
	return *classify_at(b, *classify_at(b, CLASSIFY_HEAD_VERDICTS) + ((first + 1) & 0x3fffffff));
}

// classify returns the verdict on a packet; ipv6 is a constant. 0 when there is no image.
static __always_inline __u32 classify(const struct classify_key *k, __u32 ipv6)
{
	__u32 zero = 0;
	const char *image = bpf_map_lookup_elem(&classify_image, &zero);
	const volatile __u32 *active = bpf_map_lookup_elem(&classify_active, &zero);

	if (!image || !active)
		return 0;

	struct classify_buffer b = { .mask = classify_mask };

	b.at = image + (*active & 1) * ((b.mask + 1) << 2);
	return classify_in(b, k, ipv6);
}
