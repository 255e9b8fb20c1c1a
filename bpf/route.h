// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// From destination to adjacency: the FIB gives a next-hop index, the next hop a
// via (for a multipath group, the one that the flow's hash picks), the via an
// adjacency, and the adjacency says whether the packet can leave by it.
#ifndef MINNE_ROUTE_H
#define MINNE_ROUTE_H

#include "connection.h"
#include "ecmp.h"
#include "fib_vrf.h"
#include "parse.h"

#define HOP_KIND(word) ((word) & 0xff)
#define HOP_COUNT(word) ((word) >> 8 & 0xff)  // of a group
#define HOP_REASON(word) ((word) >> 8 & 0xff) // of a stop
_Static_assert(REASON_COUNT <= 256, "a stop has eight bits for its reason");
#define HOP_MTU(word) ((word) >> 16 & 0xffff)
#define HOP_WHERE(word) ((__u32)((word) >> 32))

static __always_inline __u64 high64(const struct in6_addr *a)
{
	return (__u64)bpf_ntohl(a->s6_addr32[0]) << 32 | bpf_ntohl(a->s6_addr32[1]);
}

static __always_inline __u64 low64(const struct in6_addr *a)
{
	return (__u64)bpf_ntohl(a->s6_addr32[2]) << 32 | bpf_ntohl(a->s6_addr32[3]);
}

// The word of a next hop; a stop without a route for an index that is out of range.
static __always_inline __u64 next_hop(__u32 index)
{
	__u64 *word = bpf_map_lookup_elem(&nexthops, &index);
	return word ? *(volatile __u64 *)word : (__u64)REASON_NO_ROUTE << 8;
}

static __always_inline enum reason find_route(struct decision *d, __u32 index)
{
	d->nexthop = index;
	d->hop = next_hop(index);
	if (HOP_KIND(d->hop) != HOP_STOP)
		return REASON_NONE;
	return HOP_REASON(d->hop) ? HOP_REASON(d->hop) : REASON_NO_ROUTE;
}

// The FIB's next hop in the table of a VRF, 0 for main's. Global functions, which cost a packet a call and the verifier one
// look at a search instead of one for each path that leads here, source and destination.
__attribute__((weak)) __noinline __u32 route4(__u32 vrf, __u32 address)
{
	return vrf_build && vrf ? vrf4_lookup(vrf, address) : fib4_lookup(address);
}

__attribute__((weak)) __noinline __u32 route6(__u32 vrf, __u64 high, __u64 low)
{
	return vrf_build && vrf ? vrf6_lookup(vrf, high, low) : fib6_lookup(high, low);
}

// What conntrack may translate is not the route's alone to end: a blackhole says nothing, and a packet for
// the router is perhaps the reply of a translated connection.
static __always_inline enum reason but_translated(struct packet *p, struct decision *d, enum reason why)
{
	if (!(p->policy & POLICY_TRANSLATES))
		return why;
	if (why == REASON_BLACKHOLE)
		return REASON_CONNECTION;
	if (why == REASON_LOCAL && d->connection && !d->connection->asked &&
	    p->transport.protocol == IPPROTO_TCP && (p->transport.tcp & (TCP_SYN | TCP_ACK)) != TCP_SYN &&
	    connected(p->ctx, d->connection))
		return REASON_CONNECTION;
	return why;
}

// The route of the packet's destination, or of what it is translated to.
static __always_inline enum reason find_route4(struct packet *p, struct decision *d)
{
	struct iphdr *ip = p->ip;

	p->dst[0] = diverted(d) ? d->connection->to.dst[1] : ip->daddr;
	return but_translated(p, d, find_route(d, route4(p->vrf, bpf_ntohl(p->dst[0]))));
}

static __always_inline enum reason find_route6(struct packet *p, struct decision *d)
{
	struct ipv6hdr *ip = p->ip;

	__builtin_memcpy(p->dst, &ip->daddr, sizeof(p->dst));
	if (diverted(d))
		__builtin_memcpy(p->dst, d->connection->to.dst, sizeof(p->dst));
	return but_translated(p, d, find_route(d, route6(p->vrf, (__u64)bpf_ntohl(p->dst[0]) << 32 | bpf_ntohl(p->dst[1]),
							     (__u64)bpf_ntohl(p->dst[2]) << 32 | bpf_ntohl(p->dst[3]))));
}

