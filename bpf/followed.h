// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A packet's flow in the table, and what it is translated to; and the flows of connections that
// conntrack's functions for eBPF do not know: ICMP echo, and protocols that
// conntrack tells apart by addresses alone.
//
// Of those the program asks user space (flow_asks), which asks conntrack over netlink and makes the
// flow (internal/subsystem/fastpath/followed.go). Their packets renew their own timeouts: in each
// tick the first of each direction goes up. User space confirms each flow every
// few seconds; one that nobody confirms any more is the kernel's again, so a
// connection that conntrack has lost is not carried for longer than that, daemon or no daemon.
#ifndef MINNE_FOLLOWED_H
#define MINNE_FOLLOWED_H

#include "conntrack.h"

#define FOLLOWED_SLOTS 1024 // questions a second, at most

// Keys of packets whose connections user space shall ask for. The loader makes room for some (followedRing).
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} flow_asks SEC(".maps");

// When user space was last asked, ns, by hash of the key: never a flood.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FOLLOWED_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} flow_asked SEC(".maps");

// flow_lookup that leaves no mark when the tracing build asks.
static __always_inline int lookup(const struct flow_key *key, struct flow_hit *hit)
{
#ifndef CONNTRACK
	return 0; // no flow is ever learned
#endif
	if (!trace_build)
		return flow_lookup(key, hit);

	struct flow_control *c = flow_controls();

	return c && flow_find(c, key, hit) && hit->side->generation == (__u16)c->generation;
}

// What is translated leaves with the replies' addresses, turned round.
static __always_inline void translated(struct connection *n)
{
	n->translated = 1;
	n->diverted = !!((n->to.dst[0] ^ n->key.dst[0]) | (n->to.dst[1] ^ n->key.dst[1]) |
			 ((n->to.rest ^ n->key.rest) & 0xffff0000));
}

static __always_inline int translation(struct connection *n, const struct flow_hit *hit)
{
	if (!flow_translation(hit, &n->to))
		return 0;
	translated(n);
	return 1;
}

// translate_by is translation by the key of the other side.
static __always_inline void translate_by(struct connection *n, const struct flow_key *other)
{
	n->to.src[0] = other->dst[0];
	n->to.src[1] = other->dst[1];
	n->to.dst[0] = other->src[0];
	n->to.dst[1] = other->src[1];
	n->to.rest = (other->rest & ~0xffffffffULL) | (other->rest & 0xffff) << 16 | (other->rest >> 16 & 0xffff);
	translated(n);
}

// A packet's flow is the one that was found.
static __always_inline void carry(struct connection *n, const struct flow_hit *hit)
{
	n->number = hit->number;
	if (!(hit->number & 1))
		n->egress = FLOW_EGRESS(hit->side->packets);
}

#ifdef CONNTRACK

#define FOLLOWED_TICKS 3     // for which a confirmation holds, at least
#define FOLLOWED_INTERVAL 1000000000ULL // ns

#define FOLLOWED_ECHO_REPLY 1 // in the place of the key's zone: an echo's reply. flow.EchoReply

static __noinline int followed_ask(const struct flow_key *key)
{
	struct flow_control *c = flow_controls();
	__u64 *asked, last, now = bpf_ktime_get_coarse_ns();
	__u32 at;

	if (trace_build || !c)
		return 0;
	at = flow_hash_of(c, key) & (FOLLOWED_SLOTS - 1);
	asked = bpf_map_lookup_elem(&flow_asked, &at);
	if (!asked)
		return 0;
	last = *(volatile __u64 *)asked;
	if (now - last < FOLLOWED_INTERVAL || __sync_val_compare_and_swap(asked, last, now) != last)
		return 0;
	bpf_ringbuf_output(&flow_asks, (void *)key, sizeof(*key), 0);
	return 1;
}

// followed_key completes the key of a packet, which has ICMP's type and code as its destination port.
// 0: conntrack tells such packets apart by more than flows do, or changes more in them.
static __always_inline int followed_key(struct connection *n)
{
	__u32 protocol = n->key.rest >> 48 & 0xff, family = n->key.rest >> 56;
	__u16 kind = n->key.rest >> 16, echo = bpf_htons(family == 4 ? 0x0800 : 0x8000), reply = bpf_htons(family == 4 ? 0 : 0x8100);

	switch (protocol) {
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if ((protocol == IPPROTO_ICMP) != (family == 4) || (kind != echo && kind != reply) || n->policy & POLICY_ICMP)
			return 0;
		n->key.rest = FLOW_REST(n->sequence, n->sequence, kind == reply ? FOLLOWED_ECHO_REPLY : 0, protocol, family);
		return 1;
	case IPPROTO_GRE:
		return n->sequence;
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
	case IPPROTO_UDPLITE:
		return 0;
	}
	return 1;
}

static __noinline int followed_flow(struct connection *n)
{
	struct flow_hit hit = {};
	__u16 tick, now = flow_now(); // by which user space confirms

	if (!followed_key(n))
		return REASON_CONNECTION;
	if (!lookup(&n->key, &hit) || (__u16)(now - hit.side->mark + 1) > FOLLOWED_TICKS + 1) { // user space may be a tick ahead
		followed_ask(&n->key);
		return REASON_CONNECTION;
	}
	tick = flow_tick(hit.number);
	if (hit.side->seen != tick && !trace_build) {
		hit.side->seen = tick;
		return REASON_CONNECTION;
	}
	if (hit.side->flags & FLOW_TRANSLATED && !translation(n, &hit))
		return REASON_CONNECTION;
	carry(n, &hit);
	return REASON_NONE;
}

#else

static __always_inline int followed_flow(struct connection *n)
{
	return REASON_CONNECTION;
}

#endif
#endif
