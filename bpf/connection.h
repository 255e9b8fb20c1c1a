// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// A packet's connection: its flow is found in the flow table (flow.h), or learned from conntrack
// (conntrack.h; where that has no functions for it, user space is asked: followed.h), and says
// what the packet is translated to (translate.h writes that).
//
// Packets without a flow are not decided here: begins() in firewall.h and the rules do.
#ifndef MINNE_CONNECTION_H
#define MINNE_CONNECTION_H

#include "conntrack.h"
#include "followed.h"

// A packet's connection: what is asked, and what is known of it. Pointers into the packet have no place
// in it, so that flow_of() can be a global function, which the verifier reads once.
struct connection {
	struct flow_key key; // of the packet
	struct flow_key to;  // what it leaves with, if it is translated
	struct flow_new new; // what is made of it when it is learned
	__u32 number;        // of its side in the flow table; 0 for none
	__u32 policy;        // control.policy
	__u32 timeout;       // of conntrack, ms
	__u32 egress;        // the only interface that the packet may leave by, FLOW_EGRESS
	__u8 tcp;            // flags
	__u8 translated;
	__u8 diverted;       // the translation has another destination
	__u8 asked;          // conntrack was asked
	__u8 known;          // what it said, enum known
	__u8 reserved;
	__u16 sequence;      // that of struct transport
};

// That of the packet at hand; each build of the program has its own.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct connection);
} connections SEC(".maps");

// What conntrack says of a connection.
enum known {
	CONNECTION_UNKNOWN,
	CONNECTION_PLAIN,      // not one that the fast path can carry, now or ever; nothing is translated
	CONNECTION_TRANSLATED, // neither, and its packets change
	CONNECTION_READY,      // established both ways, and nothing but addresses to change
};

// The family is a constant everywhere here: the verifier knows the header's length by it.
static __always_inline void write_key(const struct packet *p, struct flow_key *key, __u32 ipv6)
{
	__u32 zone = vrf_zone(p->vrf);

	if (!ipv6) {
		struct iphdr *ip = p->ip;

		key->src[0] = key->dst[0] = 0;
		key->src[1] = ip->saddr;
		key->dst[1] = ip->daddr;
		key->rest = FLOW_REST(p->transport.sport, p->transport.dport, zone, p->transport.protocol, 4);
	} else {
		struct ipv6hdr *ip = p->ip;

		__builtin_memcpy(key->src, &ip->saddr, sizeof(key->src));
		__builtin_memcpy(key->dst, &ip->daddr, sizeof(key->dst));
		key->rest = FLOW_REST(p->transport.sport, p->transport.dport, zone, p->transport.protocol, 6);
	}
}

// flow_lookup that leaves no mark when the tracing build asks.
static __always_inline int lookup(const struct flow_key *key, struct flow_hit *hit)
{
#ifndef CONNTRACK
	return 0; // no flow is ever learned
#endif
	if (!trace_build)
		return flow_lookup(key, hit);

	struct flow_control *c = flow_controls();

	return c && flow_find(c, key, hit) && hit->side->generation == (__u16)c->generation;
}

// What is translated leaves with the replies' addresses, turned round: n->to.
static __always_inline void note_translation(struct connection *n)
{
	n->translated = 1;
	n->diverted = !!((n->to.dst[0] ^ n->key.dst[0]) | (n->to.dst[1] ^ n->key.dst[1]) |
			 ((n->to.rest ^ n->key.rest) & 0xffff0000));
}

// A packet's flow is the one that was found: by its number the packet is counted, by its translation it leaves.
static __always_inline enum reason carry(struct connection *n, const struct flow_hit *hit)
{
	if (hit->side->flags & FLOW_TRANSLATED) {
		if (!flow_translation(hit, &n->to))
			return REASON_CONNECTION;
		note_translation(n);
	}
	n->number = hit->number;
	if (!(hit->number & 1))
		n->egress = FLOW_EGRESS(hit->side->packets);
	return REASON_NONE;
}

#ifdef CONNTRACK

// Whether the replies go just the other way, with the same addresses and ports.
static __always_inline int is_plain(const struct flow_new *n)
{
	struct flow_key back;

	flow_key_reverse(&back, &n->reply);
	return flow_same(&back, &n->original);
}