static __always_inline __u32 neighbour4(__u32 interface, __be32 address)
{
	struct neighbour4 key = { .interface = interface, .address = address };
	__u32 *adjacency = bpf_map_lookup_elem(&neighbours4, &key);
	return adjacency ? *(volatile __u32 *)adjacency : 0;
}

static __always_inline __u32 neighbour6(__u32 interface, const __be32 *a)
{
	struct neighbour6 key = { .interface = interface };
	__builtin_memcpy(key.address, a, sizeof(key.address));
	__u32 *adjacency = bpf_map_lookup_elem(&neighbours6, &key);
	return adjacency ? *(volatile __u32 *)adjacency : 0;
}

// The adjacency, if packets may leave by it.
static __always_inline enum reason use(struct decision *d)
{
	d->adj = bpf_map_lookup_elem(&adjacencies, &d->adjacency);
	if (!d->adj)
		return REASON_NO_NEIGHBOUR;
	d->head = *(volatile __u64 *)d->adj;
	__u16 flags = ((struct adjacency *)&d->head)->flags;
	if (flags & ADJ_VALID)
		return REASON_NONE;
	if (flags >> ADJ_REASON_SHIFT)
		return flags >> ADJ_REASON_SHIFT;
	return flags & ADJ_NO_PORT ? REASON_EGRESS : REASON_NO_NEIGHBOUR;
}

static __always_inline enum reason find_adjacency4(struct packet *p, struct decision *d, struct control *c)
{
	struct iphdr *ip = p->ip;
	__u32 via = HOP_WHERE(d->hop);

	if (HOP_KIND(d->hop) == HOP_GROUP) {
		if (diverted(d)) // the kernel hashes the translated destination
			return REASON_CONNECTION;
		if (c->multipath & MULTIPATH_KERNEL4 || (!c->ports4 && ip->protocol == IPPROTO_ICMP))
			return REASON_MULTIPATH_HASH;
		via = choose_member(via, HOP_COUNT(d->hop), multipath_hash4(p, c));
	}
	d->adjacency = via & VIA_ONLINK ? neighbour4(via & ~VIA_ONLINK, p->dst[0]) : via;
	return use(d);
}

static __always_inline enum reason find_adjacency6(struct packet *p, struct decision *d, struct control *c)
{
	struct ipv6hdr *ip = p->ip;
	__u32 via = HOP_WHERE(d->hop);

	if (HOP_KIND(d->hop) == HOP_GROUP) {
		if (diverted(d))
			return REASON_CONNECTION;
		if (walks6(ip->nexthdr))
			return REASON_EXTENSION_HEADER;
		if (c->multipath & MULTIPATH_KERNEL6)
			return REASON_MULTIPATH_HASH;
		via = choose_member(via, HOP_COUNT(d->hop), multipath_hash6(p, c));
	}
	d->adjacency = via & VIA_ONLINK ? neighbour6(via & ~VIA_ONLINK, p->dst) : via;
	return use(d);
}

// Does it fit, and does it leave by another interface than it came in?
static __always_inline enum reason fits(struct packet *p, struct decision *d, __u32 mtu, int redirects)
{
	__u32 route_mtu = HOP_MTU(d->hop);

	if (jumbo_build && !d->adj->scatters && bytes_beyond(p->ctx))
		return REASON_EGRESS;
	if (p->length > mtu || (route_mtu && p->length > route_mtu))
		return REASON_TOO_BIG;
	if (redirects && d->adj->interface == p->interface)
		return REASON_REDIRECT;
	return REASON_NONE;
}

#define REFRESH_INTERVAL 1000000000ULL // ns between packets that go up for one neighbour

// A neighbour that the kernel calls stale is one whose MAC it has not seen proven
// for a while. It proves it again as soon as it sends a packet there itself, so one
// packet a second goes up until it has: no process needs to watch. One CPU wins
// the exchange.
static __always_inline enum reason refresh(struct decision *d)
{
	__u64 *refreshed = &d->adj->refreshed;
	__u64 last, now;

	if (!(((struct adjacency *)&d->head)->flags & ADJ_STALE))
		return REASON_NONE;
	last = *(volatile __u64 *)refreshed;
	now = bpf_ktime_get_coarse_ns();
	if (last && now - last < REFRESH_INTERVAL)
		return REASON_NONE;
	if (trace_build)
		return REASON_REFRESH;
	if (__sync_val_compare_and_swap(refreshed, last, now) != last)
		return REASON_NONE;
	return REASON_REFRESH;
}

#endif
