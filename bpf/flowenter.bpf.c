// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//
// Makes a flow for user space: one test run for each, over the router's own maps.
// The packet of the run is a struct flow_new.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "flow_write.h"

SEC("xdp")
int flow_enter(struct xdp_md *ctx)
{
	struct flow_new n;

	if (bpf_xdp_load_bytes(ctx, 0, &n, sizeof(n)))
		return FLOW_REFUSED_BROKEN;
	return flow_insert(&n);
}

char _license[] SEC("license") = "Dual BSD/GPL";
