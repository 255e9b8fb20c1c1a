// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// What the firewall decides about a packet.
//
// When both interfaces are known, firewall() looks at the pair of zones. Where state is kept, a
// packet of an established connection passes as conntrack lets it pass, with the translation
// that the connection has (connection.h); what belongs to none is dropped here when a rule
// drops it silently, and else is the kernel's, which makes a connection of it. Where no state is
// kept, the rules decide each packet alone. With translations, flows are looked for
// earlier, before the route: they may change the destination.
#ifndef MINNE_FIREWALL_H
#define MINNE_FIREWALL_H

#include "connection.h"
#include "policy.h"
#include "route.h"

// What the rules of a pair of zones say of a packet.
static __always_inline __u32 classified4(struct packet *p, __u64 pair)
{
	struct iphdr *ip = p->ip;
	__u32 zero = 0, src = bpf_ntohl(ip->saddr), dst = bpf_ntohl(ip->daddr);
	__u32 number = PAIR_TESTS(pair) ? tested4(pair, src, dst) : PAIR_NUMBER(pair);
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

static __always_inline __u32 classified6(struct packet *p, __u64 pair)
{
	struct ipv6hdr *ip = p->ip;
	__u32 zero = 0, sole = PAIR_TESTS(pair) ? 0 : policy_sole(p->policy, PAIR_NUMBER(pair), 1);
	struct question *q;

	if (sole)
		return sole;
	q = bpf_map_lookup_elem(&questions, &zero);
	if (!q)
		return 0;
	q->pair = pair;
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

// What a packet without flow is: when conntrack was not asked about it, TCP's flags tell.
static __always_inline enum reason begins(struct packet *p, struct decision *d)
{
	if ((d->connection && d->connection->asked) || p->transport.protocol != IPPROTO_TCP)
		return REASON_BEGINNING;
	return (p->transport.tcp & (TCP_SYN | TCP_ACK)) == TCP_SYN ? REASON_BEGINNING : REASON_CONNECTION;
}

static __always_inline enum reason firewall(struct packet *p, struct decision *d, struct control *c, __u32 ipv6)
{
	__u32 leaves = d->adj->interface, buffer = p->policy & POLICY_BUFFER;
	struct interface *out;
	__u64 pair;
	int stateless;

	if (!p->policy)
		return REASON_NONE;
	out = bpf_map_lookup_elem(&interfaces, &leaves);
	if (!out)
		return REASON_ZONE;
	pair = policy_pair(p->policy, p->in->zone[buffer], out->zone[buffer]);
	if (!(PAIR_FLAGS(pair) & PAIR_KNOWN))
		return REASON_ZONE;
	stateless = PAIR_FLAGS(pair) & PAIR_STATELESS;
	if (trace_build)
		d->zones = p->in->zone[buffer] << 8 | out->zone[buffer];
	if (stateless) {
		if (d->connection && d->connection->translated)
			return REASON_CONNECTION;
	} else {
		if (!d->connection)
			TRY(find_flow(p, d, c, ipv6));
		if (d->connection && d->connection->number)
			return stays(d->connection, leaves) ? REASON_NONE : REASON_CONNECTION;
		if (d->connection && d->connection->known)
			return REASON_CONNECTION;
	}

	d->verdict = ipv6 ? classified6(p, pair) : classified4(p, pair);
	switch (VERDICT_ACTION(d->verdict)) {
	case VERDICT_PERMIT:
		if (!stateless)
			return begins(p, d);
		if (p->policy & POLICY_MSS && p->transport.protocol == IPPROTO_TCP && (p->transport.tcp & (TCP_SYN | TCP_RST)) == TCP_SYN)
			return REASON_SEGMENT_SIZE;
		return policy_logs(d->verdict) ? REASON_LOGGED : REASON_NONE;
	case VERDICT_DROP:
		if (!stateless && connected(p->ctx, d->connection))
			return REASON_CONNECTION;
		if (policy_logs(d->verdict))
			return REASON_LOGGED;
		if (!trace_build)
			policy_count(p->policy, d->verdict, p->length);
		return REASON_DENIED;
	}
	return stateless ? REASON_RULE : begins(p, d);
}

#endif
