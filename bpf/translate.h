// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Writes a flow's translation into a packet: addresses, ports, and the checksums by what
// that changes (RFC 1624), so that a packet whose checksum was wrong leaves with
// one that is as wrong, as from the kernel.
#ifndef MINNE_TRANSLATE_H
#define MINNE_TRANSLATE_H

#include "transport.h"

// A sum of 32-bit values as 16 bits in one's complement.
static __always_inline __u16 fold16(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

// What replacing a 32-bit value, or a 16-bit one, adds to a sum.
static __always_inline __u64 change32(__u32 old, __u32 new) { return (__u64)(__u32)~old + new; }
static __always_inline __u64 change16(__u16 old, __u16 new) { return (__u64)(__u16)~old + new; }

static __always_inline __u16 changed(__u16 check, __u64 change)
{
	return ~fold16((__u16)~check + change);
}

struct echo {
	__u8 type;
	__u8 code;
	__u16 check;
	__u16 id;
};

// The id of an ICMP echo. Addresses are part of the checksum of ICMPv6 only.
static __always_inline int translate_echo(struct packet *p, void *at, __u16 id, __u64 change)
{
	struct echo *echo = at;

	if ((void *)(echo + 1) > p->end)
		return 0;
	change = (p->transport.protocol == IPPROTO_ICMPV6 ? change : 0) + change16(echo->id, id);
	echo->id = id;
	echo->check = changed(echo->check, change);
	return 1;
}

// Ports and checksum of TCP and UDP, and an echo's id; other protocols have addresses only. change is that of the addresses. UDP over IPv4 may come without
// a checksum, and leaves without.
static __always_inline int translate_ports(struct packet *p, void *at, __u32 to, __u64 change)
{
	__u16 sport = to, dport = to >> 16;

	if (p->transport.protocol == IPPROTO_TCP) {
		struct segment *tcp = at;

		if ((void *)(tcp + 1) > p->end)
			return 0;
		change += change16(tcp->sport, sport) + change16(tcp->dport, dport);
		tcp->sport = sport;
		tcp->dport = dport;
		tcp->check = changed(tcp->check, change);
		return 1;
	}

	struct datagram *udp = at;

	if (p->transport.protocol != IPPROTO_UDP)
		return p->transport.protocol == IPPROTO_ICMP || p->transport.protocol == IPPROTO_ICMPV6 ? translate_echo(p, at, to, change) : 1;
	if ((void *)(udp + 1) > p->end)
		return 0;
	change += change16(udp->sport, sport) + change16(udp->dport, dport);
	udp->sport = sport;
	udp->dport = dport;
	if (udp->check) {
		__u16 check = changed(udp->check, change);

		udp->check = check ? check : 0xffff;
	}
	return 1;
}

static __always_inline int translate4(struct packet *p, struct iphdr *ip, const struct flow_key *to)
{
	__u64 change;

	if ((void *)(ip + 1) > p->end)
		return 0;
	change = change32(ip->saddr, to->src[1]) + change32(ip->daddr, to->dst[1]);
	ip->saddr = to->src[1];
	ip->daddr = to->dst[1];
	ip->check = changed(ip->check, change);
	return translate_ports(p, ip + 1, to->rest, change);
}

static __always_inline int translate6(struct packet *p, struct ipv6hdr *ip, const struct flow_key *to)
{
	const __u32 *src = (const __u32 *)to->src, *dst = (const __u32 *)to->dst;
	__u64 change = 0;

	if ((void *)(ip + 1) > p->end)
		return 0;
	#pragma unroll
	for (int i = 0; i < 4; i++) {
		change += change32(ip->saddr.s6_addr32[i], src[i]) + change32(ip->daddr.s6_addr32[i], dst[i]);
		ip->saddr.s6_addr32[i] = src[i];
		ip->daddr.s6_addr32[i] = dst[i];
	}
	return translate_ports(p, ip + 1, to->rest, change);
}

#endif
