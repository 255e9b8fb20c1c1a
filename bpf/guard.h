// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The guard: what may go up to the kernel, so that a flood does not starve the
// router's own sessions.
//
// The fast path forwards many times faster than the kernel takes packets, so what
// floods the kernel floods the router: its processor, its receive queues, and with them
// BGP's keepalives. Every packet that would go up is therefore of a class, and every
// class has its own budget (guard_budget.h): what the router needs to live (its
// sessions, routing protocols, neighbours) never shares one with what anybody can send.
// A budget is first of all that of an interface, and of a sender there: what floods one
// port leaves the others their part. A packet over budget is dropped with REASON_GUARD. What the fast path forwards
// itself never comes here.
//
// A class is told from the reason for which the packet goes up, and from the packet
// where the reason leaves open what it is. Nothing in a packet is believed that can be
// asked for: a TCP segment is of a session when a socket of the router holds exactly
// that connection (bpf_skc_lookup_tcp), a routing protocol's packet is of a neighbour when
// the kernel has resolved that address to that MAC on that interface.
//
// guard_admits(p, why) is called once for each packet that would go up (leave.h),
// before anything is written to it, and not by the tracing build. It needs maps.h and the
// tables that the router has anyway, and guard_control, guard_budgets (mmap), guard_ports,
// guard_peers and guard_counts, which internal/subsystem/fastpath/guard fills and reads.
#ifndef MINNE_GUARD_H
#define MINNE_GUARD_H

#include <linux/in.h>

#include "guard_budget.h"
#include "parse.h"
#include "ordinary.h"
#include "route.h"
#include "spoof.h"

// Stations that the configuration names. IPv4 addresses as IPv4-mapped IPv6 (RFC 4291
// 2.5.5.2). Written by the daemon with map updates.
#define GUARD_MAX_PEERS 4096

enum guard_peer_flags {
	GUARD_PEER_BGP = 1,     // a BGP peer
	GUARD_PEER_GATEWAY = 2, // a next hop: its ARP and neighbour discovery count as a neighbour's
};

struct guard_peer {
	__be32 address[4];
	__u32 interface; // of a link-local address, else 0
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GUARD_MAX_PEERS);
	__uint(map_flags, NO_PREALLOC);
	__type(key, struct guard_peer);
	__type(value, __u32);
} guard_peers SEC(".maps");

// Where a reason leads: the class, and whether the packet may be for the router.
#define GUARD_CLASS 0x3f
#define GUARD_ASK 0x40 // the routing table knows
#define GUARD_LOCAL 0x80 // it is, or for whoever listens on the link
#define GUARD_GROUP 0x100 // and not for the router alone
#define GUARD_KNOWN 0x200 // TCP and UDP are of a connection that conntrack knows
#define GUARD_MAYBE 0x400 // the kernel may translate it: what no socket of the router takes is not the router's
#define GUARD_SOURCE 0x800 // where the source's route leads says whether the kernel may well forward it
#define GUARD_HEADER 0x1000 // and here the IPv6 header

#define GUARD_OF_REASON(name, guard, label, text, hint) [REASON_##name] = guard,
static const __u16 guard_of_reason[REASON_COUNT] = { PUNT_REASONS(GUARD_OF_REASON) };

// States of a socket (include/net/tcp_states.h) in which it holds a connection: ESTABLISHED, SYN_SENT,
// FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK.
#define GUARD_HOLDS (1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9)
#define GUARD_STATES 16
#define GUARD_LISTENS 10 // LISTEN
#define GUARD_ESTABLISHED 1 // of a UDP socket: it is connected
#define GUARD_SYN 0x02
#define GUARD_ACK 0x10

#define GUARD_ETH_LLDP 0x88cc
#define GUARD_OSPF 89
#define GUARD_VRRP 112

#define GUARD_ECHO4 8
#define GUARD_ECHO6 128
#define GUARD_ND_FIRST 133 // router solicitation … redirect, RFC 4861
#define GUARD_ND_LAST 137

// What a packet is to the guard.
struct guard_case {
	__u64 source;  // whose share it uses: address, or MAC
	__u32 class;   // enum guard_class
	__u32 trusted; // not counted against any share
};

