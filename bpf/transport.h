// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What the firewall looks at behind the IP header: protocol, ports, TCP's flags,
// ICMP's type. Without a firewall nothing of it is read.
//
// A packet that ends inside such a header, or whose header tells a length that
// can't be, is the kernel's: conntrack calls it invalid, and rules about ports do not
// match it. So are IPv6 extension headers, which the kernel's rules look behind.
#ifndef MINNE_TRANSPORT_H
#define MINNE_TRANSPORT_H

#include <linux/in.h>

#include "ecmp.h"
#include "policy.h"
#include "sanity.h"

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10
#define TCP_URG 0x20
#define TCP_DATA 0x80 // not of the wire, where it is CWR (RFC 3168): bytes follow the header

struct segment {
	__be16 sport;
	__be16 dport;
	__be32 sequence;
	__be32 acknowledged;
	__u8 offset; // upper half: length of the header in 32-bit words
	__u8 flags;
	__be16 window;
	__be16 check;
	__be16 urgent;
};

struct datagram {
	__be16 sport;
	__be16 dport;
	__be16 length;
	__be16 check;
};

static __always_inline enum reason read_tcp(struct transport *t, const struct segment *tcp, const void *end, __u32 length)
{
	if ((const void *)(tcp + 1) > end || length < sizeof(*tcp))
		return REASON_TRANSPORT;

	__u32 header = tcp->offset >> 4 << 2;

	if (header < sizeof(*tcp) || header > length)
		return REASON_TRANSPORT;
	t->tcp = (tcp->flags & 0x3f) | (length > header ? TCP_DATA : 0);
	t->sequence = bpf_ntohl(tcp->sequence) >> 16;
	t->sport = tcp->sport;
	t->dport = tcp->dport;
	return REASON_NONE;
}

// UDP, and other protocols that have ports in the same place and as long a header.
static __always_inline enum reason read_ports(struct transport *t, const struct datagram *udp, const void *end, __u32 length)
{
	if ((const void *)(udp + 1) > end || length < sizeof(*udp))
		return REASON_TRANSPORT;
	if (t->protocol == IPPROTO_UDP) {
		__u32 told = wire_length(udp->length);

		if (told < sizeof(*udp) || told > length)
			return REASON_TRANSPORT;
	}
	t->sport = udp->sport;
	t->dport = udp->dport;
	t->sequence = udp->length; // of ICMP: the id of an echo
	return REASON_NONE;
}

// Whether conntrack keys a packet of GRE by its addresses alone, and translates nothing behind the IP
// header: version 0 (RFC 2784, with a key RFC 2890), and eight bytes of it.
static __always_inline int gre_by_addresses(const struct datagram *gre, const void *end, __u32 length)
{
	return (const void *)(gre + 1) <= end && length >= sizeof(*gre) && !(gre->sport & bpf_htons(7));
}

// Global functions, which the verifier reads once, can have the context as an argument only where the kernel has
// BTF, as it has where it has the functions of conntrack.
#ifdef CONNTRACK
#define WITH_CONTEXT __attribute__((weak)) __noinline
#else
#define WITH_CONTEXT static __noinline
#endif

// read_transport reads the header that begins at an offset of the frame; length is the IP packet's
// from there on.
WITH_CONTEXT int read_transport(struct xdp_md *ctx, struct transport *t, __u32 offset, __u32 length)
{
	const void *end = (void *)(long)ctx->data_end, *at;

	// Always two more than a multiple of four, as the frame begins two bytes before one: CPUs that need loads to be
	// aligned have to know.
	at = (void *)(long)ctx->data + ((offset & 0xfc) | 2);

	if (!t)
		return REASON_INTERNAL;
	switch (t->protocol) {
	case IPPROTO_TCP:
		return read_tcp(t, at, end, length);
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
		return read_ports(t, at, end, length);
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		TRY(read_ports(t, at, end, length));
		t->dport = t->sport; // type and code are the first two bytes
		t->sport = 0;
		break;
	case IPPROTO_GRE:
		t->sequence = gre_by_addresses(at, end, length);
	}
	return REASON_NONE;
}

// What is behind an IP header of so many bytes.
static __always_inline enum reason look_behind(struct packet *p, __u32 header)
{
	TRY(read_transport(p->ctx, &p->transport, p->ip - p->data + header, p->length - header));
#ifndef CONNTRACK
	// Makes the verifier forget which protocol leaves what, or it would go on for each of them.
	__u64 any = p->ctx->ingress_ifindex, *all = (__u64 *)&p->transport, found = *all;

	asm volatile("%0 ^= %1; %0 ^= %1" : "+r"(found) : "r"(any));
	*all = found;
#endif
	return REASON_NONE;
}

static __always_inline enum reason transport4(struct packet *p, struct control *c)
{
	struct iphdr *ip = p->ip;

	if (!firewall_build)
		return REASON_NONE;
	p->policy = *(volatile __u32 *)&c->policy;
	if (!p->policy)
		return REASON_NONE;
	if (p->policy & POLICY_KERNEL)
		return REASON_FIREWALL;
	p->transport.protocol = ip->protocol;
	return look_behind(p, sizeof(*ip));
}

static __always_inline enum reason transport6(struct packet *p, struct control *c)
{
	struct ipv6hdr *ip = p->ip;

	if (!firewall_build)
		return REASON_NONE;
	p->policy = *(volatile __u32 *)&c->policy;
	if (!p->policy)
		return REASON_NONE;
	if (p->policy & POLICY_KERNEL)
		return REASON_FIREWALL;
	if (walks6(ip->nexthdr) || ip->nexthdr == IPPROTO_AH)
		return REASON_EXTENSION_HEADER;
	p->transport.protocol = ip->nexthdr;
	return look_behind(p, sizeof(*ip));
}

#endif
