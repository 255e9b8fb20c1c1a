// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Counting and sampling. A packet is counted once: by reason when it ends here or
// goes up, by interface when it is forwarded. The tracing build counts nothing.
#ifndef MINNE_COUNT_H
#define MINNE_COUNT_H

#include "capture.h"
#include "guard.h"
#include "match.h"
#include "route.h"

static __always_inline void write_trace(struct packet *p, struct way *w, enum reason why)
{
	__u32 zero = 0;
	struct trace *t = bpf_map_lookup_elem(&trace, &zero);

	if (!t)
		return;
	t->reason = why;
	t->interface = p->interface;
	t->nexthop = w->nexthop;
	t->adjacency = w->adjacency;
	t->flow = w->connection ? w->connection->number : 0;
	t->verdict = w->verdict;
	t->zones = w->zones;
	t->egress = why == REASON_NONE && w->adj ? w->adj->interface : 0;
	t->port = why == REASON_NONE && w->adj ? w->adj->port : 0;
}

// Takes a sample if somebody asked for one. The budget may go below zero by a few.
static __always_inline void sample(struct packet *p, struct control *c, enum reason why)
{
	__u32 length = p->end - p->data;
	struct sample *s;

	if (c->samples <= 0)
		return;
	__sync_fetch_and_add(&c->samples, -1);
	s = bpf_ringbuf_reserve(&samples, sizeof(*s), 0);
	if (!s)
		return;
	s->time = bpf_ktime_get_ns();
	s->port = p->ctx->ingress_ifindex;
	s->reason = why;
	s->length = length;
	if (length > SAMPLE_BYTES)
		length = SAMPLE_BYTES;
	if (length > 0)
		bpf_xdp_load_bytes(p->ctx, 0, s->frame, length);
	bpf_ringbuf_submit(s, 0);
}

// Ends the journey: drop or punt, by the reason's place in its list. What is punted must
// get past the guard, and is held to the limit of what it was recognised as.
static __always_inline int leave(struct packet *p, struct way *w, struct control *c, enum reason why)
{
	int action = why < REASON_LAST_DROP ? XDP_DROP : XDP_PASS;
	int searched = match_build && action == XDP_PASS && why < REASON_COUNT && match_of_reason[why];
	__u32 key, said = 0;

	if (searched)
		match_note(p, w);
	if (!trace_build && action == XDP_PASS && !guard_admits(p, why)) {
		why = REASON_GUARD;
		action = XDP_DROP;
	} else if (searched) {
		said = match_noted(p->ctx);
		if (said & MATCH_DROP) {
			why = REASON_RECOGNISED;
			action = XDP_DROP;
		}
	}
	key = why;
	captured_went(p, action, why, 0, w->verdict);
	if (trace_build) {
		write_trace(p, w, why);
	} else {
		__u64 *count = bpf_map_lookup_elem(&reasons, &key);
		if (count)
			(*count)++;
		sample(p, c, why);
	}
	return action;
}

// Counts a packet of a flow that is forwarded.
static __always_inline void touch(struct way *w, __u32 bytes)
{
	struct flow_side *side = w->connection && w->connection->number ? flow_side(w->connection->number) : 0;

	if (side)
		flow_touch(side, bytes, flow_tick(w->connection->number));
}

static __always_inline void count_forwarded(__u32 in_slot, __u32 in_bytes, __u32 out_slot, __u32 out_bytes)
{
	struct traffic *in = bpf_map_lookup_elem(&traffic, &in_slot);
	struct traffic *out = bpf_map_lookup_elem(&traffic, &out_slot);

	if (in) {
		in->rx_packets++;
		in->rx_bytes += in_bytes;
	}
	if (out) {
		out->tx_packets++;
		out->tx_bytes += out_bytes;
	}
}

#endif
