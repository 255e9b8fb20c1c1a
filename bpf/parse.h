// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// From frame to logical interface: the Ethernet header, up to two VLAN tags, and
// the question whether the frame is for us at all.
#ifndef MINNE_PARSE_H
#define MINNE_PARSE_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>

#include "bridge.h"
#include "maps.h"
#include "stages.h"

#define MAX_TAGS 2
#define VLAN_ID 0x0fff

struct ethernet {
	__u16 dst[3];
	__u16 src[3];
	__be16 protocol;
};

struct tag {
	__be16 tci;
	__be16 protocol; // of what follows
};

// What the firewall looks at behind the IP header (transport.h).
struct transport {
	__be16 sport;
	__be16 dport;  // of ICMP: type and code
	__u8 protocol; // IP's number
	__u8 tcp;      // flags of TCP
	__u16 sequence; // upper half of TCP's sequence number; of ICMP the echo's id, of GRE whether it has flows
} __attribute__((aligned(8)));

// A packet on its journey. The pointers hold until the packet's size changes.
struct packet {
	struct xdp_md *ctx;
	void *data;              // Ethernet header
	void *end;
	void *ip;                // IPv4 or IPv6 header, once its length has been checked
	struct interface *in;    // logical interface it came in by
	__u32 interface;         // its ifindex
	__u32 tags;              // VLAN tags it carries
	__u32 length;            // of the IP packet as its header says, bytes
	__be16 protocol;         // ethertype after the tags
	__u32 policy;            // control.policy, read once
	__be32 dst[4];           // destination that is routed: the packet's, or its translation; IPv4 in the first
	struct transport transport;
};

// What is done with a packet, as far as the stages have decided.
struct decision {
	__u32 nexthop;            // index from the FIB
	__u64 hop;                // its word in nexthops
	__u32 adjacency;          // index
	struct adjacency *adj;
	__u64 head;               // word 0 of the adjacency, read once: MAC and flags
	struct connection *connection; // NULL where no state is kept
	__u32 zones;              // of the tracing build: ingress << 8 | egress
	__u32 verdict;            // of the classifier, 0 when it was not asked
};

static __always_inline int is_vlan(__be16 protocol)
{
	return protocol == bpf_htons(ETH_P_8021Q) || protocol == bpf_htons(ETH_P_8021AD);
}

// The logical interface of a tagged frame. 0 when there is none.
static __always_inline __u32 vlan_interface(const struct vlan_key *key)
{
	__u32 *interface = bpf_map_lookup_elem(&vlans, key);
	return interface ? *interface : 0;
}

static __always_inline enum reason parse_tags(struct packet *p, struct ethernet *eth, __u32 *outer)
{
	struct vlan_key key = { .port = p->interface, .outer_protocol = eth->protocol };
	struct tag *tag = (void *)(eth + 1);

	if ((void *)(tag + 1) > p->end)
		return REASON_ETHERTYPE;
	key.outer_id = *outer = bpf_ntohs(tag->tci) & VLAN_ID;
	p->protocol = tag->protocol;
	p->tags = 1;
	if (is_vlan(p->protocol)) {
		key.inner_protocol = p->protocol;
		tag++;
		if ((void *)(tag + 1) > p->end)
			return REASON_ETHERTYPE;
		key.inner_id = bpf_ntohs(tag->tci) & VLAN_ID;
		p->protocol = tag->protocol;
		p->tags = 2;
	}
	p->ip = tag + 1;
	p->interface = vlan_interface(&key);
	return REASON_NONE;
}

// Is the frame for its logical interface?
static __always_inline enum reason for_us(struct packet *p, struct ethernet *eth)
{
	p->in = bpf_map_lookup_elem(&interfaces, &p->interface);
	if (!p->in || !(p->in->flags & IF_KNOWN))
		return REASON_UNKNOWN_INTERFACE;
	if (eth->dst[0] & bpf_htons(0x0100)) // the group bit (IEEE 802.3 3.2.3)
		return REASON_GROUP_MAC;
	if ((eth->dst[0] ^ p->in->mac[0]) | (eth->dst[1] ^ p->in->mac[1]) | (eth->dst[2] ^ p->in->mac[2]))
		return REASON_OTHER_MAC;
	return REASON_NONE;
}

// Ethernet, tags, and the frame's logical interface.
static __always_inline enum reason parse_frame(struct packet *p)
{
	struct ethernet *eth = p->data;
	__u32 tag = 0;
	__u64 bridge;

	if ((void *)(eth + 1) > p->end)
		return REASON_ETHERTYPE;
	p->interface = p->ctx->ingress_ifindex;
	p->protocol = eth->protocol;
	p->ip = eth + 1;
	bridge = bridge_port(p->interface);
	if (is_vlan(eth->protocol)) {
		enum reason why = parse_tags(p, eth, &tag);

		if (why != REASON_NONE)
			return bridge ? REASON_BRIDGED : why;
	} else if (bridge) {
		p->interface = BRIDGE_UNTAGGED(bridge);
	}
	if (!bridge)
		return for_us(p, eth);
	if (for_us(p, eth) != REASON_NONE)
		return REASON_BRIDGED;
	return known_station(bridge, p->ctx->ingress_ifindex, tag,
			     (__u64)eth->src[2] << 32 | (__u64)eth->src[1] << 16 | eth->src[0], trace_build);
}

#endif