// learn asks conntrack about a packet's connection and makes a flow of it if it is ready.
static __noinline int learn(struct xdp_md *ctx, struct connection *c)
{
	__u32 protocol = c->key.rest >> 48 & 0xff, family = c->key.rest >> 56, zone = c->key.rest >> 32 & 0xffff;
	struct nf_conn *ct = conntrack_find(ctx, &c->key, NULL);
	struct flow_new *n = &c->new;
	int ready, otherwise;

	if (!ct)
		return CONNECTION_UNKNOWN;
	ready = is_ready(ct, protocol);
	otherwise = ct->status & IPS_NAT ? CONNECTION_TRANSLATED : CONNECTION_PLAIN;
	if (ready) {
		READ_SIDE(n->original, ct, 0, family, protocol, zone);
		READ_SIDE(n->reply, ct, 1, family, protocol, zone);
		n->egress = masqueraded_on(ct);
	}
	bpf_ct_release(ct);
	if (!ready)
		return otherwise;
	n->now = flow_now();
	n->flags = is_plain(n) ? 0 : FLOW_TRANSLATED;
	if (trace_build)
		return CONNECTION_READY;
	return flow_insert(n) == FLOW_MADE ? CONNECTION_READY : otherwise;
}

// Those of other protocols than TCP and UDP.
static __noinline int followed_flow(struct connection *n)
{
	struct flow_hit hit = {};
	__u16 tick, now = flow_now(); // by which user space confirms

	if (!followed_key(&n->key, n->sequence, n->policy))
		return REASON_CONNECTION;
	if (!lookup(&n->key, &hit) || (__u16)(now - hit.side->mark + 1) > FOLLOWED_TICKS + 1) { // user space may be a tick ahead
		followed_ask(&n->key);
		return REASON_CONNECTION;
	}
	tick = flow_tick(hit.number);
	if (hit.side->seen != tick && !trace_build) {
		hit.side->seen = tick;
		return REASON_CONNECTION;
	}
	return carry(n, &hit);
}

// settle is for a packet that leaves by another interface than its flow's packets did: the kernel shall say what becomes
// of the connection. Where it has not seen one leave yet, it sees this one, and the next pass.
static __noinline int settle(struct connection *n, __u32 leaves)
{
	struct flow_side *side = flow_side(n->number);
	__u64 packets;

	if (trace_build || !side)
		return 0;
	packets = *(volatile __u64 *)&side->packets;
	if (FLOW_EGRESS(packets) == FLOW_UNSEEN_EGRESS)
		__sync_val_compare_and_swap(&side->packets, packets, FLOW_PACKETS(packets) | (__u64)leaves << FLOW_EGRESS_SHIFT);
	else if (flow_remove(n->number))
		FLOW_COUNT(active);
	return 0;
}

#else

static __always_inline int learn(struct xdp_md *ctx, struct connection *n)
{
	return n->policy & POLICY_TRANSLATES ? CONNECTION_TRANSLATED : CONNECTION_PLAIN; // perhaps
}

static __always_inline int followed_flow(struct connection *n)
{
	return REASON_CONNECTION;
}

static __always_inline int settle(struct connection *n, __u32 leaves)
{
	return 0;
}

#endif

// A packet of no flow that is known here.
static __always_inline enum reason without_flow(struct xdp_md *ctx, struct connection *n, int is_tcp)
{
	enum reason beginning = n->policy & POLICY_BEGINNINGS ? REASON_BEGINNING : REASON_NONE;

	// Of a connection's packets only those with data can be the first that the fast path takes over; about the
	// others conntrack is asked when a rule is about to drop them.
	if (is_tcp && (n->tcp & (TCP_SYN | TCP_FIN | TCP_RST) || !(n->tcp & TCP_DATA)))
		return beginning;
	n->asked = 1;
	n->known = learn(ctx, n);
	switch (n->known) {
	case CONNECTION_READY:
		return REASON_LEARNED;
	case CONNECTION_TRANSLATED:
		return REASON_CONNECTION;
	case CONNECTION_PLAIN:
		return REASON_NONE; // where no state is kept, the rules decide all the same
	}
	return beginning;
}

// How far sequence numbers of one direction may lie from each other, in units of 64 KiB: 8 MiB either way.
#define SEQUENCE_REACH 128

// Whether a segment continues what the flow's last segments said. Conntrack has not seen those, and takes every
// FIN and RST for true (nf_conntrack_tcp_be_liberal): a forged one, whose sender has to guess the
// number, is not told to it, and the far end ignores it. The mark of a side is the upper
// half of the last sequence number, 0 when none was seen. What is out of reach moves it once in a tick only.
static __always_inline int continues(struct flow_side *side, __u16 sequence, int new_tick)
{
	__u16 last = side->mark;
	int near = !last || (__u16)(sequence - last + SEQUENCE_REACH) < 2 * SEQUENCE_REACH;

	if ((near || new_tick) && last != sequence && !trace_build)
		side->mark = sequence;
	return near;
}