// The sender and its IP packet, as far as it is looked at.
struct guard_sender {
	struct guard_peer peer; // its address
	__u64 mac;
	__u32 flags;     // guard_peer_flags, 0 for a stranger
	__u32 neighbour; // the kernel has resolved its address, to this MAC
};

static __always_inline __u64 guard_mac(const struct packet *p)
{
	struct ethernet *eth = p->data;

	if ((void *)(eth + 1) > p->end)
		return 0;
	return (__u64)eth->src[0] << 32 | (__u64)eth->src[1] << 16 | eth->src[2];
}

// Whether an adjacency is to that MAC, and known to be.
static __always_inline int guard_reaches(__u32 adjacency, __u64 mac)
{
	struct adjacency *a = bpf_map_lookup_elem(&adjacencies, &adjacency);

	return a && a->flags & ADJ_VALID && ((__u64)a->dst[0] << 32 | (__u64)a->dst[1] << 16 | a->dst[2]) == mac;
}

static __always_inline void guard_who(struct guard_sender *s, __u32 *adjacency)
{
	__u32 *flags = bpf_map_lookup_elem(&guard_peers, &s->peer);

	s->flags = flags ? *flags : 0;
	s->neighbour = adjacency && guard_reaches(*(volatile __u32 *)adjacency, s->mac);
}

static __always_inline void guard_who4(const struct packet *p, struct guard_sender *s, __be32 address)
{
	struct neighbour4 key = { .interface = p->interface, .address = address };

	s->mac = guard_mac(p);
	s->peer.address[2] = bpf_htonl(0xffff);
	s->peer.address[3] = address;
	guard_who(s, bpf_map_lookup_elem(&neighbours4, &key));
}

static __always_inline void guard_who6(const struct packet *p, struct guard_sender *s, const struct in6_addr *address)
{
	struct neighbour6 key = { .interface = p->interface };

	s->mac = guard_mac(p);
	__builtin_memcpy(s->peer.address, address->s6_addr32, sizeof(s->peer.address));
	__builtin_memcpy(key.address, address->s6_addr32, sizeof(key.address));
	if (link_local6(address))
		s->peer.interface = p->interface;
	guard_who(s, bpf_map_lookup_elem(&neighbours6, &key));
}

// Who sent a packet. Asked only where it matters: the answer costs as much as all the rest.
static __noinline void guard_sent_by(const struct packet *p, struct guard_sender *s)
{
	struct iphdr *ip = p->ip;
	struct ipv6hdr *ip6 = p->ip;

	if (p->protocol == bpf_htons(ETH_P_IP) && (void *)(ip + 1) <= p->end)
		guard_who4(p, s, ip->saddr);
	else if (p->protocol == bpf_htons(ETH_P_IPV6) && (void *)(ip6 + 1) <= p->end)
		guard_who6(p, s, &ip6->saddr);
}

// Whose share an IPv6 sender uses: that of its /64, which one subscriber has, on the link its own.
static __always_inline __u64 guard_share6(const struct in6_addr *a)
{
	return link_local6(a) ? low64(a) : high64(a);
}

// Discovery of neighbours. A sender that is one has a share by its MAC. A configured next
// hop that has not been resolved has one by its address, which it shares with all that claim to be it.
static __always_inline void guard_discovery(struct guard_case *c, const struct guard_sender *s)
{
	c->source = s->mac;
	c->class = GUARD_ARP;
	if (s->neighbour) {
		c->class = GUARD_NEIGHBOUR;
	} else if (s->flags) {
		c->class = GUARD_NEIGHBOUR;
		c->source = ~(__u64)bpf_ntohl(s->peer.address[3]);
	}
}

// ARP for IPv4 over Ethernet (RFC 826), behind the Ethernet header.
struct guard_arp {
	__be16 hardware;
	__be16 protocol;
	__u8 lengths[2];
	__be16 operation;
	__be16 sender_mac[3];
	__be16 sender[2]; // not aligned to four bytes
	__be16 target_mac[3];
	__be16 target[2];
};

static __always_inline __be32 guard_halves(const __be16 *h)
{
	__be32 word;

	__builtin_memcpy(&word, h, sizeof(word));
	return word;
}

