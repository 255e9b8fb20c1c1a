// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// The fast path: a packet's journey through the router.
//
// The kernel decides, this program repeats. It forwards what it can forward exactly
// as Linux would, to the byte; what Linux would silently drop, it drops; everything
// else goes up to the kernel untouched. decide() below reads in the order of the
// journey and never writes to the packet; forward() only writes.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "count.h"
#include "firewall.h"
#include "leave.h"
#include "maps.h"
#include "parse.h"
#include "ordinary.h"
#include "rewrite.h"
#include "route.h"
#include "sanity.h"
#include "spoof.h"
#include "spread.h"
#include "stages.h"
#include "summed.h"
#include "translate.h"
#include "transport.h"

// Without a sign of the daemon the tables are true for some minutes, then the kernel's are asked. The kernel's ticks
// are one load, which its verifier puts in the place of the call.
static __always_inline enum reason daemon_lives(struct control *c, __u32 off)
{
	__u64 trusted = *(volatile __u64 *)&c->trusted;

	if (off)
		return off;
	return trusted && (__s64)(bpf_jiffies64() - trusted) > 0 ? REASON_NO_DAEMON : REASON_NONE;
}

static __always_inline enum reason decide4(struct packet *p, struct decision *d, struct control *c)
{
	PASS(FAMILY, daemon_lives(c, c->off4));
	PASS(SANITY, sane_ipv4(p));
	PASS(ORDINARY, ordinary_ipv4(p));
	PASS(TRANSPORT, transport4(p, c));
	PASS(CONNECTION, early_flow(p, d, c, 0));
	PASS(ROUTE, find_route4(p, d));
	PASS(SOURCE, check_source4(p));
	PASS(NEXT_HOP, find_adjacency4(p, d, c));
	PASS(SIZE, fits(p, d, d->adj->mtu4, p->in->flags & IF_REDIRECTS4));
	PASS(FIREWALL, firewall(p, d, c, 0));
	PASS(CHECKSUM, summed4(p));
	PASS(FRESH, refresh(d));
	PASS(LABEL, label_limited(p, d));
	return REASON_NONE;
}

static __always_inline enum reason decide6(struct packet *p, struct decision *d, struct control *c)
{
	PASS(FAMILY, daemon_lives(c, c->off6));
	PASS(SANITY, sane_ipv6(p));
	PASS(ORDINARY, ordinary_ipv6(p));
	PASS(TRANSPORT, transport6(p, c));
	PASS(CONNECTION, early_flow(p, d, c, 1));
	PASS(ROUTE, find_route6(p, d));
	PASS(SOURCE, check_source6(p));
	PASS(NEXT_HOP, find_adjacency6(p, d, c));
	PASS(SIZE, fits(p, d, d->adj->mtu6, 1));
	PASS(FIREWALL, firewall(p, d, c, 1));
	PASS(CHECKSUM, summed6(p));
	PASS(FRESH, refresh(d));
	PASS(LABEL, label_limited(p, d));
	return REASON_NONE;
}

static __always_inline enum reason decide(struct packet *p, struct decision *d, struct control *c)
{
	PASS(ARRIVAL, parse_frame(p));
	begin_ip(p);
	if (p->protocol == bpf_htons(ETH_P_IP))
		return decide4(p, d, c);
	if (p->protocol == bpf_htons(ETH_P_IPV6))
		return decide6(p, d, c);
	PASS(FAMILY, REASON_ETHERTYPE);
	return REASON_NONE;
}

static __always_inline int forward(struct packet *p, struct decision *d, struct control *c)
{
	__u32 in_bytes = p->end - p->data, tags = d->adj->tags, out_bytes;
	enum reason why;
	void *ip;

	why = fit_tags(p, d, tags);
	note(STAGE_REWRITE, why);
	if (why != REASON_NONE)
		return leave(p, d, c, why);
	ip = write_ethernet(p, d, tags);
	if (!ip)
		return leave(p, d, c, REASON_INTERNAL);
	if (p->protocol == bpf_htons(ETH_P_IP) ? !age_ipv4(p, ip) : !age_ipv6(p, ip))
		return leave(p, d, c, REASON_INTERNAL);
	if (d->connection && d->connection->translated &&
	    (p->protocol == bpf_htons(ETH_P_IP) ? !translate4(p, ip, &d->connection->to) : !translate6(p, ip, &d->connection->to)))
		return leave(p, d, c, REASON_INTERNAL);
	out_bytes = sizeof(struct ethernet) + tags * sizeof(struct tag) + p->length;
	if (pppoe_build)
		out_bytes += pppoe_bytes(d->session);
	trim(p, out_bytes);
	captured_went(p, XDP_REDIRECT, REASON_NONE, d->adj->interface, d->verdict);

	if (trace_build) {
		write_trace(p, d, REASON_NONE);
		return XDP_REDIRECT;
	}
	touch(d, p->length);
	policy_count(p->policy, d->verdict, p->length);
	if (jumbo_build && in_bytes < p->length)
		in_bytes = sizeof(struct ethernet) + p->tags * sizeof(struct tag) + p->length;
	if (pppoe_build && p->in->flags & IF_SESSION) // the kernel counts a session's packets without their frames
		in_bytes = p->room;
	if (pppoe_build && d->session)
		out_bytes = p->length;
	count_forwarded(p->in->slot, in_bytes, d->adj->slot, out_bytes);
	return bpf_redirect_map(&ports, d->adj->port, XDP_DROP);
}

SEC("xdp")
int router(struct xdp_md *ctx)
{
	struct packet p = {
		.ctx = ctx,
		.data = (void *)(long)ctx->data,
		.end = (void *)(long)ctx->data_end,
	};
	struct decision d = {};
	__u32 zero = 0;
	struct control *c = bpf_map_lookup_elem(&control, &zero);

	if (!c)
		return XDP_PASS;
	captured_came(ctx);
	enum reason why = decide(&p, &d, c);
	if (why != REASON_NONE)
		return leave(&p, &d, c, why);
	return forward(&p, &d, c);
}

// On ports that spread their packets: the program above then runs on the CPUs that it hands them to.
SEC("xdp")
int router_spread(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct control *c = bpf_map_lookup_elem(&control, &zero);

	return c ? spread(ctx, c) : XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