// What is known of a packet by which the flow was learned just now. The tracing build makes no flow, and says
// what would have been made.
static __always_inline enum reason learned(struct connection *n, struct flow_hit *hit)
{
	struct flow_side *other;

	if (trace_build) {
		const struct flow_key *k = flow_same(&n->key, &n->new.original) ? &n->new.reply : &n->new.original;

		if (n->new.flags & FLOW_TRANSLATED) {
			flow_key_reverse(&n->to, k);
			note_translation(n);
		}
		n->number = ~0U;
		n->egress = k == &n->new.reply ? n->new.egress : FLOW_ANY_EGRESS;
		return REASON_NONE;
	}
	if (!lookup(&n->key, hit))
		return REASON_LEARNED;
	hit->side->seen = flow_tick(hit->number); // conntrack has been asked in this tick
	other = flow_side(hit->number ^ 1);
	if (other)
		other->seen = hit->side->seen;
	return carry(n, hit);
}

// flow_of finds a packet's flow, or learns it from conntrack.
WITH_CONTEXT int flow_of(struct xdp_md *ctx, struct connection *n)
{
	struct flow_hit hit = {};
	__u16 now;
	int is_tcp;

	if (!n)
		return REASON_INTERNAL;
	is_tcp = (n->key.rest >> 48 & 0xff) == IPPROTO_TCP;
	if (!is_tcp && (n->key.rest >> 48 & 0xff) != IPPROTO_UDP)
		return followed_flow(n);
	if (!lookup(&n->key, &hit)) {
		enum reason why = without_flow(ctx, n, is_tcp);

		return why == REASON_LEARNED ? learned(n, &hit) : why;
	}
	now = flow_tick(hit.number);
	if (is_tcp) {
		__u32 end = n->tcp & (TCP_FIN | TCP_RST);

		if (n->tcp & TCP_SYN || !(n->tcp & (TCP_ACK | TCP_RST)) || (n->tcp & TCP_RST && n->tcp & (TCP_FIN | TCP_URG)))
			return REASON_CONNECTION; // conntrack calls most of these invalid (tcp_valid_flags)
		if (continues(hit.side, n->sequence, hit.side->seen != now && !end) && end) {
			if (!trace_build)
				flow_delete(&hit);
			return REASON_ENDS;
		}
	}
	if (hit.side->seen != now && !trace_build) {
		if (!conntrack_renew(ctx, &n->key, n->timeout)) {
			flow_delete(&hit);
			return REASON_CONNECTION;
		}
		hit.side->seen = now; // once in a tick, whatever becomes of the packet
	}
	return carry(n, &hit);
}

// find_flow finds what is known of the connection of a packet.
static __always_inline enum reason find_flow(struct packet *p, struct decision *d, struct control *c, __u32 ipv6)
{
	struct connection *n;
	__u32 zero = 0;

	n = bpf_map_lookup_elem(&connections, &zero);
	if (!n)
		return REASON_CONNECTION;
	d->connection = n;
	n->number = n->egress = n->translated = n->diverted = n->asked = n->known = 0;
	write_key(p, &n->key, ipv6);
	n->policy = p->policy;
	n->tcp = p->transport.tcp;
	n->sequence = p->transport.sequence;
	n->timeout = p->transport.protocol == IPPROTO_TCP ? c->timeout_tcp : c->timeout_udp;
	return flow_of(p->ctx, n);
}

// Where connections may be translated, a packet's is looked for before its route: a translation may
// change the destination. Else only where the pair of zones turns out to keep state (judge).
static __always_inline enum reason early_flow(struct packet *p, struct decision *d, struct control *c, __u32 ipv6)
{
	return p->policy & POLICY_TRANSLATES ? find_flow(p, d, c, ipv6) : REASON_NONE;
}

// Whether the destination that is routed is not the packet's.
static __always_inline int diverted(const struct decision *d)
{
	return d->connection && d->connection->diverted;
}

// Whether a packet leaves by the interface that its flow hangs on.
static __always_inline int stays(struct connection *n, __u32 leaves)
{
	return n->egress == FLOW_ANY_EGRESS || n->egress == leaves || settle(n, leaves);
}

// Whether conntrack has to be asked before a packet is dropped where state is kept, and knows it.
WITH_CONTEXT int connected(struct xdp_md *ctx, struct connection *n)
{
	if (!n)
		return 1;
	return n->asked ? n->known : conntrack_knows(ctx, &n->key);
}

#endif
