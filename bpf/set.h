// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Sets of 100,000 addresses and prefixes and more: is an address in one of them?
//
// Up to SET_MAX sets share one image; the number of its set is part of what a member is.
//
// Nearly every packet's address is in none, so a Bloom filter answers first: one word
// of 64 bits for each bucket of a hash table, in which every member of the bucket
// has set four bits. Only when all four bits of an address are there is the
// bucket's list walked, so what the filter says by mistake costs time and nothing
// else. Prefixes are asked for by length, each length that the set has, so they may
// lie inside each other.
//
// internal/subsystem/fastpath/addrset writes the image, an mmapable array of one value, while
// packets flow: a member is written before a list refers to it, its bits before that,
// and the memory of one that has left is used again only after a grace period.
//
// Every access behind the header is masked with the size of the image. What is asked is global
// functions: the verifier reads each once, however many places ask.

#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define SET_MAX 8 // sets, a power of two

// Size of an image, unless the loader says another; in 32-bit words, a power of two.
#define SET_WORDS (1 << 11)
#define SET_SLACK 32

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, 4);
	__uint(value_size, SET_WORDS * 4 + SET_SLACK);
	__uint(max_entries, 1);
} set_image SEC(".maps");

const volatile __u32 set_mask = SET_WORDS - 1; // words in the image, minus 1
const volatile __u32 set_shift = 58;           // 64 minus the bits that number a bucket

// Places, in words.
#define SET_SECRET 0   // two odd numbers of 64 bits
#define SET_FIRST 16   // what each set has for itself; the sets are SET_STRIDE apart
#define SET_BLOOM 1552 // behind the last set, a word of 64 bits for each bucket; then the lists' heads

// Words of each set.
#define SET_STRIDE 192
#define SET_COUNT4 0 // slots of the lists of lengths
#define SET_COUNT6 1
#define SET_LENGTHS4 2 // each a prefix length plus 1, or 0
#define SET_LENGTHS6 35

#define SET_MAX_LENGTHS4 33
#define SET_MAX_LENGTHS6 129
#define SET_CHAIN 64 // members of a list that are looked at; the writer adds no more

// What a member is: its prefix length, of IPv4 plus SET_IPV4, and its set's number times SET_KIND.
#define SET_IPV4 256
#define SET_KIND 512

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

// set_walk looks for a member in its bucket's list.
__noinline int set_walk(__u32 bucket, __u64 hi, __u64 lo, __u32 kind)
{
	__u32 zero = 0;
	const char *image = bpf_map_lookup_elem(&set_image, &zero);

	if (!image)
		return 0;

	__u32 at = *(const __u32 *)set_at(image, SET_BLOOM + (2U << (64 - set_shift & 31)) + bucket);

	for (int i = 0; i < SET_CHAIN && at; i++) {
		const struct set_member *m = set_at(image, at & ~1);

		if (m->hi == hi && m->lo == lo && m->kind == kind)
			return 1;
		at = m->next;
	}
	return 0;
}

// set_member_of tells whether exactly this prefix is a member.
static __always_inline int set_member_of(const char *image, __u64 hi, __u64 lo, __u32 kind)
{
	__u64 h = set_hash((const __u64 *)image, hi, lo, kind);
	__u32 bucket = h >> (set_shift & 63);
	__u64 bits = set_bits(h);
	const __u64 *bloom = set_at(image, SET_BLOOM + bucket * 2);

	if ((*bloom & bits) != bits)
		return 0;
	return set_walk(bucket, hi, lo, kind);
}

// set_has4 tells whether an IPv4 address (host byte order) is in a set.
__noinline int set_has4(__u32 set, __u32 address)
{
	__u32 zero = 0;
	const char *image = bpf_map_lookup_elem(&set_image, &zero);

	if (!image)
		return 0;
	set &= SET_MAX - 1;

	const __u32 *own = (const __u32 *)image + SET_FIRST + set * SET_STRIDE;
	__u32 count = own[SET_COUNT4];

	for (__u32 i = 0; i < SET_MAX_LENGTHS4 && i < count; i++) {
		__u32 length = own[SET_LENGTHS4 + i];

		if (!length--)
			continue;

		__u64 hi = ((__u64)address << 32) & (__u64)(0xffffffff00000000ULL << (32 - (length & 63)));

		if (set_member_of(image, hi, 0, set * SET_KIND + SET_IPV4 + length))
			return 1;
	}
	return 0;
}

// set_has6 tells whether an IPv6 address, given as its two halves in host byte order, is in a set.
__noinline int set_has6(__u32 set, __u64 hi, __u64 lo)
{
	__u32 zero = 0;
	const char *image = bpf_map_lookup_elem(&set_image, &zero);

	if (!image)
		return 0;
	set &= SET_MAX - 1;

	const __u32 *own = (const __u32 *)image + SET_FIRST + set * SET_STRIDE;
	__u32 count = own[SET_COUNT6];

	for (__u32 i = 0; i < SET_MAX_LENGTHS6 && i < count; i++) {
		__u32 length = own[SET_LENGTHS6 + i];
		__u64 first = hi, second = 0;

		if (!length--)
			continue;
		if (length == 0)
			first = 0;
		else if (length <= 64)
			first &= ~0ULL << (64 - (length & 127) & 63);
		else
			second = lo & ~0ULL << (128 - (length & 255) & 63);
		if (set_member_of(image, first, second, set * SET_KIND + length))
			return 1;
	}
	return 0;
}
