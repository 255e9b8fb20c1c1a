// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What the flow table is measured against: the kernel's own hash maps with the same
// keys, other hash functions, and other shapes of the table.
#ifndef MINNE_FLOWBENCH_RIVALS_H
#define MINNE_FLOWBENCH_RIVALS_H

#include "flow.h"

#define RIVAL_HASH 0         // BPF_MAP_TYPE_HASH, preallocated, as a router would use it
#define RIVAL_LRU 1          // BPF_MAP_TYPE_LRU_HASH
#define RIVAL_SIPHASH 2      // SipHash-1-3 of the key, nothing else
#define RIVAL_HALFSIPHASH 3  // HalfSipHash-1-3
#define RIVAL_FILL_HASH 4    // insert into the maps
#define RIVAL_FILL_LRU 5
#define RIVAL_CHAIN 6        // a head for every flow, and entries chained by hash; one direction only
#define RIVAL_FILL_CHAIN 7
#define RIVAL_KNOWN 8        // nobody's: the flow's number is known, its side is compared and nothing else

// A value as large as what a side holds beside its key.
struct rival_value {
	__u64 packets, bytes, life;
};

#define RIVAL_ENTRIES 2 // the loader sets the size

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RIVAL_ENTRIES);
	__type(key, struct flow_key);
	__type(value, struct rival_value);
} rival_hash SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RIVAL_ENTRIES);
	__type(key, struct flow_key);
	__type(value, struct rival_value);
} rival_lru SEC(".maps");

// The chained table: a head for every flow, and entries of a line each.
struct rival_entry {
	struct flow_key key;
	__u64 hash;
	__u32 next;
	__u32 number;
	__u64 packets;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RIVAL_ENTRIES);
	__type(key, __u32);
	__type(value, __u32);
} rival_heads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RIVAL_ENTRIES);
	__type(key, __u32);
	__type(value, struct rival_entry);
} rival_chain SEC(".maps");

const volatile __u32 rival_mask = RIVAL_ENTRIES - 1;

static __always_inline __u64 rotate64(__u64 x, int bits) { return x << bits | x >> (64 - bits); }
static __always_inline __u32 rotate32(__u32 x, int bits) { return x << bits | x >> (32 - bits); }

#define SIP_ROUND(rot, a, b, c, d, e, f)       \
	do {                                   \
		v0 += v1;                      \
		v1 = rot(v1, a) ^ v0;          \
		v0 = rot(v0, b);               \
		v2 += v3;                      \
		v3 = rot(v3, c) ^ v2;          \
		v0 += v3;                      \
		v3 = rot(v3, d) ^ v0;          \
		v2 += v1;                      \
		v1 = rot(v1, e) ^ v2;          \
		v2 = rot(v2, f);               \
	} while (0)

static __always_inline __u32 rival_siphash(const struct flow_secret *s, const struct flow_key *key)
{
	const __u64 *word = (const __u64 *)key;
	__u64 v0 = 0x736f6d6570736575ULL ^ s->multiplier[0], v1 = 0x646f72616e646f6dULL ^ s->multiplier[1];
	__u64 v2 = 0x6c7967656e657261ULL ^ s->multiplier[0], v3 = 0x7465646279746573ULL ^ s->multiplier[1];

	#pragma unroll
	for (int i = 0; i <= 5; i++) {
		__u64 m = i < 5 ? word[i] : 40ULL << 56;
		v3 ^= m;
		SIP_ROUND(rotate64, 13, 32, 16, 21, 17, 32);
		v0 ^= m;
	}
	v2 ^= 0xff;
	#pragma unroll
	for (int i = 0; i < 3; i++)
		SIP_ROUND(rotate64, 13, 32, 16, 21, 17, 32);
	return v0 ^ v1 ^ v2 ^ v3;
}

static __always_inline __u32 rival_halfsiphash(const struct flow_secret *s, const struct flow_key *key)
{
	const __u32 *word = (const __u32 *)key;
	__u32 v0 = s->half[0], v1 = s->half[1], v2 = 0x6c796765 ^ s->half[0], v3 = 0x74656462 ^ s->half[1];

	#pragma unroll
	for (int i = 0; i <= 10; i++) {
		__u32 m = i < 10 ? word[i] : 40U << 24;
		v3 ^= m;
		SIP_ROUND(rotate32, 5, 16, 8, 7, 13, 16);
		v0 ^= m;
	}
	v2 ^= 0xff;
	#pragma unroll
	for (int i = 0; i < 3; i++)
		SIP_ROUND(rotate32, 5, 16, 8, 7, 13, 16);
	return v1 ^ v3;
}

static __always_inline __u32 rival_chain_find(__u64 hash, const struct flow_key *key)
{
	__u32 at = hash & rival_mask;
	__u32 *head = bpf_map_lookup_elem(&rival_heads, &at);

	if (!head)
		return 0;

	__u32 next = *head;

	for (int i = 0; i < 16 && next; i++) {
		struct rival_entry *e = bpf_map_lookup_elem(&rival_chain, &next);
		if (!e)
			return 0;
		if (e->hash == hash && flow_same(&e->key, key))
			return e->number;
		next = e->next;
	}
	return 0;
}

static __always_inline __u32 rival_chain_fill(__u64 hash, const struct flow_key *key, __u32 number)
{
	__u32 at = hash & rival_mask;
	__u32 *head = bpf_map_lookup_elem(&rival_heads, &at);
	struct rival_entry *e = bpf_map_lookup_elem(&rival_chain, &number);

	if (!head || !e)
		return 0;
	e->key = *key;
	e->hash = hash;
	e->number = number;
	e->next = *head;
	*head = number;
	return number;
}

static __always_inline __u32 rival(__u32 which, struct flow_key *key, __u32 i, __u32 number)
{
	struct flow_control *c = flow_controls();
	struct rival_value *v, fresh = {};
	struct flow_side *side;

	if (!c)
		return 0;
	switch (which) {
	case RIVAL_HASH:
		v = bpf_map_lookup_elem(&rival_hash, key);
		return v ? v->life : 0;
	case RIVAL_LRU:
		v = bpf_map_lookup_elem(&rival_lru, key);
		return v ? v->life : 0;
	case RIVAL_FILL_HASH:
		fresh.life = i + 1;
		return bpf_map_update_elem(&rival_hash, key, &fresh, BPF_ANY) == 0;
	case RIVAL_FILL_LRU:
		fresh.life = i + 1;
		return bpf_map_update_elem(&rival_lru, key, &fresh, BPF_ANY) == 0;
	case RIVAL_SIPHASH:
		return rival_siphash(&c->secret, key);
	case RIVAL_HALFSIPHASH:
		return rival_halfsiphash(&c->secret, key);
	case RIVAL_CHAIN:
		return rival_chain_find(flow_hash(&c->secret, key), key);
	case RIVAL_FILL_CHAIN:
		return rival_chain_fill(flow_hash(&c->secret, key), key, i + 1);
	case RIVAL_KNOWN:
		side = flow_side(number);
		return side && flow_same(&side->key, key) ? number : 0;
	}
	return 0;
}

#endif
