// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A set of 100,000 addresses and prefixes and more: is an address in it?
//
// Nearly every packet's address is not, so a Bloom filter answers first: one word
// of 64 bits for each bucket of a hash table, in which every member of the bucket
// has set four bits. Only when all four bits of an address are there is the
// bucket's list walked, so what the filter says by mistake costs time and nothing
// else. Prefixes are asked for by length, each length that the set has.
//
// internal/fastpath/addrset writes the image, an mmapable array of one value, while
// packets flow: a member is written before a list refers to it, its bits before that,
// and the memory of one that has left is used again only after a grace period.
//
// Every access is masked with the size of the image.

#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

// Largest image; in 32-bit words, a power of two. 4 MiB.
#define SET_WORDS (1 << 20)
#define SET_SLACK 32

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, SET_WORDS * 4 + SET_SLACK);
	__uint(max_entries, 1);
} set_image SEC(".maps");

const volatile __u32 set_mask = SET_WORDS - 1; // words in the image, minus 1

// Words of the header.
#define SET_SECRET 0   // two odd numbers of 64 bits
#define SET_SHIFT 4    // 64 minus the bits that number a bucket
#define SET_BLOOM 5    // places, in words
#define SET_HEADS 6
#define SET_COUNT4 7   // slots of the lists of lengths
#define SET_COUNT6 8
#define SET_LENGTHS4 16  // each a prefix length plus 1, or 0
#define SET_LENGTHS6 64

#define SET_MAX_LENGTHS4 33
#define SET_MAX_LENGTHS6 129
#define SET_CHAIN 64 // members of a list that are looked at; the writer adds no more

// What a member is: its prefix length, of IPv4 plus this.
#define SET_IPV4 256

// A member; next is the place of another, in words, or 0. An IPv4 address stands in the upper half
// of hi. Unused bits are 0.
struct set_member {
	__u64 hi, lo;
	__u32 kind;
	__u32 next;
};

static __always_inline const void *set_at(const char *image, __u32 word)
{
	return image + ((__u64)(word & set_mask) << 2);
}

static __always_inline __u64 set_hash(const __u64 *secret, __u64 hi, __u64 lo, __u32 kind)
{
	__u64 h = (hi ^ (__u64)kind << 17) * secret[0];

	h ^= h >> 32;
	h = (h ^ lo) * secret[1];
	h ^= h >> 29;
	return h * secret[0];
}

// set_bits are the four bits of a hash; their numbers are bits 8 to 31 of it.
static __always_inline __u64 set_bits(__u64 h)
{
	return 1ULL << (h >> 8 & 63) | 1ULL << (h >> 14 & 63) | 1ULL << (h >> 20 & 63) | 1ULL << (h >> 26 & 63);
}

// set_walk looks for a member in its bucket's list. A global function: the verifier reads it once,
// not once for every prefix length.
__noinline int set_walk(__u32 bucket, __u64 hi, __u64 lo, __u32 kind)
{
	__u32 zero = 0;
	const char *image = bpf_map_lookup_elem(&set_image, &zero);

	if (!image)
		return 0;

	__u32 at = *(const __u32 *)set_at(image, *(const __u32 *)set_at(image, SET_HEADS) + bucket);

	for (int i = 0; i < SET_CHAIN && at; i++) {
		const struct set_member *m = set_at(image, at & ~1);

		if (m->hi == hi && m->lo == lo && m->kind == kind)
			return 1;
		at = m->next;
	}
	return 0;
}

// set_member_of tells whether exactly this prefix is in the set.
static __always_inline int set_member_of(const char *image, __u64 hi, __u64 lo, __u32 kind)
{
	__u64 h = set_hash((const __u64 *)image, hi, lo, kind);
	__u32 bucket = h >> (*(const __u32 *)set_at(image, SET_SHIFT) & 63);
	__u64 bits = set_bits(h);
	const __u64 *bloom = set_at(image, (*(const __u32 *)set_at(image, SET_BLOOM) + bucket * 2) & ~1);

	if ((*bloom & bits) != bits)
		return 0;
	return set_walk(bucket, hi, lo, kind);
}

// set_has4 tells whether an IPv4 address (host byte order) is in the set.
static __always_inline int set_has4(__u32 address)
{
	__u32 zero = 0;
	const char *image = bpf_map_lookup_elem(&set_image, &zero);

	if (!image)
		return 0;

	__u32 count = *(const __u32 *)set_at(image, SET_COUNT4);

	for (__u32 i = 0; i < SET_MAX_LENGTHS4 && i < count; i++) {
		__u32 length = *(const __u32 *)set_at(image, SET_LENGTHS4 + i);

		if (!length--)
			continue;

		__u64 hi = ((__u64)address << 32) & (__u64)(0xffffffff00000000ULL << (32 - (length & 63)));

		if (set_member_of(image, hi, 0, SET_IPV4 + length))
			return 1;
	}
	return 0;
}

// set_has6 tells whether an IPv6 address, given as its two halves in host byte order, is in the set.
static __always_inline int set_has6(__u64 hi, __u64 lo)
{
	__u32 zero = 0;
	const char *image = bpf_map_lookup_elem(&set_image, &zero);

	if (!image)
		return 0;

	__u32 count = *(const __u32 *)set_at(image, SET_COUNT6);

	for (__u32 i = 0; i < SET_MAX_LENGTHS6 && i < count; i++) {
		__u32 length = *(const __u32 *)set_at(image, SET_LENGTHS6 + i);
		__u64 first = hi, second = 0;

		if (!length--)
			continue;
		if (length == 0)
			first = 0;
		else if (length <= 64)
			first &= ~0ULL << (64 - (length & 127) & 63);
		else
			second = lo & ~0ULL << (128 - (length & 255) & 63);
		if (set_member_of(image, first, second, length))
			return 1;
	}
	return 0;
}
