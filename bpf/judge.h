// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What the firewall says of a packet.
//
// When both interfaces are known, judge() looks at the way from zone to zone. Where state is kept, a
// packet of an established connection passes as conntrack lets it pass, with the translation
// that the connection has (find_flow); what belongs to none is dropped here when a rule
// drops it silently, and else is the kernel's, which makes a connection of it. Where no state is
// kept, the rules decide each packet alone. With translations, flows are looked for
// earlier, before the route: they may change the destination.
#ifndef MINNE_JUDGE_H
#define MINNE_JUDGE_H

#include "followed.h"
#include "route.h"

// The family is a constant everywhere here: the verifier knows the header's length by it.
static __always_inline void write_key(const struct packet *p, struct flow_key *key, __u32 ipv6)
{
	if (!ipv6) {
		struct iphdr *ip = p->ip;

		key->src[0] = key->dst[0] = 0;
		key->src[1] = ip->saddr;
		key->dst[1] = ip->daddr;
		key->rest = FLOW_REST(p->transport.sport, p->transport.dport, 0, p->transport.protocol, 4);
	} else {
		struct ipv6hdr *ip = p->ip;

		__builtin_memcpy(key->src, &ip->saddr, sizeof(key->src));
		__builtin_memcpy(key->dst, &ip->daddr, sizeof(key->dst));
		key->rest = FLOW_REST(p->transport.sport, p->transport.dport, 0, p->transport.protocol, 6);
	}
}

// A packet of no flow that is known here.
static __always_inline enum reason without_flow(struct xdp_md *ctx, struct connection *n, int is_tcp)
{
	enum reason beginning = n->policy & POLICY_BEGINNINGS ? REASON_BEGINNING : REASON_NONE;

	// Of a connection's packets only those with data can be the first that the fast path takes over; about the
	// others conntrack is asked when a rule is about to drop them.
	if (is_tcp && (n->tcp & (TCP_SYN | TCP_FIN | TCP_RST) || !(n->tcp & TCP_DATA)))
		return beginning;
	n->asked = 1;
	n->known = conntrack_learn(ctx, n);
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

		if (n->new.flags & FLOW_TRANSLATED)
			translate_by(n, k);
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
	if (hit->side->flags & FLOW_TRANSLATED && !translation(n, hit))
		return REASON_CONNECTION;
	carry(n, hit);
	return REASON_NONE;
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
	if (hit.side->flags & FLOW_TRANSLATED && !translation(n, &hit))
		return REASON_CONNECTION;
	carry(n, &hit);
	return REASON_NONE;
}

static __always_inline enum reason find_flow(struct packet *p, struct way *w, struct control *c, __u32 ipv6)
{
	struct connection *n;
	__u32 zero = 0;

	n = bpf_map_lookup_elem(&connections, &zero);
	if (!n)
		return REASON_CONNECTION;
	w->connection = n;
	n->number = n->egress = n->translated = n->diverted = n->asked = n->known = 0;
	write_key(p, &n->key, ipv6);
	n->policy = p->policy;
	n->tcp = p->transport.tcp;
	n->sequence = p->transport.sequence;
	n->timeout = p->transport.protocol == IPPROTO_TCP ? c->timeout_tcp : c->timeout_udp;
	STAGE(flow_of(p->ctx, n));
	if (!n->diverted)
		return REASON_NONE;
	if (!ipv6)
		p->dst[0] = n->to.dst[1];
	else
		__builtin_memcpy(p->dst, n->to.dst, sizeof(p->dst));
	return REASON_NONE;
}

// Where connections may be translated, a packet's is looked for before its route: a translation may
// change the destination. Else only where the way turns out to keep state (judge).
static __always_inline enum reason early_flow(struct packet *p, struct way *w, struct control *c, __u32 ipv6)
{
	return p->policy & POLICY_TRANSLATES ? find_flow(p, w, c, ipv6) : REASON_NONE;
}

// What the rules of a way say of a packet.
static __always_inline __u32 classified4(struct packet *p, __u64 way)
{
	struct iphdr *ip = p->ip;
	__u32 zero = 0, src = bpf_ntohl(ip->saddr), dst = bpf_ntohl(ip->daddr);
	__u32 number = WAY_TESTS(way) ? tested4(way, src, dst) : WAY_NUMBER(way);
	__u32 sole = policy_sole(p->policy, number, 0);
	struct question *q;

	if (sole)
		return sole;
	q = bpf_map_lookup_elem(&questions, &zero);
	if (!q)
		return 0;
	q->policy = p->policy;
	q->key.src[0] = (__u64)src << 32;
	q->key.dst[0] = (__u64)dst << 32;
	q->key.sport = bpf_ntohs(p->transport.sport);
	q->key.dport = bpf_ntohs(p->transport.dport);
	q->key.kind = p->transport.protocol;
	q->key.zone = number;
	return ask4(q);
}

