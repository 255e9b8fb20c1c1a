// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// How the journey of a packet ends that is not forwarded: dropped, or left to the kernel past
// the guard. It is counted by its reason, and sampled and traced where somebody asked for it.
#ifndef MINNE_LEAVE_H
#define MINNE_LEAVE_H

#include "capture.h"
#include "count.h"
#include "guard.h"
#include "label.h"

static __always_inline void write_trace(struct packet *p, struct decision *d, enum reason why)
{
	__u32 zero = 0;
	struct trace *t = bpf_map_lookup_elem(&trace, &zero);

	if (!t)
		return;
	t->reason = why;
	t->interface = p->interface;
	t->nexthop = d->nexthop;
	t->adjacency = d->adjacency;
	t->flow = d->connection ? d->connection->number : 0;
	t->verdict = d->verdict;
	t->zones = d->zones;
	t->egress = why == REASON_NONE && d->adj ? d->adj->interface : 0;
	t->port = why == REASON_NONE && d->adj ? d->adj->port : 0;
}

// Takes a sample if somebody asked for one. The budget may go below zero by a few.
static __always_inline void sample(struct packet *p, struct control *c, enum reason why)
{
	__u32 length = p->end - p->data;
	struct sample *s;

	if (c->samples <= 0)
		return;
	if (jumbo_build)
		length += bytes_beyond(p->ctx);
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
// get past the guard, and is held to the limit of its label.
static __always_inline int leave(struct packet *p, struct decision *d, struct control *c, enum reason why)
{
	int action = why < REASON_LAST_DROP ? XDP_DROP : XDP_PASS;
	int searched = label_build && action == XDP_PASS && label_of_reason[why & (REASONS_ROOM - 1)];
	__u32 said = 0;

	if (searched)
		label_note(p, d);
	if (!trace_build && action == XDP_PASS && !guard_admits(p, why)) {
		why = REASON_GUARD;
		action = XDP_DROP;
	} else if (searched) {
		said = label_noted(p->ctx);
		if (said & LABEL_DROP) {
			why = REASON_LABEL_LIMIT;
			action = XDP_DROP;
		}
	}
	captured_went(p, action, why, 0, d->verdict);
	if (trace_build) {
		write_trace(p, d, why);
	} else {
		count_reason(why);
		sample(p, c, why);
	}
	return action;
}

#endif
