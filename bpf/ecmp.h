// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Which member of a multipath group takes a flow: the same as the kernel chooses,
// when net.ipv4.fib_multipath_hash_policy is 0 or 1, its IPv6 twin 1, and
// net.ipv4.fib_multipath_hash_seed is set. The kernel then hashes addresses (with
// policy 1 ports and protocol too) with SipHash-2-4 under a key made of the seed
// (fib_multipath_hash, rt6_multipath_hash), each pair sorted so that both
// directions of a flow agree. docs/design/ecmp.md lays out the bytes.
#ifndef MINNE_ECMP_H
#define MINNE_ECMP_H

#include <linux/in.h>

#include "parse.h"

// control.multipath: families of which only the kernel knows what it hashes.
#define MULTIPATH_KERNEL4 1
#define MULTIPATH_KERNEL6 2

struct siphash {
	__u64 v0, v1, v2, v3;
};

static __always_inline __u64 rotate(__u64 x, int bits) { return x << bits | x >> (64 - bits); }

static __always_inline void sip_round(struct siphash *s)
{
	s->v0 += s->v1;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v3;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 += s->v3;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 += s->v1;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v2 = rotate(s->v2, 32);
}

// SipHash-2-4 of words, which are whole: the length in bytes goes into the last block.
static __always_inline __u64 siphash(const __u64 *words, int count, __u64 key)
{
	struct siphash s = {
		.v0 = 0x736f6d6570736575ULL ^ key,
		.v1 = 0x646f72616e646f6dULL ^ key,
		.v2 = 0x6c7967656e657261ULL ^ key,
		.v3 = 0x7465646279746573ULL ^ key,
	};
	__u64 last = (__u64)count * 8 << 56;

	#pragma unroll
	for (int i = 0; i <= count; i++) {
		__u64 word = i < count ? words[i] : last;
		s.v3 ^= word;
		sip_round(&s);
		sip_round(&s);
		s.v0 ^= word;
	}
	s.v2 ^= 0xff;
	#pragma unroll
	for (int i = 0; i < 4; i++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

// Four bytes of a packet as SipHash reads them: little endian.
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static __always_inline __u64 le32(__u32 bytes) { return bytes; }
#else
static __always_inline __u64 le32(__u32 bytes) { return __builtin_bswap32(bytes); }
#endif

// Where the ports of a protocol stand behind the IP header, as the kernel's flow
// dissector has it; -1 for none. The SPI of IPsec counts as ports.
static __always_inline int ports_offset(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_DCCP:
	case IPPROTO_ESP:
	case IPPROTO_SCTP:
	case IPPROTO_UDPLITE:
		return 0;
	case IPPROTO_AH:
		return 4;
	}
	return -1;
}

// Both ports, the lower (as raw 16 bits) first. 0 for protocols without, and for
// packets that end before them.
static __always_inline __u64 flow_ports(struct packet *p, __u32 header, __u8 protocol)
{
	int offset = ports_offset(protocol);
	__u16 *port, a, b;

	if (offset < 0)
		return 0;
	port = p->ip + header + offset;
	if ((void *)(port + 2) > p->end || p->length < header + offset + 4)
		return 0;
	a = port[0];
	b = port[1];
	if (b < a) {
		__u16 swap = a;
		a = b;
		b = swap;
	}
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (__u64)b << 16 | a;
#else
	return le32((__u32)a << 16 | b);
#endif
}

// The kernel takes 0 for "no hash", so it never is one; the group's bounds have 31 bits.
static __always_inline __u32 fold(__u64 hash)
{
	__u32 low = hash;
	return (low ? low : 1) >> 1;
}

// Policy 0 hashes the addresses of the packet that an ICMP error is about
// (ip_multipath_l3_keys): all of ICMP is left to the kernel then. The other policy's
// fields are masked: a branch would have the verifier read all that follows twice.
static __always_inline __u32 multipath_hash4(struct packet *p, const struct control *c)
{
	struct iphdr *ip = p->ip;
	__u32 src = ip->saddr, dst = ip->daddr;
	__u64 words[6] = {};

	if (dst < src) {
		__u32 swap = src;
		src = dst;
		dst = swap;
	}
	words[0] = (__u64)(ip->protocol & c->ports4) << 16;
	words[3] = (flow_ports(p, sizeof(*ip), ip->protocol) & c->ports4) << 32;
	words[4] = le32(src) << 32;
	words[5] = le32(dst);
	return fold(siphash(words, 6, c->hash_key));
}

// Whether a < b as 16 bytes in network order.
static __always_inline int before6(const __be32 *a, const __be32 *b)
{
	#pragma unroll
	for (int i = 0; i < 4; i++)
		if (a[i] != b[i])
			return bpf_ntohl(a[i]) < bpf_ntohl(b[i]);
	return 0;
}

static __always_inline __u32 multipath_hash6(struct packet *p, const struct control *c)
{
	struct ipv6hdr *ip = p->ip;
	const __be32 *src = ip->saddr.s6_addr32, *dst = ip->daddr.s6_addr32;
	__u64 words[9] = {};

	if (before6(dst, src)) {
		src = ip->daddr.s6_addr32;
		dst = ip->saddr.s6_addr32;
	}
	words[0] = (__u64)ip->nexthdr << 16;
	words[3] = flow_ports(p, sizeof(*ip), ip->nexthdr) << 32;
	words[4] = le32(src[0]) << 32;
	words[5] = le32(src[1]) | le32(src[2]) << 32;
	words[6] = le32(src[3]) | le32(dst[0]) << 32;
	words[7] = le32(dst[1]) | le32(dst[2]) << 32;
	words[8] = le32(dst[3]);
	return fold(siphash(words, 9, c->hash_key));
}

// IPv6 headers that the kernel's dissector walks through to find the ports.
static __always_inline int walks6(__u8 header)
{
	return header == IPPROTO_ROUTING || header == IPPROTO_DSTOPTS || header == IPPROTO_FRAGMENT;
}

// The via of the member of the group [first, first + count) that takes the hash.
static __always_inline __u32 choose_member(__u32 first, __u32 count, __u32 hash)
{
	__u32 via = 0;

	for (__u32 i = 0; i < MAX_GROUP; i++) {
		__u32 index = first + i;
		__u64 *member;

		if (i >= count)
			break;
		member = bpf_map_lookup_elem(&members, &index);
		if (!member)
			break;
		__u64 word = *(volatile __u64 *)member;
		if (i == 0)
			via = word >> 32;
		if (hash <= (__u32)word)
			return word >> 32;
	}
	return via;
}

#endif
