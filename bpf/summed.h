// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Has the sender computed the packet's checksum?
//
// A host behind a virtual port (a container behind a veth, a guest behind a tap) need not: Linux leaves the
// checksum to "hardware", and so to whoever puts the packet on a wire. It writes the sum of the pseudo header
// into the field, and notes where to sum from beside the packet (CHECKSUM_PARTIAL), where XDP can't see
// it; the kernel can. So a packet whose field has that very sum goes up. One in 65,536 others has it too: the
// kernel forwards it just as well.
//
// Tunnels leave the checksum of what they carry to hardware, so it is looked for behind their headers: IP in IP, GRE,
// VXLAN and Geneve on their usual ports. What is encrypted or fragmented is always summed before. Only ports whose
// driver may hand such packets to XDP are looked at (leavesSums of internal/subsystem/fastpath): hardware computes.
#ifndef MINNE_SUMMED_H
#define MINNE_SUMMED_H

#include "translate.h"

#define PORT_VXLAN 4789       // RFC 7348
#define PORT_VXLAN_LINUX 8472 // Linux's own before that
#define PORT_GENEVE 6081      // RFC 8926

#define TYPE_BRIDGED 0x6558 // Ethernet in GRE and Geneve

// A part of a packet, from its IP header on, or from a later one: a copy, so that the search behind tunnels is one function
// which the verifier reads once.
#define WINDOW 256
#define MAX_WINDOWS 4
#define MAX_BEHIND 8 // headers that are stepped over in one of them

struct window {
	__u8 bytes[WINDOW];
	__u32 length;  // of the copy
	__u32 packet;  // of the packet, from here on
	__u32 at;      // how far it was read
	__u32 follows; // what is there
	__u32 behind;  // bytes behind the last IP header
	__u32 source;  // sum of that header's source address
	__u32 sum;     // and with the last destination's
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct window);
} windows SEC(".maps");

// What may follow in a packet beside what IP has numbers for.
#define FOLLOWS_NOTHING 255
#define FOLLOWS_ETHERNET 256
#define FOLLOWS_VXLAN 257
#define FOLLOWS_GENEVE 258

static __always_inline __u32 word_at(const struct window *w, __u32 at)
{
	return w->bytes[at & (WINDOW - 1)] << 8 | w->bytes[(at + 1) & (WINDOW - 1)];
}

static __always_inline __u32 type_follows(__u32 type)
{
	switch (type) {
	case ETH_P_IP:
		return IPPROTO_IPIP;
	case ETH_P_IPV6:
		return IPPROTO_IPV6;
	case TYPE_BRIDGED:
		return FOLLOWS_ETHERNET;
	}
	return FOLLOWS_NOTHING;
}

static __always_inline __u32 port_follows(__u32 port)
{
	switch (port) {
	case PORT_VXLAN:
	case PORT_VXLAN_LINUX:
		return FOLLOWS_VXLAN;
	case PORT_GENEVE:
		return FOLLOWS_GENEVE;
	}
	return FOLLOWS_NOTHING;
}

// How many bytes of a header are read.
static __always_inline __u32 read_of(__u32 follows)
{
	switch (follows) {
	case IPPROTO_IPIP:
	case IPPROTO_TCP:
		return 20;
	case IPPROTO_IPV6:
		return 40;
	case IPPROTO_SCTP:
		return 12;
	case FOLLOWS_ETHERNET:
		return 14;
	case IPPROTO_ROUTING: // one of type 4 or 2 has an address
		return 24;
	}
	return 8;
}

static __always_inline __u32 sum16_at(const struct window *w, __u32 at)
{
	__u32 sum = 0;

	#pragma unroll
	for (int i = 0; i < 8; i++)
		sum += word_at(w, at + 2 * i);
	return sum;
}

enum found {
	FOUND_HEADER, // one that is stepped over
	FOUND_SUMMED,
	FOUND_UNSUMMED,
	FOUND_EDGE, // of the window
};