static __always_inline void guard_see_arp(const struct packet *p, struct guard_case *c)
{
	struct guard_sender s = {};
	struct guard_arp *arp = p->ip;

	c->class = GUARD_ARP_OTHERS;
	c->source = guard_mac(p);
	if ((void *)(arp + 1) > p->end)
		return;
	guard_who4(p, &s, guard_halves(arp->sender));
	if (s.neighbour || s.flags || perhaps_own(bpf_ntohl(guard_halves(arp->target))))
		guard_discovery(c, &s);
}

// Other than IP and ARP.
static __always_inline void guard_see_link(const struct packet *p, struct guard_case *c)
{
	c->source = guard_mac(p);
	switch (p->protocol) {
	case bpf_htons(ETH_P_PPP_SES):
	case bpf_htons(ETH_P_MPLS_UC):
	case bpf_htons(ETH_P_MPLS_MC):
		c->class = GUARD_KERNEL; // what others route through here
		return;
	case bpf_htons(GUARD_ETH_LLDP):
	case bpf_htons(ETH_P_SLOW):
	case bpf_htons(ETH_P_PAE):
	case bpf_htons(ETH_P_PPP_DISC):
		c->class = GUARD_LINK;
		return;
	}
	if (bpf_ntohs(p->protocol) < ETH_P_802_3_MIN) // IEEE 802.3: LLC follows
		c->class = GUARD_LINK;
}

static __always_inline int guard_is_routing(__u8 protocol)
{
	return protocol == GUARD_OSPF || protocol == GUARD_VRRP || protocol == IPPROTO_PIM;
}

static __always_inline void guard_see_routing(const struct packet *p, struct guard_case *c)
{
	struct guard_sender s = {};

	guard_sent_by(p, &s);
	c->class = s.neighbour || s.flags ? GUARD_ROUTING : GUARD_ROUTING_NEW;
}

// Bidirectional forwarding detection: RFC 5881, 5883, 7130, 7881.
static __always_inline int guard_is_bfd(__be16 port)
{
	return port == bpf_htons(3784) || port == bpf_htons(3785) || port == bpf_htons(4784) || port == bpf_htons(6784) ||
	       port == bpf_htons(7784);
}

static __always_inline int guard_is_dhcp(__be16 port, int ipv6)
{
	if (ipv6)
		return port == bpf_htons(546) || port == bpf_htons(547);
	return port == bpf_htons(67) || port == bpf_htons(68);
}

// The addresses and ports of a packet, for the kernel's tables of sockets.
static __always_inline __u32 guard_tuple(const struct packet *p, const __be16 *ports, struct bpf_sock_tuple *t, int ipv6)
{
	if (ipv6) {
		struct ipv6hdr *ip = p->ip;

		__builtin_memcpy(t->ipv6.saddr, ip->saddr.s6_addr32, sizeof(t->ipv6.saddr));
		__builtin_memcpy(t->ipv6.daddr, ip->daddr.s6_addr32, sizeof(t->ipv6.daddr));
		t->ipv6.sport = ports[0];
		t->ipv6.dport = ports[1];
		return sizeof(t->ipv6);
	}
	struct iphdr *ip = p->ip;

	t->ipv4.saddr = ip->saddr;
	t->ipv4.daddr = ip->daddr;
	t->ipv4.sport = ports[0];
	t->ipv4.dport = ports[1];
	return sizeof(t->ipv4);
}

// TCP to the router. A session is a connection that a socket holds: what only a listener would take
// is not, and neither is a handshake that has just begun. The peer of a configured BGP session
// that holds may send what it wants; all others have a share. `maybe`: the kernel may translate it.
static __always_inline void guard_see_tcp(const struct packet *p, struct guard_case *c, const __be16 *at, int ipv6, int maybe)
{
	__be16 bgp = bpf_htons(179);
	const __u8 *flags = (const __u8 *)at + 13;
	struct bpf_sock_tuple t = {};
	struct bpf_sock *sk;
	__u32 bytes, state = 0, peer = 0;

	if (!maybe)
		c->class = GUARD_TCP;
	if ((void *)(flags + 1) > p->end)
		return;
	if (at[0] == bgp || at[1] == bgp) {
		struct guard_sender s = {};

		guard_sent_by(p, &s);
		peer = s.flags & GUARD_PEER_BGP;
		if (peer)
			c->class = GUARD_BGP;
	}
	if ((*flags & (GUARD_SYN | GUARD_ACK)) == GUARD_SYN && !maybe)
		return; // begins a connection: no socket holds it
	bytes = guard_tuple(p, at, &t, ipv6);
	sk = bpf_skc_lookup_tcp(p->ctx, &t, bytes, BPF_F_CURRENT_NETNS, 0);
	if (sk) {
		state = sk->state;
		bpf_sk_release(sk);
	}
	if ((*flags & (GUARD_SYN | GUARD_ACK)) == GUARD_SYN) {
		if (state == GUARD_LISTENS && !peer)
			c->class = GUARD_TCP;
	} else if (state < GUARD_STATES && GUARD_HOLDS >> state & 1) {
		c->class = GUARD_SESSION;
		c->trusted = peer;
	}
}

