// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Is it an IP packet at all? What fails here is dropped: Linux drops it too, before
// it looks at anything else (ip_rcv and ip6_rcv), and says nothing.
#ifndef MINNE_SANITY_H
#define MINNE_SANITY_H

#include "parse.h"

// A length field as a number. Linux 6.12's verifier forgets that a swap of two bytes
// gives less than 65,536; the barrier keeps the compiler from dropping the mask
// that reminds it.
static __always_inline __u32 wire_length(__be16 field)
{
	__u32 length = bpf_ntohs(field);

	asm volatile("" : "+r"(length));
	return length & 0xffff;
}

// Is the packet longer than the frame, or than what a session says is its own?
static __always_inline int too_long(struct packet *p)
{
	if (p->ip + p->length > p->end && (!jumbo_build || p->length > (__u32)(p->end - p->ip) + bytes_beyond(p->ctx)))
		return 1;
	return pppoe_build && p->in->flags & IF_SESSION && p->length > p->room;
}

// IPv4 header (RFC 1812 5.2.2). Options go to the kernel, which checks them.
static __always_inline enum reason sane_ipv4(struct packet *p)
{
	struct iphdr *ip = p->ip;
	__u16 *half = p->ip;
	__u32 sum = 0;

	if ((void *)(ip + 1) > p->end)
		return jumbo_build && bytes_beyond(p->ctx) ? REASON_TRANSPORT : REASON_TRUNCATED;
	if (ip->version != 4 || ip->ihl < 5)
		return REASON_BAD_VERSION;
	if (ip->ihl > 5)
		return REASON_OPTIONS;
	#pragma unroll
	for (int i = 0; i < 10; i++) // RFC 1071; byte order does not matter
		sum += half[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	if (sum != 0xffff)
		return REASON_BAD_CHECKSUM;
	p->length = wire_length(ip->tot_len);
	if (p->length < sizeof(*ip) || too_long(p))
		return REASON_BAD_LENGTH;
	return REASON_NONE;
}

// IPv6 header (RFC 8200 3).
static __always_inline enum reason sane_ipv6(struct packet *p)
{
	struct ipv6hdr *ip = p->ip;

	if ((void *)(ip + 1) > p->end)
		return jumbo_build && bytes_beyond(p->ctx) ? REASON_TRANSPORT : REASON_TRUNCATED;
	if (ip->version != 6)
		return REASON_BAD_VERSION;
	p->length = sizeof(*ip) + wire_length(ip->payload_len);
	if (too_long(p))
		return REASON_BAD_LENGTH;
	return REASON_NONE;
}

#endif
