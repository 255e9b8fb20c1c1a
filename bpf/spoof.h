// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Does the source belong where the packet came from (RFC 3704)? As Linux does it
// (fib_validate_source): after the destination's route is known, because a packet
// without one is answered, not checked.
//
// Strict: the route to the source leads out of the ingress interface. Loose: there
// is a route at all. For IPv6 the kernel's check is an nftables rule that also
// accepts a shorter prefix through the right interface, so a failure here is the
// kernel's to judge.
#ifndef MINNE_SPOOF_H
#define MINNE_SPOOF_H

#include "route.h"

// Which bit of own4 stands for an address.
static __always_inline __u32 own_bit(__u32 address) { return (address ^ address >> 16) & 0xffff; }

static __always_inline int perhaps_own(__u32 address)
{
	__u32 bit = own_bit(address), index = bit >> 6;
	__u64 *word = bpf_map_lookup_elem(&own4, &index);
	return word && *(volatile __u64 *)word >> (bit & 63) & 1;
}

static __always_inline int leads_to(__u32 via, __u32 interface)
{
	if (via & VIA_ONLINK)
		return (via & ~VIA_ONLINK) == interface;
	struct adjacency *adj = bpf_map_lookup_elem(&adjacencies, &via);
	return adj && adj->interface == interface;
}

// Whether the next hop, or any member of its group, leads out of the interface. A global function:
// the verifier goes through its loop once, not once for each path that leads here.
__attribute__((weak)) __noinline int reaches(__u64 hop, __u32 interface)
{
	__u32 count = HOP_COUNT(hop), first = HOP_WHERE(hop);

	if (HOP_KIND(hop) == HOP_VIA)
		return leads_to(first, interface);
	for (__u32 i = 0; i < MAX_GROUP; i++) {
		__u32 index = first + i;
		__u64 *member;

		if (i >= count)
			break;
		member = bpf_map_lookup_elem(&members, &index);
		if (member && leads_to(*(volatile __u64 *)member >> 32, interface))
			return 1;
	}
	return 0;
}

// What a route to the source that leads nowhere says of the packet. Only the kernel
// can tell for routes that this program can't follow.
static __always_inline enum reason judge_stop(__u32 why)
{
	switch (why) {
	case REASON_NO_ROUTE:
	case REASON_BLACKHOLE:
	case REASON_UNREACHABLE:
	case REASON_PROHIBIT:
		return REASON_SPOOFED;
	}
	return REASON_SOURCE_CHECK;
}

static __always_inline enum reason check_source4(struct packet *p)
{
	struct iphdr *ip = p->ip;
	__u32 src = bpf_ntohl(ip->saddr);
	__u16 flags = p->in->flags;
	__u64 hop;

	if (!(flags & (IF_STRICT4 | IF_LOOSE4)) && !perhaps_own(src))
		return REASON_NONE;
	hop = next_hop(route4(p->vrf, src));
	if (HOP_KIND(hop) == HOP_STOP && HOP_REASON(hop) == REASON_LOCAL)
		return REASON_OWN_SOURCE;
	if (HOP_KIND(hop) == HOP_STOP && HOP_REASON(hop) == REASON_BROADCAST)
		return REASON_SOURCE_CHECK; // the kernel looks at it where there are rules or a check
	if (!(flags & (IF_STRICT4 | IF_LOOSE4)))
		return REASON_NONE;
	if (HOP_KIND(hop) == HOP_STOP)
		return judge_stop(HOP_REASON(hop));
	if (flags & IF_STRICT4 && !reaches(hop, p->interface))
		return REASON_SPOOFED;
	return REASON_NONE;
}

static __always_inline enum reason check_source6(struct packet *p)
{
	struct ipv6hdr *ip = p->ip;
	__u16 flags = p->in->flags;
	__u64 hop;

	if (!(flags & (IF_STRICT6 | IF_LOOSE6)))
		return REASON_NONE;
	hop = next_hop(route6(p->vrf, high64(&ip->saddr), low64(&ip->saddr)));
	if (HOP_KIND(hop) == HOP_STOP)
		return REASON_SOURCE_CHECK;
	if (flags & IF_STRICT6 && (HOP_KIND(hop) == HOP_GROUP || !reaches(hop, p->interface)))
		return REASON_SOURCE_CHECK; // of several next hops nftables looks at the one that the hash picks
	return REASON_NONE;
}

#endif