static __always_inline __u32 classified6(struct packet *p, __u64 way)
{
	struct ipv6hdr *ip = p->ip;
	__u32 zero = 0, sole = WAY_TESTS(way) ? 0 : policy_sole(p->policy, WAY_NUMBER(way), 1);
	struct question *q;

	if (sole)
		return sole;
	q = bpf_map_lookup_elem(&questions, &zero);
	if (!q)
		return 0;
	q->way = way;
	q->policy = p->policy;
	q->key.src[0] = high64(&ip->saddr);
	q->key.src[1] = low64(&ip->saddr);
	q->key.dst[0] = high64(&ip->daddr);
	q->key.dst[1] = low64(&ip->daddr);
	q->key.sport = bpf_ntohs(p->transport.sport);
	q->key.dport = bpf_ntohs(p->transport.dport);
	q->key.kind = p->transport.protocol;
	return ask6(q);
}

// Whether conntrack has to be asked before a packet is dropped where state is kept, and knows it.
WITH_CONTEXT int connected(struct xdp_md *ctx, struct connection *n)
{
	if (!n)
		return 1;
	return n->asked ? n->known : conntrack_knows(ctx, &n->key);
}

// What a route says of a destination that conntrack may translate: a blackhole nothing, and an
// address of the router that the packet is perhaps the reply of a translated connection.
static __always_inline enum reason routed(struct packet *p, struct way *w, enum reason why)
{
	if (!(p->policy & POLICY_TRANSLATES))
		return why;
	if (why == REASON_BLACKHOLE)
		return REASON_CONNECTION;
	if (why == REASON_LOCAL && w->connection && !w->connection->asked &&
	    p->transport.protocol == IPPROTO_TCP && (p->transport.tcp & (TCP_SYN | TCP_ACK)) != TCP_SYN &&
	    connected(p->ctx, w->connection))
		return REASON_CONNECTION;
	return why;
}

// What a packet without flow is: when conntrack was not asked about it, TCP's flags tell.
static __always_inline enum reason begins(struct packet *p, struct way *w)
{
	if ((w->connection && w->connection->asked) || p->transport.protocol != IPPROTO_TCP)
		return REASON_BEGINNING;
	return (p->transport.tcp & (TCP_SYN | TCP_ACK)) == TCP_SYN ? REASON_BEGINNING : REASON_CONNECTION;
}

#ifdef CONNTRACK

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

// Whether a packet leaves by the interface that its flow hangs on.
static __always_inline int stays(struct connection *n, __u32 leaves)
{
	return n->egress == FLOW_ANY_EGRESS || n->egress == leaves || settle(n, leaves);
}

#else

static __always_inline int stays(struct connection *n, __u32 leaves)
{
	return 1; // there are no flows
}

#endif

static __always_inline enum reason judge(struct packet *p, struct way *w, struct control *c, __u32 ipv6)
{
	__u32 leaves = w->adj->interface, buffer = p->policy & POLICY_BUFFER;
	struct interface *out;
	__u64 way;
	int stateless;

	if (!p->policy)
		return REASON_NONE;
	out = bpf_map_lookup_elem(&interfaces, &leaves);
	if (!out)
		return REASON_ZONE;
	way = policy_way(p->policy, p->in->zone[buffer], out->zone[buffer]);
	if (!(WAY_FLAGS(way) & WAY_KNOWN))
		return REASON_ZONE;
	stateless = WAY_FLAGS(way) & WAY_STATELESS;
	if (trace_build)
		w->zones = p->in->zone[buffer] << 8 | out->zone[buffer];
	if (stateless) {
		if (w->connection && w->connection->translated)
			return REASON_CONNECTION;
	} else {
		if (!w->connection)
			STAGE(find_flow(p, w, c, ipv6));
		if (w->connection && w->connection->number)
			return stays(w->connection, leaves) ? REASON_NONE : REASON_CONNECTION;
		if (w->connection && w->connection->known)
			return REASON_CONNECTION;
	}

	w->verdict = ipv6 ? classified6(p, way) : classified4(p, way);
	switch (VERDICT_ACTION(w->verdict)) {
	case JUDGE_PERMIT:
		if (!stateless)
			return begins(p, w);
		if (p->policy & POLICY_MSS && p->transport.protocol == IPPROTO_TCP && (p->transport.tcp & (TCP_SYN | TCP_RST)) == TCP_SYN)
			return REASON_SEGMENT_SIZE;
		return policy_logs(w->verdict) ? REASON_LOGGED : REASON_NONE;
	case JUDGE_DROP:
		if (!stateless && connected(p->ctx, w->connection))
			return REASON_CONNECTION;
		if (policy_logs(w->verdict))
			return REASON_LOGGED;
		if (!trace_build)
			policy_count(p->policy, w->verdict, p->length);
		return REASON_DENIED;
	}
	return stateless ? REASON_RULE : begins(p, w);
}

#endif
