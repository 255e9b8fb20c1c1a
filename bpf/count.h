// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Counting. A packet is counted once: by reason when it ends here or goes up, by
// interface when it is forwarded. The tracing build counts nothing.
#ifndef MINNE_COUNT_H
#define MINNE_COUNT_H

#include "connection.h"

static __always_inline void count_reason(enum reason why)
{
	__u32 key = why;
	__u64 *count = bpf_map_lookup_elem(&reasons, &key);

	if (count)
		(*count)++;
}

// Counts a packet of a flow that is forwarded.
static __always_inline void touch(struct decision *d, __u32 bytes)
{
	struct flow_side *side = d->connection && d->connection->number ? flow_side(d->connection->number) : 0;

	if (side)
		flow_touch(side, bytes, flow_tick(d->connection->number));
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