static __always_inline void guard_see_udp(const struct packet *p, struct guard_case *c, const __be16 *at, int ipv6, int maybe)
{
	struct bpf_sock_tuple t = {};
	struct bpf_sock *sk;
	__u32 bytes;

	if (!maybe)
		c->class = GUARD_UDP_CLOSED;
	if ((void *)(at + 4) > p->end)
		return;
	if (guard_is_bfd(at[1])) {
		guard_see_routing(p, c);
		return;
	}
	if (guard_is_dhcp(at[1], ipv6)) {
		c->class = GUARD_DHCP;
		c->source = guard_mac(p);
		return;
	}
	bytes = guard_tuple(p, at, &t, ipv6);
	sk = bpf_sk_lookup_udp(p->ctx, &t, bytes, BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return;
	c->class = sk->state == GUARD_ESTABLISHED ? GUARD_SESSION : GUARD_UDP; // connected: to this very sender
	bpf_sk_release(sk);
}

// ICMP to the router. What answers may answer a host whose address was translated.
static __always_inline void guard_see_icmp(const struct packet *p, struct guard_case *c, const __u8 *type, int ipv6, int single,
					   int maybe)
{
	struct guard_sender s = {};

	if ((void *)(type + 1) > p->end)
		return;
	if (ipv6 && *type >= GUARD_ND_FIRST && *type <= GUARD_ND_LAST) {
		guard_sent_by(p, &s);
		guard_discovery(c, &s);
	} else if (single && (!maybe || *type == (ipv6 ? GUARD_ECHO6 : GUARD_ECHO4))) {
		c->class = GUARD_ICMP;
	}
}

// A packet for the router, or to a group or broadcast address. `at` is what follows its header, 0 when that is
// not to be looked at; `single` says that it is for this router alone.
static __always_inline void guard_see_local(const struct packet *p, struct guard_case *c, __u8 protocol, const __be16 *at,
					   int single, int ipv6, int maybe)
{
	if (guard_is_routing(protocol)) {
		guard_see_routing(p, c);
		return;
	}
	if (!at)
		return;
	if (protocol == (ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP)) {
		guard_see_icmp(p, c, (const __u8 *)at, ipv6, single, maybe);
		return;
	}
	if (protocol == IPPROTO_UDP && (void *)(at + 2) <= p->end && (single || guard_is_bfd(at[1]) || guard_is_dhcp(at[1], ipv6))) {
		guard_see_udp(p, c, at, ipv6, maybe);
		return;
	}
	if (!single)
		return;
	if (protocol == IPPROTO_TCP)
		guard_see_tcp(p, c, at, ipv6, maybe);
	else if (!maybe)
		c->class = GUARD_PROTOCOLS;
}

// Whether the routing table, or for IPv4 its shorthand, says that an address is the router's.
static __always_inline int guard_own6(__u32 vrf, const struct in6_addr *a)
{
	__u64 hop = next_hop(route6(vrf, high64(a), low64(a)));

	return HOP_KIND(hop) == HOP_STOP && HOP_REASON(hop) == REASON_LOCAL;
}

// Whether it matters if a packet is for the router. Conntrack's kfuncs know of TCP and UDP only: pings through
// a router that translates go up like those of no known connection.
static __always_inline int guard_asks(struct guard_case *c, __u32 flags, __u8 protocol)
{
	if (flags & GUARD_KNOWN) {
		if (protocol == IPPROTO_TCP || protocol == IPPROTO_UDP)
			return 0;
		if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6)
			c->class = GUARD_BEGINNING;
	}
	return flags & (GUARD_ASK | GUARD_LOCAL);
}

