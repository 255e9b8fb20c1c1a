// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The keyed hash of the flow table. Senders choose addresses and ports, so whoever
// could foretell a hash could fill one bucket. The key is random, made when the
// table is made, and known to root only.
//
// NH (Black, Halevi, Krawczyk, Krovetz, Rogaway: UMAC, CRYPTO '99) over the ten
// 32-bit halves of a flow's key: a sum of products of keyed halves. For any two
// keys chosen without knowledge of the secret, the 64-bit sums agree with
// probability 2^-32 at most. Source and destination are multiplied with each
// other, so that for neither of them alone the sum is a line with a slope that all
// flows share. Two multiplications by secret odd numbers and two shifts then spread
// the sum, which alone has poor low bits, over all 64 bits.
//
// This is no cryptographic function. SipHash-1-3 costs several times as much in
// eBPF, which has no rotation (docs/design/flow-table.md has the figures), and buys
// little here: a hash is never shown to anybody, and who still made flows collide
// would gain nothing but that a bucket's worth of flows is left to the kernel. No
// lookup ever reads more than FLOW_PROBES buckets.
//
// internal/subsystem/fastpath/flow/hash.go computes the same.
#ifndef MINNE_FLOW_HASH_H
#define MINNE_FLOW_HASH_H

#include <linux/types.h>

// Random; the multipliers are odd. Host byte order.
struct flow_secret {
	__u32 half[10];
	__u64 mask;
	__u64 multiplier[2];
};

// Who talks to whom, in one direction. Addresses and ports as they stand in a packet;
// an IPv4 address is the number in `src[1]` (or `dst[1]`) that loading its four bytes
// gives, with nothing above.
struct flow_key {
	__u64 src[2];
	__u64 dst[2];
	__u64 rest; // source port | destination port << 16 | zone << 32 | protocol << 48 | family << 56; the zone is conntrack's
};

#define FLOW_REST(sport, dport, zone, protocol, family)                               \
	((__u64)(__u16)(sport) | (__u64)(__u16)(dport) << 16 | (__u64)(__u16)(zone) << 32 | \
	 (__u64)(__u8)(protocol) << 48 | (__u64)(__u8)(family) << 56)

// flow_key_reverse is the key of packets that go back to where those of a key come from.
static __always_inline void flow_key_reverse(struct flow_key *back, const struct flow_key *key)
{
	back->src[0] = key->dst[0];
	back->src[1] = key->dst[1];
	back->dst[0] = key->src[0];
	back->dst[1] = key->src[1];
	back->rest = (key->rest & ~0xffffffffULL) | (key->rest & 0xffff) << 16 | (key->rest >> 16 & 0xffff);
}

// The product of the keyed low halves, and that of the high halves.
static __always_inline __u64 flow_nh(__u64 a, __u64 b, const __u32 *k)
{
	return (__u64)((__u32)a + k[0]) * ((__u32)b + k[1]) +
	       (__u64)((__u32)(a >> 32) + k[2]) * ((__u32)(b >> 32) + k[3]);
}

static __always_inline __u64 flow_spread(__u64 sum, const struct flow_secret *s)
{
	sum = (sum ^ s->mask) * s->multiplier[0];
	sum = (sum ^ sum >> 32) * s->multiplier[1];
	return sum ^ sum >> 32;
}

static __always_inline __u64 flow_hash(const struct flow_secret *s, const struct flow_key *k)
{
	__u64 sum = flow_nh(k->src[0], k->dst[0], s->half) + flow_nh(k->src[1], k->dst[1], s->half + 4);

	sum += (__u64)((__u32)k->rest + s->half[8]) * ((__u32)(k->rest >> 32) + s->half[9]);
	return flow_spread(sum, s);
}

// The hash of who opened a flow: an IPv4 address, or the /64 that one subscriber has.
static __always_inline __u64 flow_source_hash(const struct flow_secret *s, const struct flow_key *k)
{
	__u64 source = k->rest >> 56 == 4 ? k->src[1] : k->src[0];

	return flow_spread(flow_nh(source, k->rest >> 56, s->half + 2), s);
}

#endif
