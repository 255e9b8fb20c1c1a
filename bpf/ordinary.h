// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What the fast path leaves to the kernel, and addresses that can't be on a wire.
// All that can be told from the packet alone, before any table is asked.
//
// Linux is the measure: a martian is what Linux calls one whatever its settings.
// 0.0.0.0/8 (but for 0.0.0.0) and 240.0.0.0/4 (but for 255.255.255.255) are
// ordinary addresses to Linux, so they are here; 127/8 hangs on a setting, so the
// kernel is asked.
#ifndef MINNE_ORDINARY_H
#define MINNE_ORDINARY_H

#include "parse.h"

#define IPV4_FRAGMENT 0x3fff // more fragments, or an offset

static __always_inline int multicast4(__u32 address) { return address >> 28 == 0xe; }
static __always_inline int loopback4(__u32 address) { return address >> 24 == 127; }

// Why nothing that comes in here is forwarded by this program.
static __always_inline enum reason not_forwarded(const struct interface *in)
{
	__u16 off = in->off;
	return off ? off : REASON_FORWARDING_OFF;
}

static __always_inline enum reason ordinary_ipv4(struct packet *p)
{
	struct iphdr *ip = p->ip;
	__u32 src = bpf_ntohl(ip->saddr), dst = bpf_ntohl(ip->daddr);

	if (!(p->in->flags & IF_FORWARD4))
		return not_forwarded(p->in);
	if (ip->frag_off & bpf_htons(IPV4_FRAGMENT))
		return REASON_FRAGMENT;
	if (multicast4(dst))
		return REASON_MULTICAST;
	if (dst == 0xffffffff || (!src && !dst))
		return REASON_BROADCAST;
	if (multicast4(src) || src == 0xffffffff || !src)
		return REASON_MARTIAN_SOURCE;
	if (!dst)
		return REASON_MARTIAN_DESTINATION;
	if (loopback4(src) || loopback4(dst))
		return REASON_LOOPBACK;
	if (ip->ttl <= 1)
		return REASON_TTL;
	return REASON_NONE;
}

static __always_inline int multicast6(const struct in6_addr *a)
{
	return (a->s6_addr32[0] & bpf_htonl(0xff000000)) == bpf_htonl(0xff000000);
}

static __always_inline int link_local6(const struct in6_addr *a)
{
	return (a->s6_addr32[0] & bpf_htonl(0xffc00000)) == bpf_htonl(0xfe800000);
}

// The addresses :: and ::1, which begin with 64 bits of zeros. IPv4-mapped addresses
// (::ffff:0:0/96) do too, but Linux forwards them like others.
static __always_inline enum reason odd_ipv6(const struct in6_addr *src, const struct in6_addr *dst)
{
	if (!(src->s6_addr32[0] | src->s6_addr32[1] | src->s6_addr32[2])) {
		if (src->s6_addr32[3] == bpf_htonl(1))
			return REASON_MARTIAN_SOURCE;
		if (!src->s6_addr32[3])
			return REASON_UNSPECIFIED;
	}
	if (!(dst->s6_addr32[0] | dst->s6_addr32[1] | dst->s6_addr32[2])) {
		if (dst->s6_addr32[3] == bpf_htonl(1))
			return REASON_MARTIAN_DESTINATION;
		if (!dst->s6_addr32[3])
			return REASON_UNSPECIFIED;
	}
	return REASON_NONE;
}

static __always_inline enum reason ordinary_ipv6(struct packet *p)
{
	struct ipv6hdr *ip = p->ip;

	if (!(p->in->flags & IF_FORWARD6))
		return not_forwarded(p->in);
	if (multicast6(&ip->saddr))
		return REASON_MARTIAN_SOURCE;
	TRY(odd_ipv6(&ip->saddr, &ip->daddr));
	if (multicast6(&ip->daddr))
		return REASON_MULTICAST;
	if (link_local6(&ip->saddr) || link_local6(&ip->daddr))
		return REASON_LINK_LOCAL;
	if (ip->nexthdr == 0) // RFC 8200 4.3; jumbograms (RFC 2675) too
		return REASON_HOP_BY_HOP;
	if (ip->hop_limit <= 1)
		return REASON_TTL;
	return REASON_NONE;
}

#endif