// A source that only the kernel can check. It is ordinary traffic where the source is reached over several next
// hops, of which the kernel's check takes the one that its hash picks, or by a route that the fast path can't
// follow. From any other it is a stray, as it would be dropped here if it were IPv4.
static __always_inline void guard_see_source(struct guard_case *c, __u64 hop)
{
	if (HOP_KIND(hop) == HOP_GROUP || (HOP_KIND(hop) == HOP_STOP && HOP_REASON(hop) == REASON_SPECIAL_ROUTE))
		c->class = GUARD_KERNEL;
}

// What the configuration lets through with a header in front of its ports: fragments, as those of IPv4; IPsec,
// as all that has no ports.
static __always_inline void guard_see_header(struct guard_case *c, __u8 header)
{
	if (header == IPPROTO_FRAGMENT)
		c->class = GUARD_FRAGMENT;
	else if (header == IPPROTO_AH)
		c->class = GUARD_KERNEL;
}

static __always_inline void guard_see4(const struct packet *p, struct guard_case *c, __u32 flags)
{
	struct iphdr *ip = p->ip;
	__u32 dst;

	c->source = guard_mac(p);
	if ((void *)(ip + 1) > p->end)
		return;
	c->source = bpf_ntohl(ip->saddr);
	if (flags & GUARD_SOURCE)
		guard_see_source(c, next_hop(route4(p->vrf, bpf_ntohl(ip->saddr))));
	dst = bpf_ntohl(ip->daddr);
	if (!guard_asks(c, flags, ip->protocol) || (flags & GUARD_ASK && !perhaps_own(dst)))
		return;
	if (!ip->saddr)
		c->source = guard_mac(p);
	guard_see_local(p, c, ip->protocol, ip->frag_off & bpf_htons(IPV4_FRAGMENT) || ip->ihl != 5 ? 0 : (void *)(ip + 1),
		       !(flags & GUARD_GROUP) && !multicast4(dst) && dst != 0xffffffff, 0, flags & GUARD_MAYBE);
}

static __always_inline void guard_see6(const struct packet *p, struct guard_case *c, __u32 flags)
{
	struct ipv6hdr *ip = p->ip;

	c->source = guard_mac(p);
	if ((void *)(ip + 1) > p->end)
		return;
	c->source = guard_share6(&ip->saddr);
	if (flags & GUARD_SOURCE)
		guard_see_source(c, next_hop(route6(p->vrf, high64(&ip->saddr), low64(&ip->saddr))));
	if (flags & GUARD_HEADER)
		guard_see_header(c, ip->nexthdr);
	if (!guard_asks(c, flags, ip->nexthdr) || (flags & GUARD_ASK && !guard_own6(p->vrf, &ip->daddr)))
		return;
	guard_see_local(p, c, ip->nexthdr, (void *)(ip + 1), !(flags & GUARD_GROUP) && !multicast6(&ip->daddr), 1,
		       flags & GUARD_MAYBE);
}

static __always_inline void guard_see(const struct packet *p, struct guard_case *c, __u32 flags)
{
	c->class = flags & GUARD_CLASS;
	if (p->protocol == bpf_htons(ETH_P_IP)) {
		guard_see4(p, c, flags);
		return;
	}
	if (p->protocol == bpf_htons(ETH_P_IPV6)) {
		guard_see6(p, c, flags);
		return;
	}
	c->source = guard_mac(p);
	if (!(flags & GUARD_LOCAL))
		return;
	if (p->protocol == bpf_htons(ETH_P_ARP))
		guard_see_arp(p, c);
	else
		guard_see_link(p, c);
}

// guard_admits says whether a packet may go up, and takes it out of its class's budget.
static __noinline int guard_admits(const struct packet *p, __u32 why)
{
	__u32 zero = 0, flags;
	struct guard_control *g = bpf_map_lookup_elem(&guard_control, &zero);
	enum guard_outcome outcome;
	struct guard_case c = {};

	if (!g || !g->on || why >= REASON_COUNT)
		return 1;
	flags = guard_of_reason[why];
	if (flags)
		guard_see(p, &c, flags);
	outcome = guard_spend(c.class, p->interface, c.source, c.trusted);
	guard_count(c.class, outcome);
	return outcome == GUARD_PASSED;
}

#endif
