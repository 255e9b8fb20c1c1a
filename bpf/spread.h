// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Spreads the packets of a port over CPUs, by flow: for cards with fewer receive queues than CPUs. A program of its own on
// such a port chooses a CPU and hands the frame over (cpumap); the router's program runs there. It decides nothing else: what it can't read goes to one CPU, and what finds no CPU goes up to the kernel.
//
// Packets of a connection stay in order, since both directions of it and all of its packets have the same sum of addresses
// and ports. Fragments have no ports: they follow the addresses alone, as with a card's own hash.
#ifndef MINNE_SPREAD_H
#define MINNE_SPREAD_H

#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "parse.h"
#include "pppoe.h"

#define SPREAD_CPUS 256 // CPUs that packets can be spread over

struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1); // as many as the machine may have
	__type(key, __u32);
	__type(value, struct bpf_cpumap_val);
} spread_cpus SEC(".maps");

// How many CPUs there are, and then their numbers.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SPREAD_CPUS + 1);
	__type(key, __u32);
	__type(value, __u32);
} spread_order SEC(".maps");

// The two ports of TCP, UDP and SCTP added up, as they stand in the packet.
static __always_inline __u64 spread_ports(__u16 *ports, void *end, __u8 protocol)
{
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP && protocol != IPPROTO_SCTP)
		return 0;
	if ((void *)(ports + 2) > end)
		return 0;
	return (__u64)ports[0] + ports[1];
}

static __always_inline __u64 spread_sum4(struct iphdr *ip, void *end)
{
	__u64 sum;

	if ((void *)(ip + 1) > end)
		return 0;
	sum = (__u64)ip->saddr + ip->daddr + ((__u64)ip->protocol << 48);
	if (ip->frag_off & bpf_htons(0x3fff)) // more of it, or not the first
		return sum;
	return sum + (spread_ports((void *)ip + (ip->ihl & 15) * 4, end, ip->protocol) << 32);
}

static __always_inline __u64 spread_sum6(struct ipv6hdr *ip, void *end)
{
	const __u32 *s, *d;
	__u64 sum;

	if ((void *)(ip + 1) > end)
		return 0;
	s = ip->saddr.in6_u.u6_addr32;
	d = ip->daddr.in6_u.u6_addr32;
	sum = (__u64)s[0] + d[0] + s[1] + d[1] + (((__u64)s[2] + d[2]) << 16) + (((__u64)s[3] + d[3]) << 8);
	return sum + (spread_ports((void *)(ip + 1), end, ip->nexthdr) << 32);
}

// What all packets of a connection, in either direction, have in common.
static __always_inline __u64 spread_sum(void *data, void *end)
{
	struct ethernet *eth = data;
	void *at = eth + 1;
	__be16 protocol;

	if (at > end)
		return 0;
	protocol = eth->protocol;
#pragma unroll
	for (int i = 0; i < MAX_TAGS; i++) {
		struct tag *tag = at;

		if (!is_vlan(protocol))
			break;
		if ((void *)(tag + 1) > end)
			return 0;
		protocol = tag->protocol;
		at = tag + 1;
	}
	if (protocol == bpf_htons(ETH_P_PPP_SES)) {
		__be16 *inside = at + 6; // version, code, session and length come first

		if ((void *)(inside + 1) > end)
			return 0;
		protocol = *inside == bpf_htons(0x0021) ? bpf_htons(ETH_P_IP) : *inside == bpf_htons(0x0057) ? bpf_htons(ETH_P_IPV6) : 0;
		at = inside + 1;
	}
	if (protocol == bpf_htons(ETH_P_IP))
		return spread_sum4(at, end);
	if (protocol == bpf_htons(ETH_P_IPV6))
		return spread_sum6(at, end);
	return 0;
}

// spread hands a frame to the CPU of its flow.
static __always_inline int spread(struct xdp_md *ctx, const struct control *c)
{
	__u64 sum = spread_sum((void *)(long)ctx->data, (void *)(long)ctx->data_end);
	__u32 zero = 0, *many, *cpu, place;

	many = bpf_map_lookup_elem(&spread_order, &zero);
	if (!many || !*many)
		return XDP_PASS;
	// Senders choose addresses: without the key nobody knows which of them share a CPU.
	sum = (sum ^ c->hash_key) * 0x9e3779b97f4a7c15ULL;
	sum ^= sum >> 32;
	place = 1 + (__u32)(((sum & 0xffffffff) * *many) >> 32);
	cpu = bpf_map_lookup_elem(&spread_order, &place);
	if (!cpu)
		return XDP_PASS;
	return bpf_redirect_map(&spread_cpus, *cpu, XDP_PASS);
}

#endif
