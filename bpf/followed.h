// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Flows of connections that conntrack's functions for eBPF do not know: ICMP echo, and
// protocols that conntrack tells apart by addresses alone.
//
// Of those the program asks user space (flow_asks), which asks conntrack over netlink and makes the
// flow (internal/subsystem/fastpath/followed.go). Their packets renew their own timeouts: in each
// tick the first of each direction goes up. User space confirms each flow every
// few seconds; one that nobody confirms any more is the kernel's again, so a
// connection that conntrack has lost is not carried for longer than that, daemon or no daemon.
#ifndef MINNE_FOLLOWED_H
#define MINNE_FOLLOWED_H

#include "flow_write.h"
#include "policy.h"

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
} flow_requests SEC(".maps");

#ifdef CONNTRACK

#define FOLLOWED_TICKS 3     // for which a confirmation holds, at least
#define FOLLOWED_INTERVAL 1000000000ULL // ns

#define FOLLOWED_ECHO_REPLY 0x80 // beside the family: an echo's reply; two hosts may ask each other with the same id. flow.echoReply

static __noinline int followed_ask(const struct flow_key *key)
{
	struct flow_control *c = flow_controls();
	__u64 *asked, last, now = bpf_ktime_get_coarse_ns();
	__u32 at;

	if (trace_build || !c)
		return 0;
	at = flow_hash_of(c, key) & (FOLLOWED_SLOTS - 1);
	asked = bpf_map_lookup_elem(&flow_requests, &at);
	if (!asked)
		return 0;
	last = *(volatile __u64 *)asked;
	if (now - last < FOLLOWED_INTERVAL || __sync_val_compare_and_swap(asked, last, now) != last)
		return 0;
	bpf_ringbuf_output(&flow_asks, (void *)key, sizeof(*key), 0);
	return 1;
}

// followed_key completes the key of a packet, which has ICMP's type and code as its destination port, by the
// sequence of struct transport. 0: conntrack tells such packets apart by more than flows do, or changes more in them.
static __always_inline int followed_key(struct flow_key *key, __u16 sequence, __u32 policy)
{
	__u32 protocol = key->rest >> 48 & 0xff, family = key->rest >> 56;
	__u16 kind = key->rest >> 16, echo = bpf_htons(family == 4 ? 0x0800 : 0x8000), reply = bpf_htons(family == 4 ? 0 : 0x8100);

	switch (protocol) {
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if ((protocol == IPPROTO_ICMP) != (family == 4) || (kind != echo && kind != reply) || policy & POLICY_ICMP)
			return 0;
		key->rest = FLOW_REST(sequence, sequence, key->rest >> 32, protocol, family | (kind == reply ? FOLLOWED_ECHO_REPLY : 0));
		return 1;
	case IPPROTO_GRE:
		return sequence;
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
	case IPPROTO_UDPLITE:
		return 0;
	}
	return 1;
}

#endif
#endif
