// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// From frame to logical interface: the Ethernet header, up to two VLAN tags, the header
// of a PPPoE session, and the question whether the frame is for us at all.
#ifndef MINNE_PARSE_H
#define MINNE_PARSE_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>

#include "bond.h"
#include "bridge.h"
#include "fib_vrf.h"
#include "jumbo.h"
#include "maps.h"
#include "pppoe.h"
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
	__be16 protocol;         // ethertype after the tags, or what it means in a session
	__u16 vrf;               // by whose table it is routed (fib_vrf.h), 0 for main's
	__u32 policy;            // control.policy, read once
	__be32 dst[4];           // destination that is routed: the packet's, or its translation; IPv4 in the first
	__u32 room;              // bytes that an IP packet in a session may have
	struct transport transport;
};

// What is done with a packet, as far as the stages have decided.
struct decision {
	__u32 nexthop;            // index from the FIB
	__u64 hop;                // its word in nexthops
	__u32 adjacency;          // index
	__u32 session;            // whether the packet leaves in a session of PPPoE, read once
	struct adjacency *adj;
	__u64 head;               // word 0 of the adjacency, read once: MAC and flags
	struct connection *connection; // NULL where no state is kept
	__u32 zones;              // of the tracing build: ingress << 8 | egress
	__u32 verdict;            // of the classifier, 0 when it was not asked
};

// Bytes between the Ethernet header and the IP packet: at most 16, in steps of four.
static __always_inline __u64 bytes_ahead_of(void *data, void *ip)
{
	return (ip - data - sizeof(struct ethernet)) & 28;
}

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
	if (vrf_build)
		p->vrf = p->in->flags >> IF_VRF_SHIFT;
	return REASON_NONE;
}

// An IP packet in a session that is known. Whose sender or number is another is the kernel's, as is what
// is no IP packet, or is longer than the frame.
static __noinline enum reason parse_session(struct packet *p, struct ethernet *eth)
{
	struct session *s = bpf_map_lookup_elem(&sessions, &p->interface);
	struct pppoe *header = p->ip;
	__u32 interface, length;

	if (!s || (void *)(header + 1) > p->end)
		return REASON_ETHERTYPE;
	interface = *(volatile __u32 *)&s->interface;
	if (!interface || header->first != bpf_htons(PPPOE_FIRST) || header->session != s->id)
		return REASON_ETHERTYPE;
	if ((eth->src[0] ^ s->peer[0]) | (eth->src[1] ^ s->peer[1]) | (eth->src[2] ^ s->peer[2]))
		return REASON_ETHERTYPE;
	length = bpf_ntohs(header->length);
	if (length <= sizeof(header->protocol) || (void *)&header->protocol + length > p->end)
		return REASON_ETHERTYPE;
	if (header->protocol == bpf_htons(PPP_IPV4))
		p->protocol = bpf_htons(ETH_P_IP);
	else if (header->protocol == bpf_htons(PPP_IPV6))
		p->protocol = bpf_htons(ETH_P_IPV6);
	else
		return REASON_ETHERTYPE;
	p->room = length - sizeof(header->protocol);
	p->ip = header + 1;
	p->interface = interface;
	return REASON_NONE;
}

// Says anew where the IP packet begins, by a number that the verifier knows nothing of: else it would go through the rest
// of the program once for each number of tags, with and without a session, and that is too much.
static __always_inline void begin_ip(struct packet *p)
{
	void *ip = p->ip;
	__u64 ahead;

	if (!pppoe_build)
		return;
	asm volatile("" : "+r"(ip)); // or the compiler knows the difference
	ahead = bytes_ahead_of(p->data, ip);
	p->data = (void *)(long)p->ctx->data; // of which the verifier does not know how much there is
	p->ip = p->data + sizeof(struct ethernet) + ahead;
}

// Ethernet, tags, session, and the frame's logical interface.
static __always_inline enum reason parse_frame(struct packet *p)
{
	struct ethernet *eth = p->data;
	__u32 tag = 0;
	__u64 bridge;

	if ((void *)(eth + 1) > p->end)
		return REASON_ETHERTYPE;
	p->interface = arrival_port(p->ctx->ingress_ifindex);
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
	if (pppoe_build && !bridge && p->protocol == bpf_htons(ETHERTYPE_SESSION))
		TRY(parse_session(p, eth));
	if (!bridge)
		return for_us(p, eth);
	if (for_us(p, eth) != REASON_NONE)
		return REASON_BRIDGED;
	return known_station(bridge, arrival_port(p->ctx->ingress_ifindex), tag,
			     (__u64)eth->src[2] << 32 | (__u64)eth->src[1] << 16 | eth->src[0], trace_build);
}

#endif
