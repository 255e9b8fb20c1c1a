// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// From destination to adjacency: the FIB gives a next-hop index, the next hop a
// via (for a multipath group, the one that the flow's hash picks), the via an
// adjacency, and the adjacency says whether the packet can leave by it.
#ifndef MINNE_ROUTE_H
#define MINNE_ROUTE_H

#include "conntrack.h"
#include "ecmp.h"
#include "fib.h"
#include "parse.h"

// Where a packet goes.
struct way {
	__u32 nexthop;            // index from the FIB
	__u64 hop;                // its word in nexthops
	__u32 adjacency;          // index
	struct adjacency *adj;
	__u64 head;               // word 0 of the adjacency, read once: MAC and flags
	struct connection *connection; // NULL where no state is kept
	__u32 zones;              // of the tracing build: ingress << 8 | egress
	__u32 verdict;            // of the classifier, 0 when it was not asked
};

#define HOP_KIND(word) ((word) & 0xff)
#define HOP_COUNT(word) ((word) >> 8 & 0xff)
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

static __always_inline enum reason find_route(struct way *w, __u32 index)
{
	w->nexthop = index;
	w->hop = next_hop(index);
	if (HOP_KIND(w->hop) != HOP_STOP)
		return REASON_NONE;
	__u32 why = HOP_COUNT(w->hop);
	return why ? why : REASON_NO_ROUTE;
}

// The FIB's next hop. Global functions, which cost a packet a call and the verifier one look at a
// search instead of one for each way that leads here, source and destination.
__attribute__((weak)) __noinline __u32 route4(__u32 address) { return fib4_lookup(address); }
__attribute__((weak)) __noinline __u32 route6(__u64 high, __u64 low) { return fib6_lookup(high, low); }

static __always_inline enum reason find_route4(struct packet *p, struct way *w)
{
	return find_route(w, route4(bpf_ntohl(p->dst[0])));
}

static __always_inline enum reason find_route6(struct packet *p, struct way *w)
{
	return find_route(w, route6((__u64)bpf_ntohl(p->dst[0]) << 32 | bpf_ntohl(p->dst[1]),
					 (__u64)bpf_ntohl(p->dst[2]) << 32 | bpf_ntohl(p->dst[3])));
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
static __always_inline enum reason use(struct way *w)
{
	w->adj = bpf_map_lookup_elem(&adjacencies, &w->adjacency);
	if (!w->adj)
		return REASON_NO_NEIGHBOUR;
	w->head = *(volatile __u64 *)w->adj;
	__u16 flags = ((struct adjacency *)&w->head)->flags;
	if (flags & ADJ_VALID)
		return REASON_NONE;
	if (flags >> ADJ_REASON_SHIFT)
		return flags >> ADJ_REASON_SHIFT;
	return flags & ADJ_NO_PORT ? REASON_EGRESS : REASON_NO_NEIGHBOUR;
}

static __always_inline enum reason find_adjacency4(struct packet *p, struct way *w, struct control *c)
{
	struct iphdr *ip = p->ip;
	__u32 via = HOP_WHERE(w->hop);

	if (HOP_KIND(w->hop) == HOP_GROUP) {
		if (w->connection && w->connection->diverted) // the kernel hashes the translated destination
			return REASON_CONNECTION;
		if (c->multipath & MULTIPATH_KERNEL4 || (!c->ports4 && ip->protocol == IPPROTO_ICMP))
			return REASON_MULTIPATH_HASH;
		via = choose_member(via, HOP_COUNT(w->hop), multipath_hash4(p, c));
	}
	w->adjacency = via & VIA_ONLINK ? neighbour4(via & ~VIA_ONLINK, p->dst[0]) : via;
	return use(w);
}

static __always_inline enum reason find_adjacency6(struct packet *p, struct way *w, struct control *c)
{
	struct ipv6hdr *ip = p->ip;
	__u32 via = HOP_WHERE(w->hop);

	if (HOP_KIND(w->hop) == HOP_GROUP) {
		if (w->connection && w->connection->diverted)
			return REASON_CONNECTION;
		if (walks6(ip->nexthdr))
			return REASON_EXTENSION_HEADER;
		if (c->multipath & MULTIPATH_KERNEL6)
			return REASON_MULTIPATH_HASH;
		via = choose_member(via, HOP_COUNT(w->hop), multipath_hash6(p, c));
	}
	w->adjacency = via & VIA_ONLINK ? neighbour6(via & ~VIA_ONLINK, p->dst) : via;
	return use(w);
}

// Does it fit, and does it leave by another interface than it came in?
static __always_inline enum reason fits(struct packet *p, struct way *w, __u32 mtu, int redirects)
{
	__u32 route_mtu = HOP_MTU(w->hop);

	if (p->length > mtu || (route_mtu && p->length > route_mtu))
		return REASON_TOO_BIG;
	if (redirects && w->adj->interface == p->interface)
		return REASON_REDIRECT;
	return REASON_NONE;
}

#define REFRESH_INTERVAL 1000000000ULL // ns between packets that go up for one neighbour

// A neighbour that the kernel calls stale is one whose MAC it has not seen proven
// for a while. It proves it again as soon as it sends a packet there itself, so one
// packet a second goes up until it has: no process needs to watch. One CPU wins
// the exchange.
static __always_inline enum reason refresh(struct way *w)
{
	__u64 *refreshed = &w->adj->refreshed;
	__u64 last, now;

	if (!(((struct adjacency *)&w->head)->flags & ADJ_STALE))
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