// step_behind looks at the header at the window's place, and steps over it. A function of its own, so that the verifier
// reads it once and not for each way through those before.
__attribute__((weak)) __noinline int step_behind(struct window *w)
{
	__u32 at, first;

	if (!w)
		return FOUND_SUMMED;
	at = w->at;
	if (at + read_of(w->follows) > w->length)
		return at + read_of(w->follows) > w->packet ? FOUND_SUMMED : FOUND_EDGE; // a packet that ends too early is not
	first = word_at(w, at);
	switch (w->follows) {
	case IPPROTO_TCP:
		return word_at(w, at + 16) == fold16((__u64)w->sum + w->behind + IPPROTO_TCP) ? FOUND_UNSUMMED : FOUND_SUMMED;
	case IPPROTO_UDP:
		if (word_at(w, at + 6) == fold16((__u64)w->sum + w->behind + IPPROTO_UDP))
			return FOUND_UNSUMMED;
		w->follows = port_follows(word_at(w, at + 2));
		w->at = at + 8;
		return FOUND_HEADER;
	case IPPROTO_SCTP:
		return word_at(w, at + 8) | word_at(w, at + 10) ? FOUND_SUMMED : FOUND_UNSUMMED;
	case IPPROTO_IPIP:
		w->sum = word_at(w, at + 12) + word_at(w, at + 14) + word_at(w, at + 16) + word_at(w, at + 18);
		w->behind = word_at(w, at + 2) - (first >> 8 & 15) * 4;
		w->follows = word_at(w, at + 6) & 0x3fff ? FOLLOWS_NOTHING : word_at(w, at + 8) & 0xff;
		w->at = at + (first >> 8 & 15) * 4;
		return FOUND_HEADER;
	case IPPROTO_IPV6:
		w->source = sum16_at(w, at + 8);
		w->sum = w->source + sum16_at(w, at + 24);
		w->behind = word_at(w, at + 4);
		w->follows = word_at(w, at + 6) >> 8;
		w->at = at + 40;
		return FOUND_HEADER;
	case IPPROTO_ROUTING: // RFC 8754, RFC 6275: the first address is the last destination
		if (word_at(w, at + 2) & 0xff)
			w->sum = w->source + sum16_at(w, at + 8);
	case IPPROTO_DSTOPTS: // fall through
		w->behind -= ((first & 0xff) + 1) * 8;
		w->at = at + ((first & 0xff) + 1) * 8;
		w->follows = first >> 8;
		return FOUND_HEADER;
	case IPPROTO_GRE: // RFC 2784, RFC 2890: checksum, key, number
		w->follows = first & 7 ? FOLLOWS_NOTHING : type_follows(word_at(w, at + 2));
		w->at = at + 4 + 4 * (first >> 15 & 1) + 4 * (first >> 13 & 1) + 4 * (first >> 12 & 1);
		return FOUND_HEADER;
	case FOLLOWS_VXLAN:
		w->follows = FOLLOWS_ETHERNET;
		w->at = at + 8;
		return FOUND_HEADER;
	case FOLLOWS_GENEVE:
		w->follows = type_follows(word_at(w, at + 2));
		w->at = at + 8 + (first >> 8 & 0x3f) * 4;
		return FOUND_HEADER;
	case FOLLOWS_ETHERNET:
		w->follows = type_follows(word_at(w, at + 12));
		w->at = at + sizeof(struct ethernet);
		return FOUND_HEADER;
	}
	return FOUND_SUMMED;
}

// Looks through a window. FOUND_EDGE: more of the packet is needed.
__attribute__((weak)) __noinline int look_through(struct window *w)
{
	for (int i = 0; i < MAX_BEHIND; i++) {
		int found = step_behind(w);

		if (found != FOUND_HEADER)
			return found;
	}
	return FOUND_EDGE;
}

// unsummed_within says whether the innermost segment or datagram of the IP packet that begins at an offset of the frame
// is not summed yet.
static __noinline int unsummed_within(struct xdp_md *ctx, __u32 offset, __u32 packet, __u32 ipv6)
{
	__u32 zero = 0;
	struct window *w = bpf_map_lookup_elem(&windows, &zero);

	if (!w)
		return 1;
	w->packet = packet;
	w->follows = ipv6 ? IPPROTO_IPV6 : IPPROTO_IPIP;
	w->at = w->behind = w->source = w->sum = 0;
	for (int i = 0; i < MAX_WINDOWS; i++) {
		__u32 length = w->packet < WINDOW ? w->packet : WINDOW;
		int found;

		asm volatile("" : "+r"(length)); // the verifier has to see both bounds
		if (!length || length > WINDOW || bpf_xdp_load_bytes(ctx, offset, w->bytes, length))
			return 0;
		w->length = length;
		found = look_through(w);
		if (found != FOUND_EDGE)
			return found == FOUND_UNSUMMED;
		if (w->at >= w->packet)
			return 0;
		offset += w->at;
		w->packet -= w->at;
		w->at = 0;
	}
	return 1; // nobody knows: the kernel does
}

// Most packets are told by their own TCP or UDP header. sum is that of the addresses.
static __always_inline int unsummed(struct packet *p, __u32 header, __u32 protocol, __u64 sum, __u32 ipv6)
{
	void *at = p->ip + header;
	__u64 pseudo = sum + bpf_htons(p->length - header) + bpf_htons(protocol);

	switch (protocol) {
	case IPPROTO_TCP: {
		struct segment *tcp = at;

		return (void *)(tcp + 1) <= p->end && tcp->check == fold16(pseudo);
	}
	case IPPROTO_UDP: {
		struct datagram *udp = at;

		if ((void *)(udp + 1) > p->end)
			return 0;
		if (udp->check == fold16(pseudo))
			return 1;
		if (port_follows(bpf_ntohs(udp->dport)) == FOLLOWS_NOTHING)
			return 0;
		break;
	}
	case IPPROTO_SCTP:
	case IPPROTO_IPIP:
	case IPPROTO_IPV6:
	case IPPROTO_GRE:
	case IPPROTO_DSTOPTS:
	case IPPROTO_ROUTING:
		break;
	default:
		return 0;
	}
	return unsummed_within(p->ctx, p->ip - p->data, p->length, ipv6);
}

static __always_inline enum reason summed4(struct packet *p)
{
	struct iphdr *ip = p->ip;

	if (!(p->in->flags & IF_UNSUMMED))
		return REASON_NONE;
	return unsummed(p, sizeof(*ip), ip->protocol, (__u64)ip->saddr + ip->daddr, 0) ? REASON_CHECKSUM_OFFLOAD : REASON_NONE;
}

static __always_inline enum reason summed6(struct packet *p)
{
	struct ipv6hdr *ip = p->ip;
	__u64 sum = 0;

	if (!(p->in->flags & IF_UNSUMMED))
		return REASON_NONE;
	#pragma unroll
	for (int i = 0; i < 4; i++)
		sum += (__u64)ip->saddr.s6_addr32[i] + ip->daddr.s6_addr32[i];
	return unsummed(p, sizeof(*ip), ip->nexthdr, sum, 1) ? REASON_CHECKSUM_OFFLOAD : REASON_NONE;
}

#endif
