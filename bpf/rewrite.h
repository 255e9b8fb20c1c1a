// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The only place that writes to packets. It begins when everything is decided; the
// one thing that can still go wrong (no room for a longer Ethernet header) is tried
// first, so that a packet goes up untouched or leaves rewritten whole.
#ifndef MINNE_REWRITE_H
#define MINNE_REWRITE_H

#include "route.h"

// Makes the room in front of the IP header fit the tags to push, and the header of a session.
static __always_inline enum reason fit_tags(struct packet *p, struct decision *d, __u32 tags)
{
	int less = ((int)p->tags - (int)tags) * (int)sizeof(struct tag);

	if (pppoe_build) {
		d->session = d->adj->in_session;
		less = bytes_ahead_of(p->data, p->ip) - tags * sizeof(struct tag) - pppoe_bytes(d->session);
	}
	if (!less)
		return REASON_NONE;
	if (bpf_xdp_adjust_head(p->ctx, less))
		return REASON_HEADROOM;
	p->data = (void *)(long)p->ctx->data;
	p->end = (void *)(long)p->ctx->data_end;
	return REASON_NONE;
}

// The header of a PPPoE session in front of an IP packet.
static __always_inline void *write_session(struct packet *p, struct adjacency *adj, void *at)
{
	struct pppoe *header = at;

	if ((void *)(header + 1) > p->end)
		return NULL;
	header->first = bpf_htons(PPPOE_FIRST);
	header->session = adj->session;
	header->length = bpf_htons(p->length + sizeof(header->protocol));
	header->protocol = p->protocol == bpf_htons(ETH_P_IP) ? bpf_htons(PPP_IPV4) : bpf_htons(PPP_IPV6);
	return header + 1;
}

// Writes the Ethernet header, tags and the header of a session. Returns where the IP header begins, or NULL
// when the frame has become too short, which can't be.
static __always_inline void *write_ethernet(struct packet *p, struct decision *d, __u32 tags)
{
	struct adjacency *head = (struct adjacency *)&d->head, *adj = d->adj;
	struct ethernet *eth = p->data;
	__be16 *protocol = &eth->protocol;
	struct tag *tag = (void *)(eth + 1);

	if ((void *)(eth + 1) > p->end)
		return NULL;
	#pragma unroll
	for (int i = 0; i < 3; i++) {
		eth->dst[i] = head->dst[i];
		eth->src[i] = adj->src[i];
	}
	#pragma unroll
	for (int i = 0; i < MAX_TAGS; i++) {
		if (i == tags)
			break;
		if ((void *)(tag + 1) > p->end)
			return NULL;
		*protocol = adj->tag[2 * i];
		tag->tci = adj->tag[2 * i + 1];
		protocol = &tag->protocol;
		tag++;
	}
	if (pppoe_build && d->session) {
		*protocol = bpf_htons(ETHERTYPE_SESSION);
		return write_session(p, adj, tag);
	}
	*protocol = p->protocol;
	return tag;
}

// TTL less one, and the checksum by what that changes (RFC 1141), with the very
// arithmetic of Linux, so that the bytes are the same.
static __always_inline int age_ipv4(struct packet *p, struct iphdr *ip)
{
	__u32 check;

	if ((void *)(ip + 1) > p->end)
		return 0;
	check = ip->check;
	check += bpf_htons(0x0100);
	ip->check = check + (check >= 0xffff);
	ip->ttl--;
	return 1;
}

// Hop limit less one; IPv6 has no header checksum.
static __always_inline int age_ipv6(struct packet *p, struct ipv6hdr *ip)
{
	if ((void *)(ip + 1) > p->end)
		return 0;
	ip->hop_limit--;
	return 1;
}

// Cuts off what trails the IP packet (Ethernet padding), as Linux does on receipt.
static __always_inline void trim(struct packet *p, __u32 frame_bytes)
{
	long surplus = (p->end - p->data) - (long)frame_bytes;

	if (jumbo_build) // the packet may end in the first buffer, and what trails it not
		surplus += bytes_beyond(p->ctx);
	if (surplus > 0)
		bpf_xdp_adjust_tail(p->ctx, -(int)surplus);
}

#endif
